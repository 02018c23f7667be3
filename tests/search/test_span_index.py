"""Indexes of spans, against what Hugging Face's model gives for the tokens of each span and of each query."""

import csv
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bertfeat import Extractor, FeatureSet
from bertfeat.core.features import export_features
from bertfeat.core.spans import SpanRule
from bertfeat.errors import FeatureSetError, IndexFolderError, NotDerivableError, UsageError
from bertfeat.io import json_content
from bertfeat.search import (
    BuildOptions,
    Index,
    MaxSim,
    build_index,
    evaluate_beir,
    export_to_lance,
    export_to_qdrant,
    remove_documents,
    update_index,
    verify_index,
)
from bertfeat.usages import find_usages
from tests.support.slow_features import SlowText, slow_text
from tests.support.tiny_models import Tiny
from tests.support.token_sets import QUERIES, RIVER, TEXTS, Make, make_token_set


@pytest.fixture
def make(tmp_path: Path) -> Make:
    return partial(make_token_set, tmp_path)


def span_index(
    features: Path | Sequence[Path], spans: str = "sentences", column: str | None = None, **more: Any
) -> Index:
    first = features if isinstance(features, Path) else features[0]
    options = BuildOptions(spans=spans, evaluate=False, **more)
    build_index(features, first.with_suffix(".index"), column, options=options)
    return Index(first.with_suffix(".index"))


@dataclass(frozen=True)
class SlowSpan:
    id: str
    start: int
    end: int
    vector: NDArray[np.float32]
    tokens: NDArray[np.float32]  # [n, W] those inside
    ids: list[int]  # their numbers in the text


def slow_spans(slow: dict[str, SlowText], texts: dict[str, str], rule: str) -> list[SlowSpan]:
    """Every span with the mean of the tokens that have a character in it."""
    found = []
    for name, text in texts.items():
        spans = SpanRule.parse(rule).split(text)
        for start, end in zip(spans.start.tolist(), spans.end.tolist(), strict=True):
            places = enumerate(slow[name].spans)
            inside = [at for at, (a, b) in places if a < b and b > start and a < end and not slow[name].segments[at]]
            tokens = slow[name].hidden[-1][inside]
            found.append(SlowSpan(name, start, end, tokens.mean(axis=0), tokens, inside))
    return found


def unit(vectors: NDArray[np.floating]) -> NDArray[np.float64]:
    units: NDArray[np.float64] = vectors / np.linalg.norm(vectors.astype(np.float64), axis=-1, keepdims=True)
    return units


def assert_hits(index: Index, expected: list[SlowSpan], texts: dict[str, str], tiny: Tiny, atol: float = 3e-5) -> None:
    """All spans are found for each query, in their places, with the cosine of the query's mean."""
    for answer, query in zip(index.search_batch(QUERIES, 100), QUERIES, strict=True):
        asked = unit(slow_text(tiny, query).hidden[-1].mean(axis=0))
        wanted = {(span.id, span.start, span.end): float(asked @ unit(span.vector)) for span in expected}
        assert len(answer.hits) == len(wanted)
        for hit in answer.hits:
            assert hit.piece is not None
            assert hit.text == texts[hit.id]
            assert hit.piece.string == texts[hit.id][hit.piece.start : hit.piece.end]
            assert hit.score == pytest.approx(wanted.pop((hit.id, hit.piece.start, hit.piece.end)), abs=atol)
        assert not wanted
        scores = [hit.score for hit in answer.hits]
        assert scores == sorted(scores, reverse=True)


@pytest.mark.sampled(4, 6)
@pytest.mark.parametrize("rule", ["sentences", "paragraphs", "words:4:1"])
def test_hits_are_spans_with_the_mean_of_their_tokens(any_tiny: Tiny, make: Make, rule: str) -> None:
    index = span_index(make(any_tiny, TEXTS), rule)
    slow = {name: slow_text(any_tiny, text) for name, text in TEXTS.items()}
    expected = slow_spans(slow, TEXTS, rule)
    assert len(expected) >= 8
    assert_hits(index, expected, TEXTS, any_tiny)
    assert (index.settings.unit, index.settings.contents) == ("span", f"{rule} of last_token")
    assert (index.settings.documents, index.settings.count) == (len(TEXTS), len(expected))
    verify_index(index.vectors.folder)


@pytest.mark.parametrize("poolings", ["word", "word,mean,token"])
def test_spans_of_words_and_of_derived_layers(bert: Tiny, make: Make, poolings: str) -> None:
    features = make(bert, TEXTS, pooling=poolings, layers="concat=1..2")
    index = span_index(features, "sentences", "sum=1..2_word")
    batches = list(FeatureSet(features).spans("sentences", "sum=1..2", "word"))
    vectors = unit(np.concatenate([batch.matrix for batch in batches]))
    np.testing.assert_allclose(index.reconstruct(np.arange(len(index))), vectors, atol=1e-5)
    mean = Extractor(str(bert.folder), layers="sum=1..2", pooling="mean", precision="fp32").encode(QUERIES)
    np.testing.assert_allclose(index.encode(QUERIES), mean, atol=1e-5)


def test_conditions_and_thresholds(bert: Tiny, make: Make) -> None:
    index = span_index(make(bert, TEXTS))
    everything = index.search(QUERIES[0], 100).hits
    long = index.search(QUERIES[0], 100, where="size > 50").hits
    assert [hit.number for hit in long] == [hit.number for hit in everything if hit.values["size"] > 50]  # type: ignore[operator]
    above = index.search(QUERIES[0], 100, score_threshold=everything[3].score).hits
    assert [hit.number for hit in above] == [hit.number for hit in everything[: len(above)]]
    assert 4 <= len(above) < len(everything)
    scope = index.count("size > 50")
    assert (scope.documents, scope.vectors) == (len({hit.id for hit in long}), len(long))


@pytest.mark.parametrize("idf", [True, False])
@pytest.mark.parametrize("sets", [1, 2])
def test_spans_are_scored_again_by_their_own_tokens(bert: Tiny, make: Make, idf: bool, sets: int) -> None:
    texts = list(TEXTS.items())
    parts = [dict(texts)] if sets == 1 else [dict(texts[:2]), dict(texts[2:])]
    index = span_index([make(bert, part, f"part{at}") for at, part in enumerate(parts)])
    slow = {name: slow_text(bert, text) for name, text in TEXTS.items()}
    expected = slow_spans(slow, TEXTS, "sentences")
    strings = {
        document.id: list(document.tokens.strings or ())
        for features in (FeatureSet(source.path) for source in index.settings.sources)
        for document in features
        if document.tokens is not None
    }
    query = slow_text(bert, QUERIES[0])
    real = [at for at, special in enumerate(query.special) if not special]
    tokenizer = Extractor(str(bert.folder), pooling="token").features([QUERIES[0]])[0].tokens
    assert tokenizer is not None
    assert tokenizer.strings is not None
    asked = [tokenizer.strings[at] for at in real]
    having = [sum(string in each for each in strings.values()) for string in asked]
    weights = [math.log((len(TEXTS) + 1) / (each + 1)) if idf else 1.0 for each in having]
    hits = index.search(QUERIES[0], 100, rerank=MaxSim(depth=100, weight=0.5, idf=idf)).hits
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    found = {(hit.id, hit.piece.start): hit for hit in hits if hit.piece}
    assert len(found) == len(expected)
    for span in expected:
        best = (unit(query.hidden[-1][real]) @ unit(span.tokens).T).max(axis=1)
        first = float(unit(query.hidden[-1].mean(axis=0)) @ unit(span.vector))
        maxsim = float(best @ weights) / sum(weights)
        hit = found[span.id, span.start]
        assert (hit.maxsim, hit.first_score) == pytest.approx((maxsim, first), abs=3e-5)
        assert hit.score == pytest.approx(maxsim + 0.5 * first, abs=6e-5)


@pytest.mark.parametrize("kind", ["flat", "hnsw"])
def test_updates_give_the_spans_of_a_new_build(bert: Tiny, make: Make, kind: str) -> None:
    index = span_index(make(bert, TEXTS), type=kind)
    folder = index.vectors.folder
    later = {"c": "Another text. It has two sentences.", "f": "New."}
    assert update_index(folder, make(bert, later, "later")).removed == 1
    assert remove_documents(folder, ["e"]).removed == 1
    texts = {name: text for name, text in {**TEXTS, **later}.items() if name != "e"}
    slow = {name: slow_text(bert, text) for name, text in texts.items()}
    updated = Index(folder)
    assert_hits(updated, slow_spans(slow, texts, "sentences"), texts, bert)
    assert updated.count().documents == len(texts)
    hits = updated.search(QUERIES[0], 100, rerank="maxsim").hits
    assert {hit.id for hit in hits} == {*texts}
    verify_index(folder)


def test_it_is_tuned_on_queries_embedded_as_whole_texts(bert: Tiny, make: Make) -> None:
    features = make(bert, TEXTS)
    options = BuildOptions(spans="words:2", type="IVF2,Flat")
    settings = build_index(features, features.with_suffix(".index"), options=options, queries=QUERIES)
    assert settings.evaluation is not None
    assert settings.evaluation.of == "given"


def test_a_document_has_the_rank_of_its_best_span(bert: Tiny, make: Make, tmp_path: Path) -> None:
    pytest.importorskip("ir_measures")
    index = span_index(make(bert, TEXTS))
    (tmp_path / "judged" / "qrels").mkdir(parents=True)
    (tmp_path / "judged" / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": QUERIES[0]}) + "\n")
    order = list(dict.fromkeys(hit.id for hit in index.search(QUERIES[0], 100).hits))
    for rank, name in enumerate(order, 1):
        lines = f"query-id\tcorpus-id\tscore\nq\t{name}\t1\n"
        (tmp_path / "judged" / "qrels" / "test.tsv").write_text(lines)
        found = evaluate_beir(index, tmp_path / "judged", metrics=["RR"])
        assert list(found.scores.values()) == [pytest.approx(1 / rank, abs=1e-5)]


def test_spans_are_of_the_first_text_of_a_pair(bert: Tiny, make: Make) -> None:
    first, second = "The river rose. They saw it.", "Another text. It has the bank."
    index = span_index(make(bert, [{"id": "p", "text": first, "pair": second}]))
    hits = index.search(QUERIES[0], 9, rerank=MaxSim(idf=False)).hits
    assert sorted(hit.piece.string or "" for hit in hits if hit.piece) == ["The river rose.", "They saw it."]
    assert not any(hit.piece.in_pair for hit in hits if hit.piece)
    slow = slow_text(bert, first, second)
    query = slow_text(bert, QUERIES[0])
    asked = unit(query.hidden[-1][1:-1])
    for span in slow_spans({"p": slow}, {"p": first}, "sentences"):
        (hit,) = (hit for hit in hits if hit.piece and hit.piece.start == span.start)
        assert hit.maxsim == pytest.approx(float((asked @ unit(span.tokens).T).max(axis=1).mean()), abs=3e-5)


def test_spans_that_were_cut_off_are_counted(bert: Tiny, make: Make) -> None:
    features = make(bert, TEXTS, long="truncate", max_length=16)
    index = span_index(features)
    sizes = np.concatenate([batch.pieces for batch in FeatureSet(features).spans("sentences")])
    assert 0 < index.settings.skipped == int((sizes == 0).sum())
    assert index.settings.count == int((sizes > 0).sum())


@pytest.mark.parametrize("kind", ["flat", "hnsw"])
def test_documents_without_spans_come_and_go(bert: Tiny, make: Make, kind: str) -> None:
    """Tombstones are marks on vectors, and such documents have none."""
    texts = {"a": "", "b": "The river rose.", "c": "The bank. It is gone.", "d": ""}
    features = make(bert, texts)
    index = span_index(features, type=kind)
    folder = index.vectors.folder
    assert (index.settings.documents, index.settings.count) == (4, 3)
    assert {hit.id for hit in index.search(QUERIES[0], 9, rerank="maxsim").hits} == {"b", "c"}
    assert remove_documents(folder, ["a", "b"]).removed == 2
    assert remove_documents(folder, ["a", "b"]).unknown == ("a", "b")
    assert Index(folder).count().documents == 2
    assert update_index(folder).added == 2  # a and b are back
    again = Index(folder)
    assert again.count().documents == 4
    hits = again.search(QUERIES[0], 9, rerank="maxsim").hits
    assert sorted(hit.piece.string or "" for hit in hits if hit.piece) == [
        "It is gone.",
        "The bank.",
        "The river rose.",
    ]
    verify_index(folder)


def test_an_index_without_texts(bert: Tiny, make: Make) -> None:
    features = make(bert, TEXTS)
    told, kept = span_index(features, keep_text=False), span_index(make(bert, TEXTS, "kept"))
    for rerank in (None, "maxsim"):
        hits = told.search(QUERIES[0], 100, rerank=rerank).hits
        assert all(hit.text is None and hit.piece and hit.piece.string is None for hit in hits)
        places = [(hit.id, hit.piece.start, round(hit.score, 5)) for hit in hits if hit.piece]
        others = kept.search(QUERIES[0], 100, rerank=rerank).hits
        assert places == [(hit.id, hit.piece.start, round(hit.score, 5)) for hit in others if hit.piece]


def test_the_extractor_of_the_tokens_embeds_queries(bert: Tiny, make: Make) -> None:
    features = make(bert, TEXTS)
    folder = span_index(features).vectors.folder
    extractor = Extractor(str(bert.folder), pooling="token", precision="fp32")
    given = Index(folder, encoder=extractor)
    assert given.search(QUERIES[0]).to_json() == Index(folder).search(QUERIES[0]).to_json()
    options = BuildOptions(spans="sentences", type="IVF2,Flat")
    build_index(features, folder, options=options, queries=QUERIES, encoder=extractor)


def test_words_are_counted_alike(bert: Tiny, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    features = [make(bert, {name: TEXTS[name]}, name) for name in "ad"]
    sets = [FeatureSet(folder) for folder in features]
    korean = replace(sets[1].header.settings, words="korean (kiwi 0)")
    object.__setattr__(sets[1], "header", replace(sets[1].header, settings=korean))
    with pytest.raises(IndexFolderError, match="words are counted as spaces and as korean"):
        build_index(sets, features[0].with_suffix(".index"), options=BuildOptions(spans="words:3", evaluate=False))


def test_spans_of_a_kept_column(bert: Tiny, make: Make, tmp_path: Path) -> None:
    rows = [
        {"id": "a", "text": RIVER, "entities": "[[4, 9], [18, 23]]"},
        {"id": "b", "text": "None.", "entities": "[]"},
    ]
    index = span_index(make(bert, rows, keep=("entities",)), "column:entities")
    hits = index.search("the night", 9).hits
    assert sorted(hit.piece.string or "" for hit in hits if hit.piece) == ["night", "river"]
    assert index.settings.contents == "column:entities of last_token"
    wrong = make(bert, [{"id": "a", "text": "Short.", "entities": "[[4, 9]]"}], "wrong", keep=("entities",))
    before = {path: path.read_bytes() for path in Path(str(index.vectors.folder)).rglob("*") if path.is_file()}
    with pytest.raises(FeatureSetError, match=r"row 0, column entities: the span \[4, 9\) is outside the text of 6"):
        update_index(index.vectors.folder, wrong)
    after = {path: path.read_bytes() for path in Path(str(index.vectors.folder)).rglob("*") if path.is_file()}
    assert before == after


def test_what_has_no_index_of_spans(bert: Tiny, make: Make) -> None:
    features = make(bert, TEXTS, pooling="token,mean", layers="last")
    with pytest.raises(UsageError, match="spans='phrases': these spans are unknown"):
        BuildOptions(spans="phrases")
    with pytest.raises(NotDerivableError, match=r"last_mean has one vector of each text, .*; there are last_token"):
        span_index(features, column="last_mean")
    with pytest.raises(UsageError, match="with_tokens='last_token': spans are pooled from tokens or words"):
        span_index(features, with_tokens="last_token")
    with pytest.raises(NotDerivableError, match="no vectors of tokens or words, and spans are pooled"):
        span_index(make(bert, TEXTS, "means", pooling="mean"))
    with pytest.raises(FeatureSetError, match="the set holds no texts, which are cut into spans"):
        span_index(make(bert, TEXTS, "blind", keep_text=False))
    textless = make(bert, {"z": "Another."}, "later", keep_text=False)
    with pytest.raises(FeatureSetError, match="the set holds no texts"):
        update_index(span_index(features).vectors.folder, textless)
    with pytest.raises(IndexFolderError, match=r"holds sentences of last_token, one vector a span, but usages compare"):
        find_usages(span_index(features), "*", like="the *bank* of it")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"spans": "phrases"}, "these spans are unknown"),
        ({"spans": "words:007"}, "spans 'words:007'"),
        ({"spans": 3}, "spans"),
    ],
)
def test_a_record_with_wrong_spans_is_refused(bert: Tiny, make: Make, change: dict[str, Any], problem: str) -> None:
    folder = span_index(make(bert, TEXTS)).vectors.folder
    record = Path(str(folder)) / ".bertfeat" / "index.json"
    fields = {name: value for name, value in json.loads(record.read_text()).items() if name != "digest"}
    record.write_bytes(json_content({**fields, **change}))
    with pytest.raises(IndexFolderError, match=problem):
        Index(folder)


@pytest.mark.parametrize("form", ["npy", "csv"])
def test_exports_have_the_spans_of_the_set(bert: Tiny, make: Make, tmp_path: Path, form: str) -> None:
    folder = make(bert, TEXTS, long="truncate", max_length=16)
    out = tmp_path / f"spans.{form}"
    report = export_features(folder, form, out, spans="sentences")
    batches = list(FeatureSet(folder).spans("sentences"))
    vectors = np.concatenate([batch.matrix for batch in batches])
    names = ("ids", "positions", "strings", "start", "end")
    owners = [line for batch in batches for line in zip(*(getattr(batch, name) for name in names), strict=True)]
    assert report.vectors == len(vectors) == len(owners)
    if form == "npy":
        np.testing.assert_array_equal(np.load(out), vectors)
        lines = [json.loads(line) for line in out.with_suffix(".ids.jsonl").read_text("utf-8").splitlines()]
        assert [tuple(line.values())[1:] for line in lines] == owners
    else:
        with out.open(encoding="utf-8", newline="") as file:
            head, *lines_of_csv = list(csv.reader(file))
        assert head[:6] == ["id", "position", "string", "start", "end", "v0"]
        assert [tuple(line[:5]) for line in lines_of_csv] == [tuple(map(str, owner)) for owner in owners]
        np.testing.assert_array_equal(np.array([line[5:] for line in lines_of_csv], np.float32), vectors)


def test_databases_hold_what_the_index_holds(bert: Tiny, make: Make, tmp_path: Path) -> None:
    lance, qdrant = pytest.importorskip("lance"), pytest.importorskip("qdrant_client")
    folder = make(bert, TEXTS)
    index = span_index(folder, "words:4:1")
    vectors = index.reconstruct(np.arange(len(index)))
    hits = sorted(index.search(QUERIES[0], 1000).hits, key=lambda hit: hit.number)
    expected = [(hit.id, hit.piece.number, hit.piece.string, hit.piece.start) for hit in hits if hit.piece]
    report = export_to_lance(folder, tmp_path / "spans.lance", spans="words:4:1", evaluate=False)
    assert (report.column, report.vectors) == ("words:4:1 of last_token", len(expected))
    rows = lance.dataset(tmp_path / "spans.lance").to_table().to_pylist()
    assert [(row["id"], row["position"], row["string"], row["start"]) for row in rows] == expected
    np.testing.assert_allclose(np.stack([row["vector"] for row in rows]), vectors, atol=1e-6)
    export_to_qdrant(folder, spans="words:4:1", folder=tmp_path / "qdrant", evaluate=False)
    client = qdrant.QdrantClient(path=str(tmp_path / "qdrant"))
    points, _ = client.scroll("texts", limit=1000, with_vectors=True)
    client.close()
    place = {(name, position): at for at, (name, position, *_) in enumerate(expected)}
    found = sorted(points, key=lambda point: place[point.payload["id"], point.payload["position"]])
    payloads = [point.payload for point in found]
    assert [(each["id"], each["position"], each["string"], each["start"]) for each in payloads] == expected
    np.testing.assert_allclose(np.stack([point.vector for point in found]), vectors, atol=1e-5)


def test_forms_with_a_document_a_line_have_no_spans(bert: Tiny, make: Make, tmp_path: Path) -> None:
    folder = make(bert, TEXTS)
    for form in ("jsonl", "bert-jsonl"):
        with pytest.raises(UsageError, match=f"spans='sentences': {form} has an object a document"):
            export_features(folder, form, tmp_path / "out", spans="sentences")
    with pytest.raises(UsageError, match="these spans are unknown"):
        export_features(folder, "npy", tmp_path / "out.npy", spans="phrases")
    with pytest.raises(UsageError, match="these spans are unknown"):
        export_to_lance(folder, tmp_path / "out.lance", spans="phrases")
    assert not list(tmp_path.glob("out*"))
