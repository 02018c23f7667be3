"""A StoredEncoder gives what the Extractor gave that made its sets, without the model."""

import json
import pickle
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bertfeat import CorpusSettings, Document, Extractor, FeatureSet, Index, StoredEncoder, build_index
from bertfeat.errors import FeatureSetError, NotDerivableError, UsageError
from bertfeat.search import Answer, BuildOptions, MaxSim
from tests.support.tiny_models import Tiny

TEXTS = [
    "The river rose.",
    "Nobody saw it, naïve as they were!",
    "나는 강가의 은행에 갔다.",
    "The bank " * 40,
    "A storm came.",
    "The river rose.",
    "Ann met Bo in Ulm.",
]
FP32: dict[str, Any] = {"precision": "fp32", "dtype": "float32"}

Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def made(tiny: Tiny, texts: Sequence[Any] = TEXTS, name: str = "texts", **settings: Any) -> Path:
        rows = [text if isinstance(text, dict) else {"text": text} for text in texts]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        corpus = CorpusSettings(pair_column="pair" if "pair" in rows[0] else None)
        run = {key: settings.pop(key) for key in ("keep_text", "part_rows") if key in settings}
        place = tmp_path / f"{name}.features"
        Extractor(str(tiny.folder), **{**FP32, "pooling": "mean", **settings}).extract(
            tmp_path / f"{name}.jsonl", place, corpus_settings=corpus, overwrite=True, **run
        )
        return place

    return made


def computed(tiny: Tiny, texts: Any = TEXTS, **settings: Any) -> NDArray[np.float32]:
    keywords = {"prompt": settings.pop("prompt")} if "prompt" in settings else {}
    extractor = Extractor(str(tiny.folder), **{**FP32, "pooling": "mean", **settings})
    vectors: NDArray[np.float32] = extractor.encode(texts, **keywords)
    return vectors


def stored(features: Path) -> NDArray[np.float32]:
    """The vectors of the set itself, row by row."""
    matrix: NDArray[np.float32] = FeatureSet(features).matrix("last_mean")
    return matrix


def assert_near(found: Any, wanted: Any) -> None:
    """Alone and in company a text has nearly the same vector, and the same one only where kernels compute it."""
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("part_rows", [1, 3, 100])
def test_stored_texts_have_the_vectors_of_the_set(bert: Tiny, make: Make, part_rows: int) -> None:
    features = make(bert, part_rows=part_rows)
    encoder, wanted = StoredEncoder(features), stored(features)
    wanted[5] = wanted[0]  # the first of equal texts
    np.testing.assert_array_equal(encoder.encode(TEXTS), wanted)
    order = [6, 0, 3, 3, 1, 5]
    np.testing.assert_array_equal(encoder.encode(TEXTS[at] for at in order), wanted[order])
    np.testing.assert_array_equal(encoder.encode(TEXTS[2]), wanted[2])
    assert_near(wanted, computed(bert))
    assert encoder.encode([]).shape == (0, bert.model.hidden_size)
    assert TEXTS[1] in encoder
    assert "Nobody saw it" not in encoder


def test_other_results(bert: Tiny, make: Make) -> None:
    features = make(bert)
    encoder, wanted = StoredEncoder(features), stored(features)
    tensor = encoder.encode(TEXTS, convert_to_tensor=True, normalize_embeddings=True)
    units = wanted / np.linalg.norm(wanted, axis=1, keepdims=True)
    np.testing.assert_allclose(tensor.cpu().numpy(), units, atol=1e-6)
    np.testing.assert_array_equal(encoder.encode(TEXTS, truncate_dim=5), wanted[:, :5])
    np.testing.assert_array_equal(encoder.encode_query(TEXTS), wanted)
    np.testing.assert_array_equal(encoder.encode_document(TEXTS), wanted)
    called = encoder({**encoder.preprocess(TEXTS)})["sentence_embedding"]
    np.testing.assert_array_equal(np.asarray(called), wanted)
    assert encoder.get_embedding_dimension() == encoder.column.width == wanted.shape[1]
    assert encoder.identity.fingerprint == bert.model.fingerprint
    assert encoder.max_seq_length == Extractor(str(bert.folder)).max_seq_length
    similar = Extractor(str(bert.folder)).similarity(wanted, wanted)
    np.testing.assert_array_equal(encoder.similarity(wanted, wanted), similar)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(encoder)).encode(TEXTS), wanted)


def test_derived_columns(bert: Tiny, make: Make) -> None:
    features = make(bert, layers="concat=1..2", pooling="mean,cls")
    encoder = StoredEncoder(features, "sum=1..2", "cls")
    np.testing.assert_allclose(encoder.encode(TEXTS), computed(bert, layers="sum=1..2", pooling="cls"), atol=1e-5)


def test_the_model_is_not_needed(bert: Tiny, make: Make, tmp_path: Path) -> None:
    wanted, copy = computed(bert), shutil.copytree(bert.folder, tmp_path / "model")
    features = make(replace(bert, folder=copy))
    shutil.rmtree(copy)
    assert_near(StoredEncoder(features).encode(TEXTS), wanted)
    assert StoredEncoder(features).model_name == str(copy)
    with pytest.raises(UsageError, match="no feature set holds 1 text of 2; the first: 'Another'"):
        StoredEncoder(features).encode(["Another", TEXTS[0]])
    with pytest.raises(Exception, match="model"):
        StoredEncoder(features, missing="compute").encode(["Another", TEXTS[0]])
    moved = StoredEncoder(features, missing="compute", model=bert.folder)
    assert_near(moved.encode(["Another", TEXTS[0]]), computed(bert, ["Another", TEXTS[0]]))


def test_computed_and_stored_texts_keep_their_order(bert: Tiny, make: Make) -> None:
    texts = ["New.", TEXTS[3], "Another new one.", TEXTS[0], "New."]
    encoder = StoredEncoder(make(bert), missing="compute")
    assert_near(encoder.encode(texts), computed(bert, texts))
    query = computed(bert, ["New.", TEXTS[0]], prompt="query: ")
    assert_near(encoder.encode(["New.", TEXTS[0]], prompt="query: "), query)


def test_pairs(bert: Tiny, make: Make) -> None:
    pairs = [("The river", "rose."), ("The river", "fell."), ("The", "river rose.")]
    encoder = StoredEncoder(make(bert, [{"text": text, "pair": pair} for text, pair in pairs]))
    assert_near(encoder.encode(pairs[::-1]), computed(bert, pairs[::-1]))
    for other in ("The river", ("The river", ""), ("rose.", "The river")):
        with pytest.raises(UsageError):
            encoder.encode([other])


def test_several_sets_and_their_prompts(bert: Tiny, make: Make) -> None:
    documents = make(bert, TEXTS[:4], "documents", prompt="passage: ")
    queries = make(bert, TEXTS[2:], "queries", prompt="query: ")
    encoder = StoredEncoder([documents, queries])
    of_documents = computed(bert, TEXTS[:4], prompt="passage: ")
    assert_near(encoder.encode(TEXTS[:4], prompt="passage: "), of_documents)
    assert_near(encoder.encode(TEXTS[2:], prompt="query: "), computed(bert, TEXTS[2:], prompt="query: "))
    problem = r"no feature set holds 2 texts of 2 with the prompt '' \(there are 'passage: ', 'query: '\)"
    with pytest.raises(UsageError, match=problem):
        encoder.encode(TEXTS[:2], prompt="")
    with pytest.raises(UsageError, match="holds 1 text of 1 with the prompt 'query: '"):
        encoder.encode(TEXTS[1:2], prompt="query: ")
    for call in (encoder.encode, encoder.encode_query, encoder.features):
        with pytest.raises(UsageError, match="the feature sets have several prompts"):
            call(TEXTS[2:4])
    named = StoredEncoder([documents, queries], prompts={"query": "query: ", "document": "passage: "})
    assert_near(named.encode_document(TEXTS[:4]), of_documents)
    assert_near(named.encode_query(TEXTS[2:]), computed(bert, TEXTS[2:], prompt="query: "))
    with pytest.raises(UsageError, match=r"with the prompt 'query: ' \(there are"):
        named.encode_query(TEXTS[1])
    (found,) = named.features([TEXTS[3]], prompt="query: ")
    assert_near(found.vector("last_mean"), computed(bert, [TEXTS[3]], prompt="query: ")[0])
    assert (TEXTS[0] in named, TEXTS[6] in named, "Another" in named) == (True, True, False)
    more = StoredEncoder([make(bert, TEXTS[:4], "first"), make(bert, TEXTS[4:], "second")])
    assert_near(more.encode(TEXTS), computed(bert))


def assert_same_answer(ours: Answer, theirs: Answer) -> None:
    """The same hits, whose scores may differ by the last digits of the query's vector."""
    assert [hit.id for hit in ours.hits] == [hit.id for hit in theirs.hits]
    assert_near([hit.score for hit in ours.hits], [hit.score for hit in theirs.hits])


def test_it_embeds_the_queries_of_an_index(bert: Tiny, make: Make) -> None:
    features = make(bert, pooling="mean,token")
    queries = make(bert, ["The river?", "a bank"], "queries", pooling="mean,token")
    build_index(features, features.with_suffix(".index"), "last_mean", options=BuildOptions(evaluate=False))
    folder = features.with_suffix(".index")
    stored, opened = Index(folder, encoder=StoredEncoder(queries)), Index(folder)
    for rerank in (None, MaxSim(idf=False)):
        assert_same_answer(*(index.search("The river?", rerank=rerank) for index in (stored, opened)))


@pytest.mark.parametrize("column", ["sum=1..2_mean", "last_cls"])
def test_an_index_gets_the_column_that_it_has(bert: Tiny, make: Make, column: str) -> None:
    settings = {"layers": "last,concat=1..2", "pooling": "mean,cls"}
    features, queries = make(bert, **settings), make(bert, ["The river?", "a bank"], "queries", **settings)
    folder = features.with_suffix(".index")
    build_index(features, folder, column, options=BuildOptions(evaluate=False))
    stored = Index(folder, encoder=StoredEncoder(queries, "last", "mean"))
    assert_same_answer(stored.search("The river?"), Index(folder).search("The river?"))
    with pytest.raises(NotDerivableError):
        Index(folder, encoder=StoredEncoder(make(bert, name="other", layers="1", pooling="mean")))


def test_the_measure_of_the_model(bert: Tiny, make: Make, tmp_path: Path) -> None:
    copy = shutil.copytree(bert.folder, tmp_path / "model")
    (copy / "config_sentence_transformers.json").write_text('{"similarity_fn_name": "dot"}')
    features = make(replace(bert, folder=copy))
    wanted = StoredEncoder(features).encode(TEXTS)
    for encoder in (StoredEncoder(features), Extractor(str(copy)), StoredEncoder(features, similarity_fn_name="dot")):
        assert encoder.similarity_fn_name == "dot"
        np.testing.assert_allclose(np.asarray(encoder.similarity(wanted, wanted)), wanted @ wanted.T, rtol=1e-5)
    shutil.rmtree(copy)
    assert StoredEncoder(features).similarity_fn_name == "cosine"
    with pytest.raises(UsageError, match="chebyshev"):
        StoredEncoder(features, similarity_fn_name="chebyshev")


def test_evaluators_of_sentence_transformers(bert: Tiny, make: Make) -> None:
    evaluation = pytest.importorskip("sentence_transformers.sentence_transformer.evaluation")
    first, second, scores = TEXTS[:3], TEXTS[3:6], [0.1, 0.9, 0.5]
    judges = [
        evaluation.EmbeddingSimilarityEvaluator(first, second, scores),
        evaluation.InformationRetrievalEvaluator(
            {"q": TEXTS[4]}, {str(at): text for at, text in enumerate(TEXTS[:4])}, {"q": {"1"}}
        ),
    ]
    encoder, extractor = StoredEncoder(make(bert)), Extractor(str(bert.folder), pooling="mean", precision="fp32")
    for judge in judges:
        assert judge(encoder) == pytest.approx(judge(extractor), abs=1e-4)


def test_what_cannot_be_stored_encoders(bert: Tiny, make: Make, tiny: Callable[[str], Tiny]) -> None:
    features = make(bert, pooling="mean,token")
    with pytest.raises(UsageError, match="a text gets one vector, and last_token is of tokens"):
        StoredEncoder(features, "last_token")
    with pytest.raises(NotDerivableError):
        StoredEncoder(features, "layer1_mean")
    with pytest.raises(UsageError, match="name at least one feature set"):
        StoredEncoder([])
    with pytest.raises(FeatureSetError, match="holds no texts, by which vectors are found"):
        StoredEncoder(make(bert, name="blind", keep_text=False))
    other = make(tiny("roberta"), name="other")
    with pytest.raises(FeatureSetError, match=r"does not go with .*they come from different models"):
        StoredEncoder([features, other])
    short = make(bert, name="short", max_length=16, long="truncate")
    with pytest.raises(FeatureSetError, match=r"does not go with .*with long 'window' and 'truncate'"):
        StoredEncoder([features, short])
    with pytest.raises(UsageError, match="missing"):
        StoredEncoder(features, missing="ignore")  # type: ignore[arg-type]


def test_wrong_calls(bert: Tiny, make: Make) -> None:
    encoder = StoredEncoder(make(bert, pooling="mean,token"), "last_mean")
    with pytest.raises(UsageError, match="a StoredEncoder gives one vector a text; features"):
        encoder.encode(TEXTS, output_value="token_embeddings")
    with pytest.raises(UsageError, match="a text cannot be embedded"):
        encoder.encode(["half of a pair: \ud800"])
    with pytest.raises(UsageError, match="item 1 is missing"):
        encoder.encode([None])  # type: ignore[list-item]
    with pytest.raises(UsageError, match="no prompt named 'summary'"):
        encoder.encode(TEXTS, prompt_name="summary")
    with pytest.raises(AttributeError, match="StoredEncoder has no 'fit': the model is frozen"):
        encoder.fit  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(UsageError, match="no feature set holds 1 text of 1"):
        encoder.features(["Another"])
    (document,) = encoder.features([TEXTS[6]])
    (expected,) = Extractor(str(bert.folder), pooling="mean,token", **FP32).features([TEXTS[6]])
    assert_near(document.matrix("last_token"), expected.matrix("last_token"))


def test_sets_that_read_neighbors_are_refused(bert: Tiny, make: Make, tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("-DOCSTART- O\n\nThe O\nriver O\n\nrose O\n\n")
    Extractor(str(bert.folder), pooling="mean", **FP32).extract(
        tmp_path / "a.conll", tmp_path / "a.features", corpus_settings=CorpusSettings(document_context=True)
    )
    with pytest.raises(FeatureSetError, match="depend on the sentences before and after each text"):
        StoredEncoder(FeatureSet(tmp_path / "a.features"))
    with pytest.raises(FeatureSetError, match="depend on how the words of each text were split"):
        StoredEncoder(make(bert, name="left", pooling="word,mean", context="left:2"), "last_mean")
    with pytest.raises(UsageError, match="a text that is read with its neighbors"):
        StoredEncoder(make(bert)).encode([Document(0, "1", TEXTS[0], before="Before.")])
