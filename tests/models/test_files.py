"""Where a model's files are found, what they say, and what is refused and with which remedy."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from bertfeat.core.encoder import Precision, load_encoder
from bertfeat.core.encoder.packed import PackedEncoder
from bertfeat.core.encoder.padded import TransformersEncoder
from bertfeat.core.extraction import Extractor
from bertfeat.core.models import Model, find_model
from bertfeat.core.recipe import Pooling
from bertfeat.core.tokens import Tokenizer
from bertfeat.errors import ModelError
from tests.support.tiny_models import CPU, LONG_TEXT, PAIRS, TEXTS, Tiny, build, documents, rewrite, text_states


def configure(folder: Path, **changes: Any) -> Path:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    return folder


def write(folder: Path, name: str, content: object) -> None:
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(content))


def load(folder: Path) -> Tiny:
    model = find_model(folder)
    assert model.config is not None
    return Tiny.load(folder)


def same_as_hugging_face(tiny: Tiny, folder: Path) -> None:
    found = tiny.features(documents(TEXTS), "all", Pooling.TOKEN)
    for at, text in enumerate(TEXTS):
        wanted = text_states(folder, text)
        for layer in range(6):
            np.testing.assert_allclose(found.tokens(f"layer{layer}_token", at), wanted[layer], rtol=0, atol=3e-5)


# ── what the files say ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, Pooling.CLS),
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, Pooling.MEAN),
        ({"pooling_mode_max_tokens": True}, Pooling.MAX),
        ({"pooling_mode": "cls"}, Pooling.CLS),
        ({"pooling_mode": "lasttoken"}, Pooling.LAST),
        ({"pooling_mode_lasttoken": True, "pooling_mode_mean_tokens": False}, Pooling.LAST),
        ({"pooling_mode_cls_token": False}, Pooling.MEAN),
    ],
)
def test_pooling_of_the_models_own_configuration(bert_folder: Path, settings: object, wanted: Pooling) -> None:
    modules = [
        {"path": "", "type": "sentence_transformers.models.Transformer"},
        {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"path": "2_Dense", "type": "sentence_transformers.models.Dense"},
    ]
    write(bert_folder, "modules.json", modules)
    write(bert_folder, "1_Pooling/config.json", settings)
    found = Model("x", bert_folder)
    assert found.pooling is wanted


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"pooling_mode_weightedmean_tokens": True}, "weightedmean"),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}, "max and mean"),
        ({"pooling_mode": ["mean", "cls"]}, "mean and cls"),
    ],
)
def test_a_pooling_that_bertfeat_lacks_is_not_replaced_in_silence(
    bert_folder: Path, settings: object, told: str
) -> None:
    modules = [{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]
    (bert_folder / "modules.json").write_text(json.dumps(modules))
    (bert_folder / "1_Pooling").mkdir()
    (bert_folder / "1_Pooling" / "config.json").write_text(json.dumps(settings))
    with pytest.raises(ModelError, match=f"its own pooling is '{told}', which goes with layers='sentence' only"):
        Extractor(bert_folder)
    assert [column.name for column in Extractor(bert_folder, pooling="mean").columns] == ["last_mean"]


def test_prompts(bert_folder: Path) -> None:
    write(bert_folder, "config_sentence_transformers.json", {"prompts": {"q": "query: "}, "default_prompt_name": "q"})
    assert Model("x", bert_folder).default_prompt == "query: "
    write(bert_folder, "config_sentence_transformers.json", {"prompts": {"q": "query: "}})
    assert Model("x", bert_folder).default_prompt == ""


def test_stored_limits_are_switched_off(bert_folder: Path) -> None:
    file = bert_folder / "tokenizer.json"
    stored = json.loads(file.read_text())
    stored["truncation"] = {"max_length": 8, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}
    stored["padding"] = {
        "strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": None,
        "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]",
    }  # fmt: skip
    file.write_text(json.dumps(stored))
    write(bert_folder, "sentence_bert_config.json", {"max_seq_length": 16})
    tiny = load(bert_folder)
    assert tiny.model.stored_limits == {"tokenizer.json": 8, "sentence_bert_config.json": 16}
    assert tiny.model.max_tokens == 64
    assert len(tiny.tokenizer.pieces([LONG_TEXT], offsets=False).ids) > 100
    assert len(tiny.tokenizer.pieces(["a"], offsets=True).ids) == 1


def test_positions(any_tiny: Tiny) -> None:
    assert any_tiny.model.max_tokens == 64
    assert any_tiny.model.num_layers == 5
    assert any_tiny.model.hidden_size == 32


# ── weights in all the forms they come in ───────────────────────────────────────────────────────────────────


def test_gamma_and_beta(bert_folder: Path) -> None:
    wanted = load(bert_folder).features(documents(TEXTS), "all", Pooling.MEAN)
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}

    def rename(name: str) -> str:
        for new, was in old.items():
            name = name.replace(new, was)
        return f"bert.{name}"

    rewrite(bert_folder, lambda tensors: {rename(name): tensor for name, tensor in tensors.items()})
    found = load(bert_folder).features(documents(TEXTS), "all", Pooling.MEAN)
    for name, matrix in wanted.computed.matrices.items():
        np.testing.assert_array_equal(found[name], matrix)


def test_weights_below_a_prefix_beside_a_head(bert_folder: Path) -> None:
    wanted = load(bert_folder).features(documents(TEXTS), "all", Pooling.MEAN)
    head = {"cls.predictions.bias": torch.zeros(400), "cls.predictions.transform.LayerNorm.weight": torch.ones(32)}
    rewrite(bert_folder, lambda tensors: {**{f"bert.{name}": t for name, t in tensors.items()}, **head})
    found = load(bert_folder).features(documents(TEXTS), "all", Pooling.MEAN)
    np.testing.assert_array_equal(found["layer5_mean"], wanted["layer5_mean"])


@pytest.mark.parametrize("own", ["", "bert."])
def test_of_two_encoders_in_a_file_the_own_one_counts(bert_folder: Path, own: str) -> None:
    wanted = load(bert_folder).features(documents(TEXTS), "all", Pooling.MEAN)

    def with_others(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        others = {f"{other}{name}": t + 1 for other in ("a.", "encoder_k.") for name, t in tensors.items()}
        return others | {f"{own}{name}": tensor for name, tensor in tensors.items()}

    rewrite(bert_folder, with_others)
    found = load(bert_folder).features(documents(TEXTS), "all", Pooling.MEAN)
    np.testing.assert_array_equal(found["layer5_mean"], wanted["layer5_mean"])


@pytest.mark.parametrize("prefixes", [("encoder_q.", "encoder_k."), ("a.b.", "query_encoder.", "c."), ("", "bert.")])
def test_two_encoders_in_a_file_none_of_them_the_own_one_are_refused(
    bert_folder: Path, prefixes: tuple[str, ...]
) -> None:
    rewrite(bert_folder, lambda tensors: {f"{prefix}{n}": t.clone() for prefix in prefixes for n, t in tensors.items()})
    with pytest.raises(ModelError, match="its weights hold several encoders: ") as caught:
        load(bert_folder)
    assert all(f"{prefix}embeddings.word_embeddings.weight" in str(caught.value) for prefix in prefixes)


def test_weights_of_the_library_below_a_prefix_beside_a_head(tmp_path: Path) -> None:
    folder = build("albert", tmp_path / "albert")
    wanted = load(folder).features(documents(TEXTS), "all", Pooling.MEAN)
    head = {"predictions.bias": torch.zeros(400), "predictions.LayerNorm.gamma": torch.ones(24)}

    def old(name: str) -> str:
        return f"albert.{name}".replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        )

    rewrite(folder, lambda tensors: {**{old(name): tensor for name, tensor in tensors.items()}, **head})
    found = load(folder).features(documents(TEXTS), "all", Pooling.MEAN)
    np.testing.assert_array_equal(found["layer5_mean"], wanted["layer5_mean"])


def shard(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    weight_map = {name: f"model-0000{1 + at % 2}-of-00002.safetensors" for at, name in enumerate(names)}
    for file in set(weight_map.values()):
        part = {name: tensors[name] for name in names if weight_map[name] == file}
        save_file(part, folder / file, {"format": "pt"})
    write(folder, "model.safetensors.index.json", {"metadata": {}, "weight_map": weight_map})


@pytest.mark.parametrize("family", ["bert", "albert"])
def test_sharded_weights(family: str, tmp_path: Path) -> None:
    folder = build(family, tmp_path / family)
    wanted = load(folder).features(documents(TEXTS), "all", Pooling.MEAN)
    shard(folder)
    found = load(folder).features(documents(TEXTS), "all", Pooling.MEAN)
    np.testing.assert_array_equal(found["layer5_mean"], wanted["layer5_mean"])
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(ModelError, match=r"model-00002-of-00002.safetensors is named in .* but is missing"):
        load(folder)


def test_weights_in_half_precision(bert_folder: Path) -> None:
    rewrite(bert_folder, lambda tensors: {name: tensor.half() for name, tensor in tensors.items()})
    same_as_hugging_face(load(bert_folder), bert_folder)


@pytest.mark.parametrize("act", ["relu", "gelu_new", "gelu_pytorch_tanh", "silu", "gelu_fast"])
def test_activations_known_and_unknown(act: str, tmp_path: Path) -> None:
    tiny = load(build("bert", tmp_path / act, hidden_act=act))
    packed = act in ("relu", "gelu_new", "gelu_pytorch_tanh")
    assert type(tiny.encoder) is (PackedEncoder if packed else TransformersEncoder)
    same_as_hugging_face(tiny, tiny.folder)
    found = tiny.features(documents(PAIRS), "last", Pooling.CLS)
    np.testing.assert_allclose(found["last_cls"][0], text_states(tiny.folder, *PAIRS[0])[-1][0], rtol=0, atol=3e-5)


@pytest.mark.parametrize(
    "changes", [{"num_hidden_layers": 1}, {"num_attention_heads": 1}, {"layer_norm_eps": 0.1}], ids=str
)
def test_other_shapes(changes: dict[str, Any], tmp_path: Path) -> None:
    tiny = load(build("bert", tmp_path / "other", **changes))
    found = tiny.features(documents(TEXTS), "last", Pooling.CLS)
    for at, text in enumerate(TEXTS):
        np.testing.assert_allclose(found["last_cls"][at], text_states(tiny.folder, text)[-1][0], rtol=0, atol=3e-5)


# ── what cannot be used ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("family", ["bert", "distilbert", "albert"])
def test_missing_weights_are_named(family: str, tmp_path: Path) -> None:
    folder = build(family, tmp_path / family)
    gone = next(n for n in sorted(load_file(folder / "model.safetensors")) if "ffn" in n or "output.dense.weight" in n)
    rewrite(folder, lambda tensors: {name: tensor for name, tensor in tensors.items() if name != gone})
    with pytest.raises(ModelError, match=f"lack .*{gone.split('.')[-2]}"):
        load(folder)


@pytest.mark.parametrize("family", ["bert", "modernbert"])
@pytest.mark.parametrize("keep", [0, 4, 1000, -100])
def test_truncated_weights(family: str, keep: int, tmp_path: Path) -> None:
    folder = build(family, tmp_path / family)
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(ModelError, match=r"cannot be read|cannot load"):
        load(folder)


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_pickled_weights_are_refused_with_the_conversion_command(family: str, tmp_path: Path) -> None:
    folder = build(family, tmp_path / family)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(
        ModelError, match=r"only pytorch_model.bin; bertfeat reads safetensors only.*\n.*save_pretrained"
    ):
        load(folder)


def test_no_weights_at_all(bert_folder: Path) -> None:
    (bert_folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="has no weights"):
        load(bert_folder)


def test_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"has no config.json"):
        load(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", "\xff"])
def test_a_damaged_configuration(bert_folder: Path, text: str) -> None:
    (bert_folder / "config.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ModelError, match=r"config.json"):
        load(bert_folder)


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_no_tokenizer(family: str, tmp_path: Path) -> None:
    folder = build(family, tmp_path / family)
    for file in folder.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(ModelError, match="tokenizer"):
        Tokenizer(Model("x", folder))


def test_a_damaged_tokenizer(bert_folder: Path) -> None:
    (bert_folder / "tokenizer.json").write_text('{"version": "1.0"')
    with pytest.raises(ModelError, match="tokenizer"):
        Tokenizer(Model("x", bert_folder))


@pytest.mark.parametrize("kind", ["bart", "bloom", "longt5", "xglm"])
def test_decoders_are_refused(bert_folder: Path, kind: str) -> None:
    write(bert_folder, "config.json", {"model_type": kind})
    with pytest.raises(ModelError, match=f"model_type '{kind}' is no encoder"):
        _ = Model("x", bert_folder).config


def test_a_bert_that_was_made_a_decoder(bert_folder: Path) -> None:
    with pytest.raises(ModelError, match="no encoder"):
        load(configure(bert_folder, is_decoder=True))


@pytest.mark.parametrize("auto_map", [{}, {"auto_map": {"AutoConfig": "code.Config", "AutoModel": "code.Model"}}])
def test_code_of_a_repository_is_never_run(bert_folder: Path, auto_map: dict[str, Any]) -> None:
    (bert_folder / "code.py").write_text(f"open({str(bert_folder / 'ran')!r}, 'w')")
    configure(bert_folder, model_type="very_new_bert", **auto_map)
    with pytest.raises(ModelError, match=r"model_type 'very_new_bert'.*bertfeat never does"):
        load(bert_folder)
    assert not (bert_folder / "ran").exists()


def test_weights_of_another_shape(bert_folder: Path) -> None:
    rewrite(
        bert_folder,
        lambda tensors: {n: t[:, :16] if n.endswith("output.dense.weight") else t for n, t in tensors.items()},
    )
    with pytest.raises(ModelError, match="shape"):
        load(bert_folder)


def test_relative_positions_are_not_taken_for_absolute_ones(bert_folder: Path) -> None:
    configure(bert_folder, position_embedding_type="relative_key")
    with pytest.raises(ModelError, match="relative_key"):
        load_encoder(Model("x", bert_folder), Precision.FP32, CPU)
