"""Folders that an enemy made: an error of one sentence and a documented exit code, never a traceback, never a wait."""

import re
import shutil
import struct
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from bertfeat.cli import main
from tests.support.crafted import (
    DEEP,
    JSON_FILES,
    NO_SEQUENCE,
    NOT_JSON,
    Change,
    added_token,
    both,
    config,
    config_text,
    device,
    directory,
    first_tensor,
    grown,
    kept,
    pipe,
    pooled,
    put,
    shard_named,
    sharded,
    template,
    tensors,
    tensors_called,
    tokenizer,
    tokenizer_config,
    vocabulary,
    without,
)
from tests.support.tiny_models import build

# ── what is refused, and with which words ───────────────────────────────────────────────────────────────────

REFUSED: dict[str, tuple[Change, str]] = {
    **{
        f"{file} {kind}": (put(file, text), f"cannot read .*{file}")
        for file in JSON_FILES
        for kind, text in NOT_JSON.items()
    },
    # numbers of config.json
    **{
        f"{key} {value}": (config(**{key: value}), "config.json")
        for key in ("num_hidden_layers", "hidden_size", "vocab_size")
        for value in ("x", -1, 0, 1.5, 10**9, 10**30, [1])
    },
    "layers null": (config(num_hidden_layers=None), "config.json"),
    "layers nan": (config_text("num_hidden_layers", "NaN"), "NaN is no number"),
    "layers 1e999": (config_text("num_hidden_layers", "1e999"), "beyond what a number holds"),
    "layers more": (config(num_hidden_layers=6), "its weights lack encoder.layer.5.attention"),
    "heads zero": (config(num_attention_heads=0), "config.json"),
    "heads three": (config(num_attention_heads=3), "3 attention heads do not divide its width of 32"),
    "heads string": (config(num_attention_heads="x"), "config.json"),
    "width more": (config(hidden_size=64), r"has shape \[400, 32\], and its config.json asks for \[400, 64\]"),
    "inner negative": (config(intermediate_size=-48), "config.json"),
    "inner more": (config(intermediate_size=96), r"has shape \[48, 32\], and its config.json asks for \[96, 32\]"),
    "vocabulary more": (config(vocab_size=500), r"has shape \[400, 32\], and its config.json asks for \[500, 32\]"),
    "positions few": (config(max_position_embeddings=7), "it reads 7 tokens at once; at least 8 are needed"),
    "positions more": (config(max_position_embeddings=512), r"has shape \[64, 32\], and its config.json asks for"),
    "positions negative": (config(max_position_embeddings=-7), "config.json"),
    "positions string": (config(max_position_embeddings="64"), "config.json"),
    "types more": (config(type_vocab_size=3), r"has shape \[2, 32\], and its config.json asks for \[3, 32\]"),
    "epsilon string": (config(layer_norm_eps="x"), "config.json"),
    "epsilon negative": (config(layer_norm_eps=-1.0), "config.json"),
    "activation unknown": (config(hidden_act="swash"), "swash"),
    "activation dict": (config(hidden_act={"a": 1}), "config.json"),
    "padding token": (config(pad_token_id=-5), "config.json"),
    "model type": (config(model_type=5), "model_type 5"),
    "model type of no text": (config(model_type="vit"), "no encoder of texts"),
    "model type gone": (without("model_type"), "model_type 'unknown'"),
    "quantized": (config(quantization_config={"quant_method": "gptq"}), "its weights are quantized"),
    "adapter": (put("adapter_config.json", {"base_model_name_or_path": "/x"}), "an adapter lies beside its weights"),
    "activation to print": (config(hidden_act="\x1b[2Jred"), r"(?s)^[^\x1b]*$"),
    # sentence-transformers
    "modules of numbers": (put("modules.json", [5]), r"modules.json: Expected 'object', got 'int'"),
    "module path a number": (pooled(5), r"Expected 'str', got 'int' - at '\$\[1\].path'"),
    "pooling above": (pooled(".."), "names '../config.json', which is outside of the model's folder"),
    "pooling elsewhere": (pooled("/etc"), "names '/etc/config.json', which is outside"),
    "pooling in and out": (pooled("a/../../b"), "outside of the model's folder"),
    "pooling with nul": (pooled("a\0b"), "outside of the model's folder"),
    "pooling missing": (pooled("nowhere"), "nowhere/config.json, which is missing"),
    "pooling flag a string": (pooled("1_Pooling", {"pooling_mode_cls_token": "yes"}), "Expected 'bool | null'"),
    "pooling mode a number": (pooled("1_Pooling", {"pooling_mode": 5}), "pooling_mode"),
    "pooling a pipe": (both(pooled("1_Pooling"), pipe("1_Pooling/config.json")), "not a regular file"),
    "prompts a list": (put("config_sentence_transformers.json", {"prompts": ["q"]}), "Expected 'object | null'"),
    "prompt a number": (put("config_sentence_transformers.json", {"prompts": {"q": 5}}), "Expected 'str', got 'int'"),
    "prompt no text": (put("config_sentence_transformers.json", {"prompts": {"q": "\ud800"}}), "is no text"),
    "prompt name a number": (put("config_sentence_transformers.json", {"default_prompt_name": 5}), "'str | null'"),
    # weights
    **{f"weights cut to {n}": (kept(n), "its weights cannot be read") for n in (0, 4, 8, 1000, -1)},
    "offsets negative": (first_tensor(data_offsets=[-1, 5]), "its weights cannot be read"),
    "offsets beyond": (first_tensor(data_offsets=[0, 2**63]), "its weights cannot be read"),
    "offsets backwards": (first_tensor(data_offsets=[100, 0]), "its weights cannot be read"),
    "shape beyond": (first_tensor(shape=[2**62, 2**62]), "its weights cannot be read"),
    "dtype unknown": (first_tensor(dtype="X9"), "its weights cannot be read"),
    "header of 2^62 bytes": (put("model.safetensors", struct.pack("<Q", 2**62) + b"{}"), "its weights cannot be read"),
    "integers": (tensors(lambda _, t: t.to(torch.int32)), "is stored as I32, not as floating-point numbers"),
    "one of bytes": (
        tensors(lambda name, t: t.to(torch.int8) if name.endswith("key.weight") else t),
        "key.weight is stored as I8",
    ),
    "bools": (tensors(lambda _, t: t > 0), "is stored as BOOL"),
    "8-bit floats": (tensors(lambda _, t: t.to(torch.float8_e4m3fn)), "is stored as F8_E4M3"),
    "a name to print": (tensors_called("\x1b[2J"), r"tensor of the name '\\x1b\[2J"),
    "complex": (tensors(lambda _, t: t.to(torch.complex64)), "is stored as C64"),
    "not a number": (tensors(lambda _, t: t * torch.nan), "is not finite|are not finite"),
    "twice as wide": (tensors(lambda _, t: torch.cat([t, t], -1)), r"has shape .*, and its config.json asks for"),
    "flat": (tensors(lambda _, t: t.flatten()), r"has shape \[\d+\], and its config.json asks for"),
    "turned": (tensors(lambda _, t: t.T if t.dim() == 2 else t), "has shape"),
    "few positions": (tensors(lambda n, t: t[:5] if "position_emb" in n else t), r"has shape \[5, \d+\]"),
    "norms of seven": (tensors(lambda n, t: t[:7] if "LayerNorm" in n else t), r"has shape \[7\]"),
    "biases gone": (tensors(lambda n, t: None if n.endswith("bias") else t), "its weights lack"),
    # shards
    "shard above": (shard_named("../model/shard.safetensors"), "outside of the model's folder"),
    "shard elsewhere": (shard_named("/etc/passwd"), "outside of the model's folder"),
    "shard a number": (shard_named(5), "Expected 'str', got 'int'"),
    "shard of no name": (shard_named(""), "is missing"),
    "shard of a long name": (shard_named("x" * 300), "its weights|is missing"),
    "shard gone": (shard_named("gone.safetensors"), "gone.safetensors is named in .* but is missing"),
    "shard no safetensors": (shard_named("config.json"), "its weights cannot be read"),
    "shards a list": (sharded(lambda names: {"weight_map": names}), "Expected 'object', got 'array'"),
    "shard a pipe": (both(shard_named("shard.safetensors"), pipe("shard.safetensors")), "no regular file"),
    # tokenizers
    "tokenizer cut": (put("tokenizer.json", '{"version": "1.0", '), "cannot load its tokenizer"),
    "tokenizer deep": (put("tokenizer.json", DEEP), "cannot load its tokenizer"),
    "tokenizer without end": (grown("tokenizer.json", 100 << 30), "more than 268,435,456 bytes, which is no tokenizer"),
    "tokenizer of another kind": (put("tokenizer.json", {"a": 1}), "there is no 'added_tokens'"),
    "weights of nothing": (both(put("model.safetensors", b""), grown("model.safetensors", 1 << 36)), "cannot be read"),
    "vocabulary a list": (vocabulary([1]), "cannot load its tokenizer"),
    "vocabulary empty": (vocabulary({}), "its tokenizer fails"),
    "ids beyond": (vocabulary({"[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "a": 400}), "gives ids up to 400"),
    "added token beyond": (tokenizer(added_tokens=[added_token("[CLS]", -1)]), "cannot load its tokenizer"),
    "normalizer unknown": (tokenizer(normalizer={"type": "Nope"}), "cannot load its tokenizer"),
    "truncation a number": (tokenizer(truncation=5), "cannot load its tokenizer|tokenizer.json"),
    "template of no text": (tokenizer(post_processor=NO_SEQUENCE), "in an unknown order"),
    "special tokens beyond": (tokenizer(post_processor=template("[CLS]", cls=99_999)), "gives ids up to 99,999"),
    "special tokens many": (tokenizer(post_processor=template(*["[CLS]"] * 99)), "sets 99 special tokens"),
    "segments many": (tokenizer(post_processor=template("[CLS]", segment=200)), "of segment 200"),
    "length a string": (tokenizer_config(model_max_length="x"), "model_max_length"),
    "class a number": (tokenizer_config(tokenizer_class=5), "cannot load its tokenizer"),
    "class of characters": (tokenizer_config(tokenizer_class="CanineTokenizer"), "no fast tokenizer"),
    "class no tokenizer": (tokenizer_config(tokenizer_class="pipeline"), "cannot load its tokenizer"),
    "padding token a number": (tokenizer_config(pad_token=5), "cannot load its tokenizer"),
    "added tokens odd": (tokenizer_config(added_tokens_decoder={"x": {"content": "a"}}), "cannot load its tokenizer"),
    "files elsewhere": (tokenizer_config(fast_tokenizer_files=["../../etc/passwd"]), "outside of the model's folder"),
    "arguments twice": (tokenizer_config(self=5), "cannot load its tokenizer"),
    # what is no file
    **{
        f"pipe {file}": (pipe(file), f"{file} is no regular file|{file}: not a regular file")
        for file in (*JSON_FILES, "tokenizer.json", "model.safetensors", "vocab.txt", "adapter_config.json")
    },
    **{f"device {file}": (device(file), "no regular file") for file in ("config.json", "model.safetensors")},
    "folder config.json": (directory("config.json"), "not a regular file"),
    "folder model.safetensors": (directory("model.safetensors"), "has no weights"),
    "folder tokenizer.json": (directory("tokenizer.json"), "has no tokenizer files"),
}  # fmt: skip


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Give a sound folder of each kind, to be copied."""
    work = tmp_path_factory.mktemp("clean")
    return {family: build(family, work / family) for family in ("bert", "albert", "roberta", "modernbert")}


@pytest.fixture
def folder(clean: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(clean["bert"], tmp_path / "model"))


def said(*arguments: str | Path, code: int = 1) -> str:
    """What a command that fails says: one line of error, no traceback, and the documented exit code."""
    result = CliRunner().invoke(main, [*map(str, arguments)])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    assert "bug in bertfeat" not in result.output
    if code:
        assert (
            result.stderr.splitlines()[-1].startswith("error: ") or "bertfeat reads safetensors only" in result.stderr
        )
    return str(result.stderr)


def extract(model: Path, work: Path, code: int) -> str:
    (work / "corpus.txt").write_text("The bank of the river.\na\n")
    return said("extract", work / "corpus.txt", "-o", work / "out", "--model", model, code=code)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("case", REFUSED)
def test_extract_refuses(case: str, folder: Path, tmp_path: Path) -> None:
    change, words = REFUSED[case]
    change(folder)
    error = extract(folder, tmp_path, 1)
    assert re.search(words, error), error


@pytest.mark.sampled(40)
@pytest.mark.parametrize("case", REFUSED)
def test_info_never_breaks(case: str, folder: Path) -> None:
    change, _ = REFUSED[case]
    change(folder)
    result = CliRunner().invoke(main, ["info", str(folder)])
    assert result.exit_code in (0, 1), result.output
    assert "Traceback" not in result.output
    assert "bug in bertfeat" not in result.output


OF_THE_LIBRARY = (
    "num_hidden_layers 1000000000",
    "hidden_size 1000000000",
    "vocab_size 1000000000",
    "heads three",
    "heads string",
    "width more",
    "inner more",
    "vocabulary more",
    "positions negative",
    "activation unknown",
    "padding token",
    "quantized",
    "adapter",
    "weights cut to 1000",
    "offsets beyond",
    "integers",
    "one of bytes",
    "bools",
    "8-bit floats",
    "not a number",
    "twice as wide",
    "flat",
    "turned",
    "biases gone",
    "shard above",
    "shard gone",
    "special tokens beyond",
    "pipe model.safetensors",
)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("case", OF_THE_LIBRARY)
def test_models_that_transformers_runs_are_refused_as_well(case: str, clean: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(clean["albert"], tmp_path / "model"))
    change, _ = REFUSED[case]
    change(folder)
    extract(folder, tmp_path, 1)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("family", "change"),
    [
        ("albert", config(num_hidden_groups=10**9)),
        ("albert", config(inner_group_num=10**9)),
        ("albert", config(to_dict=5, sub_configs=5, attribute_map=5)),
        ("modernbert", config(layer_types=["full_attention"] * 50)),
        ("roberta", config(pad_token_id=None)),
        ("roberta", config(pad_token_id=60)),
    ],
    ids=["groups", "inner groups", "methods", "layer types", "no padding token", "padding token at the end"],
)
def test_numbers_that_only_some_families_have(
    family: str, change: Change, clean: dict[str, Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(clean[family], tmp_path / "model"))
    change(folder)
    extract(folder, tmp_path, 1)
