"""An encoder that is given stands for the recorded model only with the settings that decide what a vector means."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertfeat import Extractor, StoredEncoder, find_usages, memory_corpus
from bertfeat.errors import BertfeatError, FeatureSetError, IndexFolderError
from bertfeat.search import BuildOptions, Index, build_index, evaluate_layers
from tests.search.test_beir import beir_folder
from tests.support.tiny_models import Tiny

TEXTS = ["The river rose over the bank.", "The bank " * 40, "Nobody saw it.", "A storm came."]
FP32: dict[str, Any] = {"precision": "fp32", "dtype": "float32"}
DIFFERENT: list[tuple[dict[str, Any], str]] = [
    ({"max_length": 16}, r"max_length \d+ and 16"),
    ({"long": "truncate"}, "long 'window' and 'truncate'"),
    ({"special_tokens": False}, "special_tokens on and off"),
    ({"context": "left:2", "prompt": ""}, ".*context none and 'left:2'"),
    ({"prompt": "of old: "}, "prompt 'query: ' and 'of old: '"),
]
ALIKE: list[dict[str, Any]] = [
    {"precision": "fp32", "dtype": "float16"},
    {"batch_tokens": 64},
    {"pooling": "mean,word"},
]

Make = Callable[..., Path]


@pytest.fixture
def make(bert: Tiny, tmp_path: Path) -> Make:
    def made(name: str = "texts", **settings: Any) -> Path:
        extractor = Extractor(bert.folder, device="cpu", **{**FP32, "pooling": "mean,word", **settings})
        extractor.extract(memory_corpus(TEXTS), tmp_path / f"{name}.features")
        return tmp_path / f"{name}.features"

    return made


@pytest.fixture
def index(make: Make, tmp_path: Path) -> Path:
    options = BuildOptions(type="flat", evaluate=False, query_prompt="query: ")
    build_index(make(), tmp_path / "toy.index", "last_mean", options=options)
    return tmp_path / "toy.index"


def encoders(bert: Tiny, make: Make, settings: dict[str, Any]) -> list[Any]:
    """An extractor and a set of such settings; the prompt of queries, unless another is among them."""
    settings = {**FP32, "pooling": "mean", "prompt": "query: ", **settings}
    found: list[Any] = [Extractor(bert.folder, device="cpu", **settings)]
    if "context" not in settings:  # which stored vectors of texts cannot have
        found.append(StoredEncoder(make("asked", **settings), "last", "mean"))
    return found


@pytest.mark.parametrize(("settings", "difference"), DIFFERENT, ids=[next(iter(each)) for each, _ in DIFFERENT])
def test_an_index_refuses_other_settings(
    settings: dict[str, Any], difference: str, bert: Tiny, make: Make, index: Path
) -> None:
    for encoder in encoders(bert, make, settings):
        with pytest.raises(IndexFolderError, match=rf"toy\.index and the encoder at hand .* \({difference}\)"):
            Index(index, encoder=encoder)
        if settings.get("prompt"):
            continue
        with pytest.raises(FeatureSetError, match=rf"texts\.features and the encoder at hand .* \({difference}\)"):
            build_index(index.with_name("texts.features"), index, "last_mean", queries=TEXTS, encoder=encoder)


@pytest.mark.parametrize("settings", ALIKE, ids=[next(iter(each)) for each in ALIKE])
def test_an_index_takes_what_changes_digits_only(settings: dict[str, Any], bert: Tiny, make: Make, index: Path) -> None:
    wanted = [hit.score for hit in Index(index).search(TEXTS[1]).hits]
    for encoder in encoders(bert, make, settings):
        found = [hit.score for hit in Index(index, encoder=encoder).search(TEXTS[1]).hits]
        assert found == pytest.approx(wanted, abs=1e-4)


def test_queries_may_have_a_prompt_where_none_is_recorded(bert: Tiny, make: Make, tmp_path: Path) -> None:
    build_index(make(), tmp_path / "plain.index", "last_mean", options=BuildOptions(type="flat", evaluate=False))
    for prompt in ("", "query: "):
        encoder = Extractor(bert.folder, device="cpu", **FP32, pooling="mean", prompt=prompt)
        (best, *_) = Index(tmp_path / "plain.index", encoder=encoder).search(TEXTS[2]).hits
        assert (best.score > 0.9999) == (prompt == "" and best.id == "3")


@pytest.mark.parametrize(("settings", "difference"), DIFFERENT[:4], ids=[next(iter(each)) for each, _ in DIFFERENT[:4]])
def test_words_and_layers_refuse_other_settings(
    settings: dict[str, Any], difference: str, bert: Tiny, make: Make, tmp_path: Path
) -> None:
    features, folder = make(), beir_folder(tmp_path / "beir", {"q": {"1": 1}})
    encoder = Extractor(bert.folder, device="cpu", **{**FP32, "pooling": "mean,word", **settings})
    uses: list[Callable[[], object]] = [
        lambda: find_usages(features, "bank", like="the *bank*", encoder=encoder),
        lambda: evaluate_layers(features, folder, encoder=encoder),
    ]
    for use in uses[1:] if "special_tokens" in settings else uses:  # a word's vector is of its own subwords
        with pytest.raises(FeatureSetError, match=difference):
            use()


def test_words_are_read_without_a_prompt(bert: Tiny, make: Make) -> None:
    features = make()
    encoder = Extractor(bert.folder, device="cpu", **FP32, pooling="word", prompt="of old: ")
    with pytest.raises(BertfeatError, match="prompt '' and 'of old: '"):
        find_usages(features, "bank", like="the *bank*", encoder=encoder)
    last = Extractor(bert.folder, device="cpu", **FP32, pooling="word", subword="last")
    with pytest.raises(BertfeatError, match="subword 'first' and 'last'"):
        find_usages(features, "bank", like="the *bank*", encoder=last)
