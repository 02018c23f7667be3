"""``--layers sentence`` of a model that compares tokens: the vectors that sentence-transformers gives each of them."""

import json
import shutil
import string
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from numpy.typing import NDArray
from starlette.testclient import TestClient
from torch import nn

from bertfeat import Extractor, FeatureSet, Index, MaxSim, build_index, memory_corpus
from bertfeat.cli import main
from bertfeat.core.features import find_column
from bertfeat.core.grammar import parse_recipes
from bertfeat.core.models import Model
from bertfeat.errors import ModelError, NotDerivableError, UsageError
from bertfeat.search import BuildOptions, Metric
from bertfeat.server import ServerSettings, create_app, open_service
from tests.support.tiny_models import LONG_TEXT, TEXTS, Tiny
from tests.support.token_models import EXPANSION, PROJECTED, PROMPTS, WIDTH, as_colbert, as_pylate, oracle, save

SOME = [text for text in TEXTS if text.strip()]
SHORT = ["The bank.", "a", "Don't stop: naïve café", "은행에서 돈을"]  # which leave room for what fills queries up


@pytest.fixture(scope="module")
def make(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    known: dict[str, Path] = {}

    def made(family: str = "bert", kind: str = "saved", **settings: Any) -> Path:
        name = repr((family, kind, sorted(settings.items(), key=str)))
        if name not in known:
            folder = tmp_path_factory.mktemp("model") / "model"
            if kind == "colbert":
                known[name] = as_colbert(tiny(family).folder, folder, **settings)
            elif kind == "pylate":
                known[name] = as_pylate(made(family), folder, **settings)
            else:
                known[name] = save(tiny(family).folder, folder, **settings)
        return known[name]

    return made


def extractor(folder: Path, role: str = "document", **settings: Any) -> Extractor:
    """An Extractor that reads texts as the library does: fp32, cut off at the lengths of the models here."""
    model = Model("x", folder)
    alike: dict[str, Any] = {"precision": "fp32", "device": "cpu", "dtype": "float32", "long": "truncate"}
    return Extractor(folder, layers="sentence", prompt=model.prompts[role], **alike | settings)


def matrices(made: Extractor, texts: Sequence[str]) -> list[NDArray[np.float32]]:
    return [np.asarray(each.matrix("sentence_token")) for each in made.features(texts)]


def assert_like_the_library(folder: Path) -> None:
    theirs = oracle(folder)
    for role, texts, encode in (
        ("document", SOME, theirs.encode_document),
        ("query", [*SHORT, SOME[-2]], theirs.encode_query),
    ):
        fill = theirs[0].query_expansion if role == "query" else None
        cut = {"max_length": fill["length"]} if fill and fill["strategy"] == "fixed" else {}
        ours = extractor(folder, role, **cut)
        for text, found, wanted in zip(texts, matrices(ours, texts), encode(texts), strict=True):
            assert found.shape == wanted.shape
            np.testing.assert_allclose(found, wanted.numpy(), rtol=0, atol=5e-6)
            np.testing.assert_allclose(matrices(ours, [text])[0], wanted.numpy(), rtol=0, atol=5e-6)


@pytest.mark.parametrize("family", ["bert", "distilbert", "mpnet", "xlm-roberta", "modernbert", "deberta-v2"])
def test_like_the_library(make: Callable[..., Path], family: str) -> None:
    assert_like_the_library(make(family))


@pytest.mark.parametrize(
    "settings",
    [
        {"expansion": None},
        {"expansion": {**EXPANSION, "attend": True}},
        {"expansion": {**EXPANSION, "token": "[SEP]"}},
        {"expansion": {**EXPANSION, "strategy": "min", "length": 12}},
        {"skipped": ()},
        {"skipped": ("the", ".", "no-token"), "skipped_in": ("query", "document")},
        {"prompts": {"query": "", "document": ""}, "expansion": None, "skipped": ()},
    ],
    ids=str,
)
def test_every_way_of_reading(make: Callable[..., Path], settings: dict[str, Any]) -> None:
    assert_like_the_library(make(**settings))


def test_several_products(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    from sentence_transformers.base.modules import Dense, Normalize

    name, act = "token_embeddings", nn.GELU()
    steps = [
        Dense(WIDTH, 48, activation_function=act, module_input_name=name, use_residual=True),
        Dense(48, PROJECTED, module_input_name=name),
        Normalize(module_input_name=name),
    ]
    assert_like_the_library(save(tiny("bert").folder, tmp_path / "model", steps=steps))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"attend_to_expansion_tokens": True},
        {"do_query_expansion": False, "query_length": None},
        {"skiplist_words": ["the"]},
    ],
    ids=str,
)
def test_what_pylate_writes(make: Callable[..., Path], settings: dict[str, Any]) -> None:
    assert_like_the_library(make(kind="pylate", **settings))


@pytest.mark.parametrize(
    "settings",
    [
        {"query_maxlen": 24},
        {"query_maxlen": 24, "attend_to_mask_tokens": True, "mask_punctuation": False},
        {"query_maxlen": 24, "query_token_id": "[unused1]", "doc_token_id": "[unused0]"},
    ],
    ids=str,
)
def test_what_colbert_writes(make: Callable[..., Path], settings: dict[str, Any]) -> None:
    assert_like_the_library(make(kind="colbert", **settings))


def test_a_text_has_the_same_bytes_in_any_company(make: Callable[..., Path]) -> None:
    made = extractor(make())
    together = matrices(made, SOME * 5)
    for text, found in zip(SOME * 5, together, strict=True):
        np.testing.assert_array_equal(found, matrices(made, [text])[0])


def test_long_texts_keep_all_their_tokens(make: Callable[..., Path]) -> None:
    """A document is read in windows, each with the marker; a query that is too long to be filled up is read whole."""
    document = extractor(make(), long="window", max_length=24).features([LONG_TEXT])[0]
    plain = Extractor(make(), layers="last", pooling="token", prompt="", special_tokens=False).features([LONG_TEXT])[0]
    assert document.tokens is not None
    assert plain.tokens is not None
    words = [each for each in plain.tokens.strings or () if each not in string.punctuation]
    assert list(document.tokens.strings or ()) == ["[CLS]", "[D] ", *words, "[SEP]"]
    query = extractor(make(), "query", long="window", max_length=40).features([SOME[-2]])[0]
    assert query.tokens is not None
    assert list(query.tokens.strings or ())[:3] == ["[CLS]", "[Q] ", "he"]
    assert "[MASK]" not in (query.tokens.strings or ())


def test_other_layers_beside_it(make: Callable[..., Path]) -> None:
    """One pass gives both; they are of the same tokens, read in the same way."""
    both = Extractor(make(), layers="sentence,last,concat4", pooling="mean,token", precision="fp32", dtype="float32")
    names = ["sentence_token", "last_mean", "last_token", "concat4_mean", "concat4_token"]
    assert [column.name for column in both.columns] == names
    for found, wanted in zip(both.features(SOME), matrices(extractor(make()), SOME), strict=True):
        np.testing.assert_allclose(found.matrix("sentence_token"), wanted, rtol=0, atol=1e-6)
        assert found.matrix("last_token").shape == (len(wanted), WIDTH)
        np.testing.assert_array_equal(found.matrix("last_token"), found.matrix("concat4_token")[:, -WIDTH:])


# ── stored, indexed, searched ───────────────────────────────────────────────────────────────────────────────


QUERIES = ["the bank of a river", "money", "an old mill"]


@pytest.fixture(scope="module")
def features(make: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("set") / "a.features"
    texts = [*SOME, "He sat on the bank of the river.", "The mill ground corn.", "Money, money and more money!"]
    Extractor(make(), precision="fp32", dtype="float32").extract(memory_corpus(texts), folder)
    return folder


def maxsim_of_the_library(folder: Path, features: Path) -> NDArray[np.float32]:
    """The mean, over the tokens of each query, of the best cosine with a token of each document."""
    theirs = oracle(folder)
    texts = [document.text or "" for document in FeatureSet(features)]
    scores = theirs.similarity(theirs.encode_query(QUERIES), theirs.encode_document(texts))
    found: NDArray[np.float32] = scores.numpy() / EXPANSION["length"]
    return found


@pytest.mark.parametrize("kept", [None, "sentence_token"])
def test_search_by_maxsim_scores_as_the_library_does(
    make: Callable[..., Path], features: Path, tmp_path: Path, kept: str | None
) -> None:
    build_index(features, tmp_path / "a.index", options=BuildOptions(with_tokens=kept))
    index = Index(tmp_path / "a.index")
    assert index.settings.contents.endswith("of sentence_token")  # one encoding for each text
    wanted = maxsim_of_the_library(make(), features)
    for query, scores in zip(QUERIES, wanted, strict=True):
        hits = index.search(query, k=len(scores), rerank=MaxSim()).hits
        found = {int(hit.row): hit.score for hit in hits}
        np.testing.assert_allclose(
            [found[row] for row in range(len(scores))], scores, rtol=0, atol=1e-5 if kept is None else 0.02
        )


def test_tokens_one_by_one_and_spans(features: Path, tmp_path: Path) -> None:
    build_index(features, tmp_path / "tokens.index", options=BuildOptions(encode="none"))
    index = Index(tmp_path / "tokens.index")
    assert index.settings.unit == "token"
    build_index(features, tmp_path / "spans.index", options=BuildOptions(spans="sentences"))
    assert Index(tmp_path / "spans.index").settings.unit == "span"
    assert Index(tmp_path / "spans.index").search("money").hits
    with pytest.raises(UsageError, match="their mean over a span says nothing to it"):
        build_index(features, tmp_path / "no.index", options=BuildOptions(spans="sentences", encode="none"))


def test_stored_as_it_is_and_nothing_derived_from_it(make: Callable[..., Path], features: Path) -> None:
    opened = FeatureSet(features)
    assert [column.name for column in opened.columns] == ["sentence_token"]
    assert opened.find("sentence").name == "sentence_token"
    for found, wanted in zip(opened, matrices(extractor(make(), max_length=None), SOME), strict=False):
        np.testing.assert_allclose(found.matrix("sentence_token"), wanted, rtol=0, atol=1e-6)
    for name in ("last_token", "sum4_token", "last"):
        with pytest.raises(NotDerivableError):
            opened.find(name)
    both = Extractor(make(), layers="last", pooling="token").columns
    with pytest.raises(NotDerivableError, match="is not stored; there are: last_token"):
        find_column(both, 5, "sentence_token")
    ran = CliRunner().invoke(main, ["verify", str(features)])
    assert ran.exit_code == 0, ran.output


def test_in_the_shell(make: Callable[..., Path], tmp_path: Path) -> None:
    """The commands of docs/layers.md, which need a model that is not packaged."""
    texts = ["The mill ground corn.", "He sat on the bank of the river.", "Money, money and more money!"]
    (tmp_path / "corpus.txt").write_text("\n".join(texts), "utf-8")
    made, index = tmp_path / "corpus.features", tmp_path / "corpus.index"
    for command in (
        ["extract", tmp_path / "corpus.txt", "--model", make(), "-o", made, "--precision", "fp32"],
        ["index", made, "-o", index],
        ["search", index, "money", "--rerank", "maxsim", "--json"],
    ):
        ran = CliRunner().invoke(main, [*map(str, command)])
        assert ran.exit_code == 0, ran.output
    theirs = oracle(make())
    scores = theirs.similarity(theirs.encode_query(["money"]), theirs.encode_document(texts))[0].numpy()
    found = {hit["text"]: hit["score"] for hit in json.loads(ran.stdout)["hits"]}
    np.testing.assert_allclose([found[text] for text in texts], scores / EXPANSION["length"], rtol=0, atol=1e-3)


def test_settings_that_make_an_equal_one(make: Callable[..., Path]) -> None:
    from dataclasses import asdict

    made = Extractor(make(), layers="sentence,last", pooling="word")
    assert Extractor(**asdict(made.settings)).columns == made.columns


def test_info_says_how_it_reads(make: Callable[..., Path]) -> None:
    shown = json.loads(CliRunner().invoke(main, ["info", str(make()), "--json"]).stdout)
    assert shown["sentence"] == (
        "8 values for each token: the last layer by Dense 32 to 8 (Identity), Normalize; a query begins with '[Q] ', a "
        "document with '[D] '; a query is filled up to 24 tokens by the mask that no token sees; a document has no "
        f"vectors of {' '.join(string.punctuation)}"
    )
    assert shown["prompts"] == PROMPTS
    for folder, file, tokens in (
        (make(), "sentence_bert_config.json", 60),
        (make(kind="pylate"), "config_sentence_transformers.json", 60),
        (make(kind="colbert", doc_maxlen=50), "artifact.metadata", 50),
    ):
        assert Model("x", folder).stored_limits[file] == tokens


# ── what cannot be ──────────────────────────────────────────────────────────────────────────────────────────


def test_texts_of_no_role_are_refused(make: Callable[..., Path]) -> None:
    with pytest.raises(UsageError, match=r"begin with '\[Q\] ' or '\[D\] ', and not with 'topic: '"):
        Extractor(make(), prompt="topic: ")
    Extractor(make(), layers="last", prompt="topic: ").encode(["a"])
    with pytest.raises(UsageError, match="a prompt and context both stand before a word"):
        Extractor(make(), layers="sentence,last", pooling="word", context="left:8")


def change(folder: Path, file: str, **settings: object) -> None:
    known = json.loads((folder / file).read_text("utf-8"))
    (folder / file).write_text(json.dumps(known | settings), "utf-8")


def pooled(folder: Path) -> None:
    modules = json.loads((folder / "modules.json").read_text("utf-8"))
    modules[3]["type"] = "sentence_transformers.multi_vector_encoder.modules.token_pooling.HierarchicalTokenPooling"
    (folder / "modules.json").write_text(json.dumps(modules), "utf-8")


MASK = "3_MultiVectorMask/config.json"
REFUSED: dict[str, Callable[[Path], None]] = {
    "its tokenizer has no token 'query: ', which marks a query": lambda folder: change(
        folder, "config_sentence_transformers.json", prompts={"query": "query: ", "document": "passage: "}
    ),
    "it reads queries otherwise than documents, and no prompt tells them apart": lambda folder: change(
        folder, "config_sentence_transformers.json", prompts={}
    ),
    "its module '.*HierarchicalTokenPooling' is unknown": pooled,
    "it fills queries up before their tokens": lambda folder: change(
        folder, "tokenizer_config.json", padding_side="left"
    ),
    "it compares queries with images": lambda folder: change(folder, MASK, keep_only_token_ids=[3]),
    "its 1_Dense is for 'sentence_embedding', not for the vectors of tokens": lambda folder: change(
        folder, "1_Dense/config.json", module_input_name="sentence_embedding", module_output_name="sentence_embedding"
    ),
    "1_Dense has no model.safetensors.*\n.*import MultiVectorEncoder": lambda folder: (
        folder / "1_Dense" / "model.safetensors"
    ).unlink(),
    "cannot read .*config.json": lambda folder: change(folder, MASK, skiplist_words="all"),
}


def test_modules_that_are_listed_are_all_there_are(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    """Of sentence-transformers' own models none is added: no Normalize, and no mask of punctuation."""
    from sentence_transformers.base.modules import Dense, Normalize

    name = "token_embeddings"
    torch.manual_seed(3)
    dense = Dense(WIDTH, PROJECTED, module_input_name=name)
    assert_like_the_library(save(tiny("bert").folder, tmp_path / "plain", steps=[dense]))
    folder = save(tiny("bert").folder, tmp_path / "unmasked", steps=[dense, Normalize(module_input_name=name)])
    listed = json.loads((folder / "modules.json").read_text("utf-8"))
    (folder / "modules.json").write_text(json.dumps(listed[:-1]), "utf-8")
    assert_like_the_library(folder)


def test_an_index_by_default_is_checked_like_one_that_was_asked_for(features: Path, tmp_path: Path) -> None:
    for options in (BuildOptions(transform="whiten"), BuildOptions(metric=Metric.L2)):
        with pytest.raises(UsageError, match="an encoding imitates maxsim"):
            build_index(features, tmp_path / "no.index", options=options)


def test_the_name_sentence_means_the_stored_projection(make: Callable[..., Path], tmp_path: Path) -> None:
    both = Extractor(make(), layers="sentence,last", pooling="mean,token", precision="fp32")
    both.extract(memory_corpus([*SOME, "Money, money!"]), tmp_path / "a.features")
    build_index(tmp_path / "a.features", tmp_path / "own.index")
    assert Index(tmp_path / "own.index").settings.column.name == "sentence_token"
    build_index(tmp_path / "a.features", tmp_path / "named.index", "sentence")
    assert Index(tmp_path / "named.index").settings.column.name == "sentence_token"
    build_index(
        tmp_path / "a.features", tmp_path / "mean.index", "last_mean", options=BuildOptions(with_tokens="sentence")
    )
    index = Index(tmp_path / "mean.index")
    assert index.settings.tokens is not None
    assert index.settings.tokens.column.name == "sentence_token"
    with pytest.raises(UsageError, match="the model reads queries otherwise than documents"):
        index.search("money", why=True)
    with pytest.raises(UsageError, match="unknown layer specification 'sentence'"):
        parse_recipes("sentence", 5)


def test_served(make: Callable[..., Path]) -> None:
    texts = ["the bank of a river", "money", "an old mill"]
    theirs = oracle(make())
    scores = theirs.similarity(theirs.encode_query(["a bank"]), theirs.encode_document(texts))[0].numpy()
    service = open_service([], ServerSettings(), model=str(make()), precision="fp32")
    with TestClient(create_app(service), "http://localhost") as client:
        for body in ({}, {"layers": "sentence"}):
            ranked = client.post("/rerank", json={"query": "a bank", "texts": texts} | body).json()
            found = {each["index"]: each["score"] for each in ranked}
            wanted = scores / EXPANSION["length"]
            np.testing.assert_allclose([found[at] for at in range(3)], wanted, rtol=0, atol=1e-5)
        answer = client.post("/embed", json={"inputs": "a", "pooling": "mean"})
        assert np.shape(answer.json()) == (1, WIDTH)
        refused = client.post("/v1/embeddings", json={"input": "a", "layers": "sentence", "prompt": "x"})
        assert refused.status_code == 400, refused.text


@pytest.mark.parametrize("told", REFUSED)
def test_what_is_unknown_or_damaged_is_refused(make: Callable[..., Path], tmp_path: Path, told: str) -> None:
    folder = tmp_path / "model"
    shutil.copytree(make(), folder)
    REFUSED[told](folder)
    with pytest.raises(ModelError, match=told):
        Extractor(folder, layers="sentence", precision="fp32").features(["a"])


def test_a_projection_that_is_missing(make: Callable[..., Path], tmp_path: Path, tiny: Callable[[str], Tiny]) -> None:
    shutil.copytree(make(kind="colbert"), tmp_path / "model")
    shutil.copy(tiny("bert").folder / "model.safetensors", tmp_path / "model")
    with pytest.raises(ModelError, match=r"its weights lack linear.weight"):
        Extractor(tmp_path / "model", layers="sentence")
    Extractor(tmp_path / "model", layers="last").encode(["a"])


def test_another_reading_is_another_model(make: Callable[..., Path], tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(make(), folder)
    seen = [Model("x", folder).fingerprint, Model("x", make()).fingerprint]
    assert len(set(seen)) == 1
    change(folder, MASK, skiplist_words=["the"])
    seen.append(Model("x", folder).fingerprint)
    change(folder, "sentence_bert_config.json", query_expansion=dict(EXPANSION) | {"length": 16})
    seen.append(Model("x", folder).fingerprint)
    assert len(set(seen)) == 3


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_other_precisions_are_near(make: Callable[..., Path], precision: str) -> None:
    for role in ("document", "query"):
        exact, found = (matrices(extractor(make(), role, precision=each), SHORT) for each in ("fp32", precision))
        for one, other in zip(exact, found, strict=True):
            assert np.einsum("ij,ij->i", one, other).min() > 0.98
