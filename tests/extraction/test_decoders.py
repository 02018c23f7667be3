"""Decoders and T5 encoders through the doors, against transformers' own hidden states of each text alone."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from numpy.typing import NDArray

from bertfeat import Extractor
from bertfeat.cli import main
from bertfeat.errors import ModelError, UsageError
from tests.support.runs import contents, extractor, text_file
from tests.support.tiny_architectures import ARCHITECTURES
from tests.support.tiny_models import LONG_TEXT, TEXTS, reference_states, reference_tokenizer
from tests.support.tiny_tokenizers import ROBERTA_NAMES, byte_level

GIVEN = [text for text in TEXTS if text]
BOUND = 3e-5
LEFT = "each token sees only those before it"


def bare(kind: str, folder: Path, **settings: Any) -> Path:
    """A model whose tokenizer sets no special tokens, and has none for padding, as decoders' often do."""
    ARCHITECTURES[kind].build(folder)
    tokenizer = byte_level(ROBERTA_NAMES, double=True)
    tokenizer.post_processor = None
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **settings}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    return folder


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bare("qwen3", tmp_path_factory.mktemp("decoder") / "qwen3")


def states_of(folder: Path, text: str) -> NDArray[np.float32]:
    """Every layer of a text alone, by the family's own attention."""
    ids = reference_tokenizer(folder)(text)["input_ids"]
    return reference_states(folder, ids, [0] * len(ids), "eager")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", ["gpt2", "llama", "mistral", "gemma2", "gemma3_text", "qwen2", "phi", "olmo2"])
def test_layers_and_poolings(kind: str, tmp_path: Path) -> None:
    folder = bare(kind, tmp_path / kind, padding_side="left")
    settings = {"layers": "all", "pooling": "last-token,mean,max,token", "dtype": "float32"}
    for batch_tokens in (1, 4096):
        made = extractor(folder, **settings, batch_tokens=batch_tokens).features(GIVEN)
        for document, text in zip(made, GIVEN, strict=True):
            for layer, states in enumerate(states_of(folder, text)):
                found = {
                    "last-token": document.vector(f"layer{layer}_last-token"),
                    "mean": document.vector(f"layer{layer}_mean"),
                    "max": document.vector(f"layer{layer}_max"),
                    "token": document.matrix(f"layer{layer}_token"),
                }
                wanted = {"last-token": states[-1], "mean": states.mean(0), "max": states.max(0), "token": states}
                for name, vector in found.items():
                    np.testing.assert_allclose(vector, wanted[name], rtol=0, atol=BOUND, err_msg=f"{name} {layer}")


def test_words_after_so_many_words(decoder: Path) -> None:
    text = "He went to the bank to ask for money"
    (whole,) = extractor(decoder, layers="last", pooling="word", subword="last", dtype="float32").features([text])
    (near,) = extractor(
        decoder, layers="last", pooling="word", subword="last", dtype="float32", context="left:2"
    ).features([text])
    states = states_of(decoder, text)[-1]
    np.testing.assert_allclose(whole.matrix("last_word")[-1], states[-1], rtol=0, atol=BOUND)
    # the third word reads all that the whole text has before it; later ones less
    np.testing.assert_allclose(near.matrix("last_word")[:3], whole.matrix("last_word")[:3], rtol=0, atol=BOUND)
    assert np.abs(near.matrix("last_word")[3:] - whole.matrix("last_word")[3:]).max() > 0.01


def test_a_text_longer_than_the_window(decoder: Path) -> None:
    text = LONG_TEXT.replace("\n", " ")
    both = {"layers": "last", "pooling": "last-token,token", "dtype": "float32"}
    (found,) = extractor(decoder, **both).features([text])
    tokenizer = byte_level(ROBERTA_NAMES, double=True)
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert found.n_tokens == len(ids) > 64
    wanted = reference_states(decoder, ids[-64:], [0] * 64, "eager")[-1][-1]  # the last window is full
    np.testing.assert_allclose(found.vector("last_last-token"), wanted, rtol=0, atol=BOUND)
    np.testing.assert_array_equal(found.matrix("last_token")[-1], found.vector("last_last-token"))
    full = [reference_states(decoder, ids[at : at + 64], [0] * 64, "eager")[-1] for at in range(len(ids) - 63)]
    read = [0, *range(48, len(ids) - 64, 48), len(ids) - 64]  # where windows begin: they overlap by a quarter
    for place, vector in enumerate(found.matrix("last_token")):
        begin = next(at for at in read if at <= place < at + 64)  # the one in which most stands before it
        np.testing.assert_allclose(vector, full[begin][place - begin], rtol=0, atol=BOUND)
    (cut,) = extractor(decoder, **both, long="truncate").features([text])
    wanted = reference_states(decoder, ids[:64], [0] * 64, "eager")[-1][-1]
    np.testing.assert_allclose(cut.vector("last_last-token"), wanted, rtol=0, atol=BOUND)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["qwen3", "gpt2", "t5", "modernbert", "mpnet"])
def test_the_shell_resumes_and_verifies(kind: str, tmp_path: Path) -> None:
    folder = ARCHITECTURES[kind].build(tmp_path / kind)
    corpus = text_file(tmp_path / "c.txt", [*GIVEN, LONG_TEXT.replace("\n", " "), *reversed(GIVEN)])
    command = ("extract", corpus, "--model", folder, "-o", tmp_path / "set", "--layers", "last,concat4")
    more = ("--pooling", "last-token,mean,token,word", "--part-rows", "4", "--precision", "fp32", "--quiet")
    assert run(*command, *more).exit_code == 0
    before = contents(tmp_path / "set")
    (tmp_path / "set" / "part-00001.parquet").unlink()
    (tmp_path / "set" / ".bertfeat" / "manifest.json").unlink()
    again = run(*command, *more)
    assert again.exit_code == 0, again.stderr
    assert contents(tmp_path / "set") == before
    verified = run("verify", tmp_path / "set", "--json")
    assert verified.exit_code == 0, verified.stderr
    report = json.loads(verified.stdout)
    assert report["holds"]
    assert min(each["min_cosine"] for each in report["deviations"]) > 0.999999
    assert pq.read_table(tmp_path / "set" / "part-00000.parquet").column("concat4_last-token").type.list_size == 128


def test_texts_without_a_token_are_failed_rows(decoder: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "c.jsonl"
    corpus.write_text("".join(json.dumps({"text": text}) + "\n" for text in ["The bank.", "", "a"]), "utf-8")
    for options in ((), ("--context", "left:2", "--pooling", "word")):
        out = tmp_path / f"set{len(options)}"
        result = run("extract", corpus, "--model", decoder, "-o", out, "--quiet", *options)
        assert result.exit_code == 3, result.stderr
        failure = json.loads((out / ".bertfeat" / "failures.jsonl").read_text())
        assert failure["row"] == 1
        assert "it has no tokens, and the model's tokenizer sets none around texts" in failure["reason"]


def test_the_first_token_says_nothing(decoder: Path, tmp_path: Path) -> None:
    first: list[dict[str, Any]] = [{"pooling": "cls"}, {"layers": "cls"}]
    for settings in first:
        with pytest.raises(UsageError, match=r"sees only those before it.*; give pooling='last-token' or"):
            Extractor(decoder, **settings)
    corpus = text_file(tmp_path / "c.txt", GIVEN)
    result = run("extract", corpus, "--model", decoder, "-o", tmp_path / "set", "--pooling", "cls")
    assert result.exit_code == 2
    assert "give --pooling last-token or --pooling mean" in result.stderr


def test_what_info_says(decoder: Path, tmp_path: Path) -> None:
    shown = run("info", decoder).stdout
    assert "packed: transformers' own module over texts side by side, without padding" in shown
    assert LEFT in " ".join(shown.split())
    t5 = run("info", ARCHITECTURES["t5"].build(tmp_path / "t5")).stdout
    assert "packed: transformers' own module" in t5
    assert LEFT not in " ".join(t5.split())
    rotary = run("info", ARCHITECTURES["llama, positions by the longest text"].build(tmp_path / "llama")).stdout
    assert "equal lengths: run by transformers" in rotary


@pytest.mark.parametrize("kind", ["qwen3", "t5", "modernbert"])
def test_no_int8(kind: str, tmp_path: Path) -> None:
    folder = ARCHITECTURES[kind].build(tmp_path / "model")
    with pytest.raises(ModelError, match=f"int8 is for BERT.*and model_type '{kind}' is run by transformers"):
        Extractor(folder, precision="int8", device="cpu").encode(["a"])


def test_half_precision_keeps_its_direction(decoder: Path) -> None:
    settings = {"layers": "last", "pooling": "last-token,mean"}
    whole = extractor(decoder, **settings).features(GIVEN)
    half = extractor(decoder, **settings, precision="bf16").features(GIVEN)
    for one, other in zip(whole, half, strict=True):
        for column in ("last_last-token", "last_mean"):
            a, b = one.vector(column), other.vector(column)
            assert a @ b / np.linalg.norm(a) / np.linalg.norm(b) > 0.999


def test_masks_in_a_text_of_esm(tmp_path: Path) -> None:
    """ESM scales the embeddings of a text by the share of masks in it: its batch mates' do not count."""
    folder = ARCHITECTURES["esm, rotary"].build(tmp_path / "esm")
    texts = ["The bank.", "The <mask> of <mask>", "a", "<mask>", "He went to the bank to ask for money"]
    settings = {"layers": "all", "pooling": "mean", "precision": "fp32"}
    together = extractor(folder, **settings).features(texts)
    for document, text in zip(together, texts, strict=True):
        tokenizer = byte_level(ROBERTA_NAMES, double=True)
        ids = tokenizer.encode(text).ids
        assert (4 in ids) == ("<mask>" in text)
        for layer, states in enumerate(reference_states(folder, ids, [0] * len(ids), "eager")):
            np.testing.assert_allclose(document.vector(f"layer{layer}_mean"), states.mean(0), rtol=0, atol=BOUND)
