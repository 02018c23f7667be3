"""``--layers sentence`` is the vector that sentence-transformers gives a text, whatever modules follow the encoder."""

import json
import shutil
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from starlette.testclient import TestClient
from torch import nn

from bertfeat import Extractor, FeatureSet, Index, build_index, memory_corpus
from bertfeat.cli import main
from bertfeat.core.models import Model
from bertfeat.errors import ModelError, NotDerivableError, RecipeError, UsageError
from bertfeat.server import ServerSettings, create_app, open_service
from tests.support.sentence_models import oracle, peer
from tests.support.tiny_models import LONG_TEXT, TEXTS, Tiny

WIDTH = 32
SOME = [text for text in TEXTS if text.strip()] + [LONG_TEXT]
MODES = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")


def modules(kind: str) -> list[Any]:
    """What follows the encoder and the pooling of models that many use."""
    from sentence_transformers.sentence_transformer import modules as st

    torch.manual_seed(7)
    made: dict[str, Callable[[], list[Any]]] = {
        "sentence-t5, GTR": lambda: [
            st.Dense(WIDTH, WIDTH, bias=False, activation_function=nn.Identity()),
            st.Normalize(),
        ],
        "LaBSE": lambda: [st.Dense(WIDTH, WIDTH, activation_function=nn.Tanh()), st.Normalize()],
        "distiluse": lambda: [st.Dense(WIDTH, 16, activation_function=nn.Tanh())],
        "EmbeddingGemma": lambda: [
            st.Dense(WIDTH, 4 * WIDTH, bias=False, activation_function=nn.Identity()),
            st.Dense(4 * WIDTH, WIDTH, bias=False, activation_function=nn.Identity()),
            st.Normalize(),
        ],
        "LayerNorm": lambda: [st.LayerNorm(WIDTH), st.Dropout(0.3), st.Normalize()],
        "residual": lambda: [
            st.Dense(WIDTH, WIDTH, activation_function=nn.GELU(), use_residual=True),
            st.Dense(WIDTH, 8, activation_function=nn.SiLU(), use_residual=True),
        ],
        "all-MiniLM": lambda: [st.Normalize()],
    }
    return made[kind]()


KINDS = ("sentence-t5, GTR", "LaBSE", "distiluse", "EmbeddingGemma", "LayerNorm", "residual", "all-MiniLM")


def save(tiny: Tiny, folder: Path, steps: Sequence[Any], modes: str | Sequence[str] = "mean") -> Path:
    """Save a model as sentence-transformers itself does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer import modules as st

        encoder = st.Transformer(str(tiny.folder), max_seq_length=40)
        pooling = st.Pooling(WIDTH, pooling_mode=modes)
        SentenceTransformer(modules=[encoder, pooling, *steps], device="cpu").save(str(folder))
    return folder


@pytest.fixture(scope="module")
def make(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    known: dict[object, Path] = {}

    def made(kind: str, family: str = "bert") -> Path:
        if (kind, family) not in known:
            known[kind, family] = save(tiny(family), tmp_path_factory.mktemp("model") / "saved", modules(kind))
        return known[kind, family]

    return made


def assert_near(found: NDArray[np.float32], wanted: NDArray[np.float32]) -> None:
    """Within 1e-6 of the largest number: processors multiply in orders of their own."""
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6 * np.abs(wanted).max(initial=1.0))


def assert_like_the_library(folder: Path, **settings: Any) -> None:
    ours, theirs = peer(folder, layers="sentence", **settings), oracle(folder)
    wanted = theirs.encode(SOME)
    together = ours.encode(SOME)
    assert together.shape == wanted.shape
    scale = np.abs(wanted).max(initial=1.0)
    np.testing.assert_allclose(together, wanted, rtol=0, atol=1e-6 * scale)
    for text, vector in zip(SOME, wanted, strict=True):
        np.testing.assert_allclose(ours.encode(text), vector, rtol=0, atol=1e-6 * scale)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_like_the_library(make: Callable[..., Path], kind: str) -> None:
    assert_like_the_library(make(kind))


@pytest.mark.parametrize("family", ["mpnet", "distilbert", "xlm-roberta", "modernbert"])
def test_other_families(make: Callable[..., Path], family: str) -> None:
    assert_like_the_library(make("LaBSE", family))


@pytest.mark.parametrize(
    "modes", [*MODES, ("cls", "mean"), ("max", "mean_sqrt_len_tokens", "weightedmean"), MODES], ids=str
)
def test_every_pooling(tiny: Callable[[str], Tiny], tmp_path: Path, modes: str | Sequence[str]) -> None:
    assert_like_the_library(save(tiny("bert"), tmp_path / "saved", [], modes))


@pytest.mark.parametrize(
    "modes", [*(mode for mode in MODES if mode != "weightedmean"), ("cls", "mean", "max")], ids=str
)
@pytest.mark.parametrize("kind", ["LaBSE", None])
def test_poolings_without_the_prompt(
    tiny: Callable[[str], Tiny], tmp_path: Path, modes: str | Sequence[str], kind: str | None
) -> None:
    """As INSTRUCTOR has them: of a text with a prompt the tokens from the end of the prompt on."""
    steps = modules(kind) if kind and isinstance(modes, str) else []
    folder = save(tiny("bert"), tmp_path / "saved", steps, modes)
    change(folder / POOLING, include_prompt=False)
    theirs, ours = oracle(folder), peer(folder)
    assert [each.name for each in ours.columns] == ["last_sentence"]
    for prompt in ("", "the bank: ", "He said, "):
        wanted = theirs.encode(SOME, prompt=prompt)
        found = ours.encode(SOME, prompt=prompt)
        assert_near(found, wanted)
    assert not np.allclose(ours.encode(SOME, prompt="the bank: "), ours.encode(SOME), atol=1e-3)


@pytest.mark.parametrize("family", ["roberta", "modernbert"])
def test_bytes_without_the_prompt(tiny: Callable[[str], Tiny], tmp_path: Path, family: str) -> None:
    """The space at the end of a prompt is a token of it alone, and goes with the first word of a text."""
    folder = save(tiny(family), tmp_path / "saved", [], "mean")
    change(folder / POOLING, include_prompt=False)
    for prompt in ("query: ", "the bank:"):
        wanted = oracle(folder).encode(SOME, prompt=prompt)
        assert_near(peer(folder).encode(SOME, prompt=prompt), wanted)


def test_long_texts_without_the_prompt(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    """Windows are joined: the tokens are those of the text and its last special one, each once."""
    folder = save(tiny("bert"), tmp_path / "saved", [], "mean")
    change(folder / POOLING, include_prompt=False)
    settings: dict[str, Any] = {"precision": "fp32", "max_length": 24, "long": "window", "prompt": "the bank: "}
    tokens = Extractor(folder, layers="last", pooling="token", dtype="float32", **settings).features([LONG_TEXT])[0]
    wanted = tokens.matrix("last_token")[1:].mean(0)  # without [CLS]; a prompt has no vectors of tokens
    (found,) = Extractor(folder, **settings).encode([LONG_TEXT])
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)


def save_weighted(tiny: Tiny, folder: Path, *, first: int, all_layers: bool = True) -> Path:
    """Save a model that pools a weighted mean of its layers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer import modules as st

        torch.manual_seed(5)
        encoder = st.Transformer(
            str(tiny.folder), max_seq_length=40, config_kwargs={"output_hidden_states": all_layers}
        )
        mean = st.WeightedLayerPooling(WIDTH, num_hidden_layers=5, layer_start=first)
        with torch.no_grad():
            mean.layer_weights.copy_(torch.rand(6 - first) + 0.1)
        steps = [encoder, mean, st.Pooling(WIDTH, pooling_mode=["mean", "max"]), st.Dense(2 * WIDTH, 8)]
        SentenceTransformer(modules=steps, device="cpu").save(str(folder))
    return folder


@pytest.mark.parametrize(("first", "name"), [(2, "mean_2_5"), (0, "mean_0_5"), (4, "mean_4_5"), (5, "last")])
def test_a_weighted_mean_of_layers(tiny: Callable[[str], Tiny], tmp_path: Path, first: int, name: str) -> None:
    folder = save_weighted(tiny("bert"), tmp_path / "saved", first=first)
    assert_like_the_library(folder)
    both = Extractor(folder, layers="sentence,last,mean=2..5", pooling="mean", precision="fp32")
    assert [each.name for each in both.columns] == [f"{name}_sentence", "last_mean", "mean_2_5_mean"]
    plain = Extractor(tiny("bert").folder, layers="mean=2..5", pooling="mean", precision="fp32")
    for found, wanted in zip(both.features(SOME), plain.features(SOME), strict=True):
        np.testing.assert_allclose(found.vector("mean_2_5_mean"), wanted.vector("mean_2_5_mean"), rtol=0, atol=1e-6)
    both.extract(memory_corpus(SOME), tmp_path / "a.features")
    assert FeatureSet(tmp_path / "a.features").find("sentence").name == f"{name}_sentence"
    build_index(tmp_path / "a.features", tmp_path / "a.index")
    hit = Index(tmp_path / "a.index").search(SOME[0]).hits[0]
    assert (hit.text, round(float(hit.score), 4)) == (SOME[0], 1.0)


def test_long_texts_by_a_weighted_mean(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    folder = save_weighted(tiny("bert"), tmp_path / "saved", first=2)
    short = Extractor(folder, precision="fp32", max_length=16)
    whole = short.encode([LONG_TEXT, *SOME])
    np.testing.assert_allclose(short.encode([LONG_TEXT])[0], whole[0], rtol=0, atol=1e-6)


def test_a_mean_of_layers_that_the_encoder_does_not_give(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    """The library then passes over the module."""
    folder = save_weighted(tiny("bert"), tmp_path / "saved", first=2, all_layers=False)
    assert_like_the_library(folder)
    change(folder / "config.json", output_hidden_states=True)
    change(folder / "1_WeightedLayerPooling" / "config.json", layer_start=6)
    with pytest.raises(ModelError, match="its 1_WeightedLayerPooling begins with layer 6 of 5"):
        Extractor(folder, layers="sentence")
    change(folder / "1_WeightedLayerPooling" / "config.json", layer_start=3)
    with pytest.raises(
        ModelError, match=r"has the tensors layer_weights \[4\], where layer_weights \[3\] are expected"
    ):
        Extractor(folder, layers="sentence").encode(["a"])


def test_a_model_of_one_pooling_alone_has_no_column_of_its_own(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    folder = save(tiny("bert"), tmp_path / "saved", [], "cls")
    assert [each.name for each in Extractor(folder, layers="last,sentence").columns] == ["last_cls"]
    assert [each.name for each in Extractor(tiny("bert").folder, layers="sentence").columns] == ["last_mean"]


# ── what it is by default ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("kind", "settings", "wanted"),
    [
        ("LaBSE", {}, ["last_sentence"]),
        ("LaBSE", {"layers": "last"}, ["last_mean"]),
        ("LaBSE", {"pooling": "mean"}, ["last_mean"]),
        ("LaBSE", {"layers": "last", "pooling": "sentence"}, ["last_sentence"]),
        ("LaBSE", {"layers": "sentence,concat4,cls"}, ["last_sentence", "concat4_mean", "last_cls"]),
        ("LaBSE", {"layers": "sentence,last", "pooling": "word"}, ["last_sentence", "last_word"]),
        ("all-MiniLM", {}, ["last_mean"]),  # the same direction
        ("all-MiniLM", {"layers": "sentence"}, ["last_sentence"]),
    ],
)
def test_which_columns_there_are(
    make: Callable[..., Path], kind: str, settings: dict[str, Any], wanted: Sequence[str]
) -> None:
    extractor = Extractor(make(kind), **settings)
    assert [each.name for each in extractor.columns] == wanted
    assert Extractor(**asdict(extractor.settings)).columns == extractor.columns


def test_other_columns_are_what_they_were(make: Callable[..., Path], tiny: Callable[[str], Tiny]) -> None:
    """Beside it, and in the one pass that computes both."""
    both = Extractor(make("distiluse"), layers="sentence,last,concat4", pooling="mean,token", precision="fp32")
    alone = Extractor(make("distiluse"), layers="sentence", precision="fp32")
    plain = Extractor(tiny("bert").folder, layers="last,concat4", pooling="mean,token", precision="fp32")
    for found, own, other in zip(both.features(SOME), alone.features(SOME), plain.features(SOME), strict=True):
        np.testing.assert_allclose(found.vector("last_sentence"), own.vector("last_sentence"), rtol=0, atol=1e-6)
        for name in ("last_mean", "concat4_mean"):
            np.testing.assert_allclose(found.vector(name), other.vector(name), rtol=0, atol=1e-6)
        np.testing.assert_allclose(found.matrix("last_token"), other.matrix("last_token"), rtol=0, atol=2e-3)


@pytest.mark.parametrize("long", ["window", "truncate"])
def test_long_texts(make: Callable[..., Path], long: str) -> None:
    """Of several windows all tokens are taken, each once."""
    from sentence_transformers import SentenceTransformer

    settings: dict[str, Any] = {"precision": "fp32", "max_length": 16, "long": long}
    short = Extractor(make("residual"), **settings)
    whole = short.encode([LONG_TEXT, *SOME])
    np.testing.assert_allclose(short.encode([LONG_TEXT])[0], whole[0], rtol=0, atol=1e-6)
    tokens = Extractor(make("residual"), layers="last", pooling="token", dtype="float32", **settings)
    (document,) = tokens.features([LONG_TEXT])
    mean = torch.from_numpy(document.matrix("last_token").mean(0, keepdims=True))
    with torch.inference_mode():
        steps = [*SentenceTransformer(str(make("residual")), device="cpu")][2:]
        vector = nn.Sequential(*steps)({"sentence_embedding": mean})
    np.testing.assert_allclose(whole[0], vector["sentence_embedding"][0].numpy(), rtol=0, atol=1e-5)


def test_other_precisions_are_near(make: Callable[..., Path]) -> None:
    exact = Extractor(make("LaBSE"), precision="fp32").encode(SOME)
    for precision in ("bf16", "int8"):
        found = Extractor(make("LaBSE"), precision=precision).encode(SOME)
        assert np.einsum("ij,ij->i", found, exact).min() > 0.99


def test_tokens_of_an_encoder_of_sentences(make: Callable[..., Path]) -> None:
    ours, theirs = peer(make("distiluse")), oracle(make("distiluse"))
    found = ours.encode(SOME[:3], output_value="token_embeddings")
    for one, other in zip(found, theirs.encode(SOME[:3], output_value="token_embeddings"), strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one.numpy(), other.cpu().numpy(), rtol=0, atol=2e-5)


# ── stored, indexed, searched and served ────────────────────────────────────────────────────────────────────


def test_stored_indexed_and_searched(make: Callable[..., Path], tmp_path: Path) -> None:
    texts = [*SOME, "He sat on the bank of the river."]
    extractor = Extractor(make("distiluse"), layers="sentence,last,concat4", precision="fp32")
    extractor.extract(memory_corpus(texts), tmp_path / "a.features")
    features = FeatureSet(tmp_path / "a.features")
    stored = features.matrix("sentence")
    np.testing.assert_array_equal(stored, features.matrix("last_sentence"))
    np.testing.assert_allclose(stored, Extractor(make("distiluse"), precision="fp32").encode(texts), rtol=0, atol=1e-6)
    with pytest.raises(NotDerivableError, match="'last' may mean last_sentence or last_mean"):
        features.find("last")
    with pytest.raises(NotDerivableError, match="concat4_sentence needs layers 2, 3, 4"):
        features.find("concat4_sentence")
    build_index(tmp_path / "a.features", tmp_path / "a.index")
    index = Index(tmp_path / "a.index")
    assert index.settings.column.name == "last_sentence"
    hit = index.search(texts[-1], k=3).hits[0]
    assert (hit.text, round(float(hit.score), 4)) == (texts[-1], 1.0)
    ran = CliRunner().invoke(main, ["verify", str(tmp_path / "a.features")])
    assert ran.exit_code == 0, ran.output


def test_what_was_computed_is_used_again(make: Callable[..., Path], tmp_path: Path) -> None:
    extractor = Extractor(make("distiluse"), layers="sentence,concat4", precision="fp32")
    extractor.extract(memory_corpus(SOME[:4]), tmp_path / "a.features")
    extractor.extract(memory_corpus(SOME), tmp_path / "b.features", reuse=[tmp_path / "a.features"])
    extractor.extract(memory_corpus(SOME), tmp_path / "c.features")
    for name in ("last_sentence", "concat4_mean"):
        found, wanted = (FeatureSet(tmp_path / f"{each}.features").matrix(name) for each in "bc")
        assert_near(found, wanted)


def test_heads_learn_from_it(make: Callable[..., Path], tmp_path: Path) -> None:
    texts = [{"text": f"{name} {number}", "label": name} for number in range(40) for name in ("river bank", "money")]
    corpus = tmp_path / "texts.jsonl"
    corpus.write_text("\n".join(map(json.dumps, texts)), "utf-8")
    run = CliRunner().invoke
    features, head = str(tmp_path / "made.features"), str(tmp_path / "made.head")
    asked = ["--model", str(make("distiluse")), "--layers", "sentence,concat4", "--keep", "label", "-o", features]
    assert run(main, ["extract", str(corpus), *asked]).exit_code == 0
    sources = ["--train", features, "--dev", features, "--label", "label", "--pooling", "sentence", "-o", head]
    trained = run(main, ["classify", "train", *sources])
    assert trained.exit_code == 0, trained.output
    assert "last (sentence)" in run(main, ["info", head]).stdout
    predicted = run(main, ["classify", "predict", head, str(corpus)])
    found = [json.loads(line)["label"] for line in predicted.stdout.splitlines()]
    assert found == [text["label"] for text in texts]


def test_served(make: Callable[..., Path]) -> None:
    service = open_service([], ServerSettings(), model=str(make("distiluse")), precision="fp32")
    wanted = Extractor(make("distiluse"), precision="fp32").encode(SOME[:3], normalize_embeddings=True)
    with TestClient(create_app(service), "http://localhost") as client:
        answer = client.post("/v1/embeddings", json={"input": SOME[:3]}).json()
        np.testing.assert_allclose([each["embedding"] for each in answer["data"]], wanted, rtol=0, atol=1e-6)
        answer = client.post("/v1/embeddings", json={"input": SOME[:1], "layers": "concat4"}).json()
        assert len(answer["data"][0]["embedding"]) == 4 * WIDTH
        for body in ({}, {"layers": "1"}):
            ranked = client.post("/rerank", json={"query": SOME[0], "texts": SOME[:3]} | body)
            assert ranked.status_code == 200, ranked.text
            assert ranked.json()[0]["index"] == 0


def test_info_says_what_it_is(make: Callable[..., Path], tiny: Callable[[str], Tiny]) -> None:
    def shown(folder: Path) -> str:
        found: str = json.loads(CliRunner().invoke(main, ["info", str(folder), "--json"]).stdout)["sentence"]
        return found

    assert shown(make("distiluse")) == "16 values: the last layer by mean, Dense 32 to 16 (Tanh)"
    assert shown(make("all-MiniLM")) == "32 values: the last layer by mean, Normalize"
    assert shown(tiny("bert").folder) == "32 values: the last layer under its pooling, mean"


# ── what cannot be ──────────────────────────────────────────────────────────────────────────────────────────


def test_other_layers_do_not_go_through_its_modules(make: Callable[..., Path]) -> None:
    with pytest.raises(RecipeError, match="a model's own modules take its last layer, and not concat4"):
        Extractor(make("LaBSE"), layers="concat4", pooling="sentence")
    with pytest.raises(UsageError, match="a model's own modules take a text as a whole"):
        Extractor(make("LaBSE"), layers="sentence,last", pooling="word", context="left:8")


def change(file: Path, **settings: object) -> None:
    file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | settings), "utf-8")


def with_module(kind: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        modules = json.loads((folder / "modules.json").read_text("utf-8"))
        modules[2]["type"] = kind
        (folder / "modules.json").write_text(json.dumps(modules), "utf-8")

    return damage


def with_setting(file: str, **settings: object) -> Callable[[Path], None]:
    return lambda folder: change(folder / file, **settings)


def without(file: str) -> Callable[[Path], None]:
    return lambda folder: (folder / file).unlink()


def with_other_tensors(folder: Path) -> None:
    save_file({"linear.weight": torch.zeros(3, 3)}, folder / "2_Dense" / "model.safetensors")


def with_no_tensors(folder: Path) -> None:
    (folder / "2_Dense" / "model.safetensors").write_bytes(b"river")


CONFIG, WEIGHTS, POOLING = "2_Dense/config.json", "2_Dense/model.safetensors", "1_Pooling/config.json"
REFUSED: dict[str, Callable[[Path], None]] = {
    "its module 'sentence_transformers.models.CNN' is unknown; take layers='last'": with_module(
        "sentence_transformers.models.CNN"
    ),
    "its module 'custom_st.Dense' is unknown": with_module("custom_st.Dense"),
    "the activation 'os.system' of its 2_Dense is unknown": with_setting(CONFIG, activation_function="os.system"),
    "the activation 'torch.nn.Linear' of": with_setting(CONFIG, activation_function="torch.nn.Linear"),
    "its 2_Dense makes 16 values of 31, and gets 32": with_setting(CONFIG, in_features=31),
    "2_Dense is for 'token_embeddings', not for the": with_setting(CONFIG, module_input_name="token_embeddings"),
    "its pooling 'median' is unknown": with_setting(POOLING, pooling_mode="median"),
    "its pooling weightedmean counts the prompt": with_setting(
        POOLING, include_prompt=False, pooling_mode="weightedmean"
    ),
    "2_Dense/config.json, which is missing": without(CONFIG),
    "2_Dense has no model.safetensors; bertfeat reads safetensors only": without(WEIGHTS),
    r"\[3, 3\], where linear.bias \[16\], linear.weight \[16, 32\] are expected": with_other_tensors,
    "its weights cannot be read": with_no_tensors,
}


@pytest.mark.parametrize("told", REFUSED)
def test_what_is_unknown_or_damaged_is_refused(make: Callable[..., Path], tmp_path: Path, told: str) -> None:
    folder = tmp_path / "model"
    shutil.copytree(make("distiluse"), folder)
    REFUSED[told](folder)
    with pytest.raises(ModelError, match=told):
        Extractor(folder, layers="sentence", precision="fp32").encode(["a"])
    Extractor(folder, layers="last", pooling="mean", precision="fp32").encode(["a"])  # which needs none of them


def test_other_modules_make_another_model(make: Callable[..., Path], tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(make("distiluse"), folder)
    seen = [Model("x", folder).fingerprint]
    assert seen == [Model("x", make("distiluse")).fingerprint]
    weights = load_file(folder / WEIGHTS)
    save_file({name: value + 0.5 for name, value in weights.items()}, folder / WEIGHTS)
    seen.append(Model("x", folder).fingerprint)
    change(folder / CONFIG, activation_function="torch.nn.modules.activation.ReLU")
    seen.append(Model("x", folder).fingerprint)
    change(folder / POOLING, pooling_mode="max")
    seen.append(Model("x", folder).fingerprint)
    assert len(set(seen)) == 4
