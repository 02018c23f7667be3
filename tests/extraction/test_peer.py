"""Extractor beside SentenceTransformer over the same folder: the same numbers, types and shapes, keyword by keyword."""

import json
import pickle
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from bertfeat.core.extraction import Extractor
from bertfeat.core.features import FeatureSettings
from bertfeat.core.recipe import Pooling
from bertfeat.errors import UsageError
from bertfeat.io import to_plain
from tests.support.sentence_models import MAX_TOKENS, oracle, peer, sentence_folder
from tests.support.tiny_models import ALL, LONG_TEXT, TEXTS, Tiny

PROMPTS = {"query": "find: ", "document": "text: ", "passage": "passage: ", "other": "the bank of "}
MANY = [*TEXTS, LONG_TEXT]


@pytest.fixture(scope="module")
def folder(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT with prompts, as sentence-transformers saves one."""
    at = tmp_path_factory.mktemp("sentence") / "bert"
    return sentence_folder(tiny("bert").folder, at, prompts=PROMPTS, similarity="dot")


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Any:
    return oracle(folder)


@pytest.fixture(scope="module")
def ours(folder: Path) -> Extractor:
    return peer(folder)


def alike(found: Any, wanted: Any, atol: float = 1e-5) -> None:
    assert type(found) is type(wanted)
    if isinstance(wanted, list):
        assert len(found) == len(wanted)
        for each, other in zip(found, wanted, strict=True):
            alike(each, other, atol)
        return
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    assert np.abs(np.asarray(found, np.float64) - np.asarray(wanted, np.float64)).max(initial=0) <= atol


# ── vectors ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(10)
@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
@pytest.mark.parametrize("family", ALL)
def test_every_family_and_pooling(tiny: Callable[[str], Tiny], tmp_path: Path, family: str, pooling: str) -> None:
    folder = sentence_folder(tiny(family).folder, tmp_path / family, pooling=pooling)
    alike(peer(folder).encode(MANY), oracle(folder).encode(MANY))


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    "keywords",
    [
        {"convert_to_tensor": True},
        {"convert_to_numpy": False},
        {"convert_to_numpy": False, "convert_to_tensor": True},
        {"normalize_embeddings": True},
        {"truncate_dim": 7, "normalize_embeddings": True},
        {"truncate_dim": 1000},
        {"precision": None},
        {"precision": "float32", "batch_size": 3, "device": "cpu", "show_progress_bar": False},
        {"prompt": "query: "},
        {"prompt_name": "other"},
        {"prompt_name": "query", "prompt": ""},
        {"output_value": "token_embeddings"},
        {"output_value": "token_embeddings", "prompt": "the bank is "},
        {"task": "query"},
    ],
    ids=str,
)
@pytest.mark.parametrize("texts", [MANY, tuple(MANY), "He went to the bank.", np.array(TEXTS)], ids=type)
def test_keywords(ours: Extractor, theirs: Any, texts: Any, keywords: dict[str, Any]) -> None:
    alike(ours.encode(texts, **keywords), theirs.encode(texts, **keywords))


@pytest.mark.parametrize("precision", ["int8", "uint8", "binary", "ubinary"])
def test_quantized_vectors(ours: Extractor, theirs: Any, precision: str) -> None:
    kinds: list[dict[str, Any]] = [{}, {"convert_to_tensor": True}]
    for more in kinds:
        found, wanted = (each.encode(MANY, precision=precision, **more) for each in (ours, theirs))
        assert type(found) is type(wanted)
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        off = np.abs(np.asarray(found, int) - np.asarray(wanted, int))  # a value at a bucket's edge may fall over it
        assert (off > 1).mean() < 0.01
    if precision.endswith("int8"):
        with pytest.raises(UsageError, match="single embedding"):
            ours.encode("one", precision=precision)


def test_sentences_is_the_old_name_of_the_texts(ours: Extractor) -> None:
    assert np.array_equal(ours.encode(sentences=["a bank"]), ours.encode(["a bank"]))


def test_no_texts_keep_the_width(ours: Extractor) -> None:
    assert ours.encode([]).shape == (0, 32)
    assert ours.encode([], convert_to_tensor=True).shape == (0, 32)
    assert ours.encode([], truncate_dim=5).shape == (0, 5)
    assert ours.encode([], convert_to_numpy=False) == []
    assert ours.encode([], output_value="token_embeddings") == []


def test_queries_and_documents_get_their_prompts(ours: Extractor, theirs: Any) -> None:
    for name in ("encode_query", "encode_document"):
        for keywords in ({}, {"prompt": "x "}, {"prompt_name": "other"}, {"convert_to_tensor": True}):
            alike(getattr(ours, name)(MANY, **keywords), getattr(theirs, name)(MANY, **keywords))
    assert not np.allclose(ours.encode_query("a bank"), ours.encode("a bank"))
    assert dict(ours.prompts) == theirs.prompts


def test_default_prompt_and_one_of_the_extractors_own(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    folder = sentence_folder(tiny("bert").folder, tmp_path / "m", prompts=PROMPTS, default_prompt="other")
    theirs, ours = oracle(folder), peer(folder)
    for name in ("encode", "encode_query", "encode_document"):
        alike(getattr(ours, name)(MANY), getattr(theirs, name)(MANY))
        own = getattr(peer(folder, prompt="mine: "), name)(MANY)  # set before everything, as it was asked for
        alike(own, theirs.encode(MANY, prompt="mine: "))
        bare = getattr(peer(folder, prompt=""), name)(MANY)  # none at all is asked for as well
        alike(bare, theirs.encode(MANY, prompt=""))


def test_a_model_without_prompts(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    folder = sentence_folder(tiny("bert").folder, tmp_path / "m")
    ours = peer(folder)
    assert dict(ours.prompts) == dict(oracle(folder).prompts) == {"query": "", "document": ""}
    assert np.array_equal(ours.encode_query(MANY), ours.encode(MANY))


def test_a_normalize_head_is_normalize_embeddings(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    folder = sentence_folder(tiny("bert").folder, tmp_path / "m", heads=["Normalize"])
    alike(peer(folder).encode(MANY, normalize_embeddings=True), oracle(folder).encode(MANY))


# ── what stands around encode ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("measure", ["cosine", "dot", "euclidean", "manhattan"])
def test_similarities(ours: Extractor, theirs: Any, measure: str) -> None:
    made = pickle.loads(pickle.dumps(ours))
    made.similarity_fn_name = theirs.similarity_fn_name = measure
    vectors = ours.encode(MANY)
    for give in (np.array, torch.from_numpy, list, lambda v: list(torch.from_numpy(v)), np.float64):
        a, b = give(vectors), give(vectors[::-1].copy())
        for name in ("similarity", "similarity_pairwise"):
            found, wanted = getattr(made, name)(a, b), getattr(theirs, name)(a, b)
            assert found.shape == wanted.shape
            assert torch.allclose(found.double(), wanted.double(), atol=1e-4)
    alike(made.similarity(vectors[0], vectors), theirs.similarity(vectors[0], vectors), 1e-4)


@pytest.mark.parametrize("named", [None, "euclidean", "maxsim", 3])
def test_similarity_that_a_model_names(tiny: Callable[[str], Tiny], tmp_path: Path, named: Any) -> None:
    folder = sentence_folder(tiny("bert").folder, tmp_path / "m", similarity=named)
    assert peer(folder).similarity_fn_name == oracle(folder).similarity_fn_name


def test_similarity_is_the_models_own(ours: Extractor, folder: Path, bert: Tiny) -> None:
    assert ours.similarity_fn_name == oracle(folder).similarity_fn_name == "dot"
    assert peer(bert.folder).similarity_fn_name == "cosine"
    made = peer(bert.folder)
    made.similarity_fn_name = "hamming"
    with pytest.raises(UsageError, match="hamming"):
        made.similarity(np.ones((1, 2)), np.ones((1, 2)))


def test_texts_are_not_compared(ours: Extractor) -> None:
    texts: Any
    for texts in ("a bank", ["a bank", "b"], np.array(["a"])):
        with pytest.raises(UsageError, match=r"encode\(\) them first|must be a Tensor|must be an array"):
            ours.similarity(texts, texts)
    with pytest.raises(UsageError, match="width 0 and 32"):
        ours.similarity([], ours.encode(["a"]))


@pytest.mark.parametrize(
    ("a", "b", "told"),
    [((2, 3), (2, 4), "width 3 and 4"), ((2, 3), (3, 3), "one by one"), ((1, 2, 3), (1, 3), "shape")],
)
def test_vectors_that_cannot_be_compared(ours: Extractor, a: Any, b: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        ours.similarity_pairwise(np.ones(a), np.ones(b))


def test_what_the_model_is(ours: Extractor, theirs: Any) -> None:
    assert ours.get_embedding_dimension() == theirs.get_embedding_dimension() == 32
    assert ours.get_sentence_embedding_dimension() == 32
    assert ours.max_seq_length == ours.get_max_seq_length() == theirs.max_seq_length == MAX_TOKENS
    assert ours.device == theirs.device
    assert ours.eval() is ours.to("cpu:0") is ours.to(torch.device("cpu")) is ours


@pytest.mark.parametrize("name", ["fit", "train", "save", "push_to_hub", "half", "start_multi_process_pool"])
def test_what_would_change_the_model_is_refused(ours: Extractor, name: str) -> None:
    assert not hasattr(ours, name)
    with pytest.raises(AttributeError, match=f"no '{name}': .*Extractor"):
        getattr(ours, name)


def test_other_names_are_not_there(ours: Extractor) -> None:
    with pytest.raises(AttributeError, match=r"Extractor has no 'nonsense'$"):
        ours.nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_lengths_and_devices_are_set_when_it_is_made(ours: Extractor) -> None:
    with pytest.raises(UsageError, match=r"max_length=256.*truncate"):
        ours.max_seq_length = 256
    pool: Any = ["cpu", "cpu"]
    for call in (lambda: ours.to("meta"), lambda: ours.encode("a", device=pool)):
        with pytest.raises(UsageError, match="cpu"):
            call()
    with pytest.raises(UsageError, match="cuda:99"):
        ours.encode("a", device="cuda:99")


def test_repr_makes_an_equal_extractor(folder: Path) -> None:
    made = peer(folder, layers="concat4,last", pooling="mean,token", prompt="a: ", batch_tokens=100, dtype="float32")
    again = eval(repr(made), {"Extractor": Extractor})
    assert again.settings == made.settings
    assert np.array_equal(eval(repr(peer(folder))).encode_query("a bank"), peer(folder).encode_query("a bank"))
    assert again.columns == made.columns
    assert again.token_settings == made.token_settings


SPECS = (
    "last",
    "cls",
    "sentence",
    "sum4",
    "mean4",
    "concat4",
    "sum-all",
    "all",
    "embeddings",
    "2",
    "-2",
    "second-to-last",
    "sum=1+3",
)


@hypothesis.settings(max_examples=60)
@given(
    layers=st.lists(st.sampled_from(SPECS), min_size=1, max_size=4),
    pooling=st.none()
    | st.lists(st.sampled_from([each for each in Pooling if each is not Pooling.SENTENCE]), min_size=1, max_size=3),
    others=st.fixed_dictionaries(
        {},
        optional={
            "dtype": st.sampled_from(["float16", "float32", "int8"]),
            "long": st.sampled_from(["window", "truncate", "error"]),
            "max_length": st.integers(8, 16),
            "subword": st.sampled_from(["first", "mean", "last"]),
            "special_tokens": st.booleans(),
            "batch_tokens": st.integers(1, 99),
            "prompt": st.sampled_from(["", "query: "]),
        },
    ),
    together=st.booleans(),
)
def test_settings_make_an_equal_extractor(
    tiny: Callable[[str], Tiny], layers: list[str], pooling: list[str] | None, others: dict[str, Any], together: bool
) -> None:
    written = ",".join(layers) if together else layers
    made = Extractor(tiny("bert").folder, layers=written, pooling=pooling, device="cpu", **others)
    again = Extractor(**json.loads(json.dumps(to_plain(made.settings))))
    assert again.columns == made.columns
    assert [column.name for column in again.columns] == [column.name for column in made.columns]
    assert again.settings == made.settings
    assert again.token_settings == made.token_settings
    assert (again.batch_tokens, again.own_prompt) == (made.batch_tokens, made.own_prompt)


def test_settings_of_recorded_columns(folder: Path) -> None:
    """An extractor made for some of the columns of a set says which, or that it cannot."""
    made = peer(folder, layers="sum4,last", pooling="mean,cls")
    record = FeatureSettings(model=made.model.fingerprint, precision="fp32", prompt="")
    for chosen, fitting in (([0], True), ([0, 1], True), ([0, 2], True), ([0, 3], False)):
        columns = [made.columns[number] for number in chosen]
        again = Extractor.from_record(made.identity, record, columns, name=folder)
        if fitting:
            names = [column.name for column in Extractor(**asdict(again.settings)).columns]
            assert names == [column.name for column in columns]
        else:
            with pytest.raises(UsageError, match="no layers and poolings give just sum4_mean, last_cls"):
                again.settings  # noqa: B018
            assert "sum4_mean, last_cls" in repr(again)


def test_a_pickle_holds_settings_and_no_weights(folder: Path) -> None:
    made = peer(folder)
    before = made.encode(MANY)
    made.model_card_data.set_evaluation_metrics(None, {})
    held = pickle.dumps(made)
    assert len(held) < 20_000
    assert np.array_equal(pickle.loads(held).encode(MANY), before)


def test_its_type_is_not_passed_over_in_silence() -> None:
    """BERTopic and KeyBERT look for the word; tests/ecosystem/ has what they say."""
    assert "sentence_transformers" in str(Extractor)
