"""Vectors by their principal components: NumPy's own decomposition of the same vectors, and what is read of them."""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from bertfeat.core.corpus import CorpusSettings
from bertfeat.core.extraction import Extractor, Progress, estimate_extraction, verify_features
from bertfeat.core.extraction.compute import compute_features
from bertfeat.core.extraction.run_options import ExtractionOptions
from bertfeat.core.features import FeatureSet
from bertfeat.core.features.cells import INT8_COSINE
from bertfeat.core.features.part import decode_header, encode_header
from bertfeat.core.recipe import Pooling
from bertfeat.errors import (
    BertfeatError,
    DamagedError,
    FeatureSetError,
    SettingsDifferError,
    TrainingError,
    UsageError,
)
from bertfeat.learning import HeadSettings, Tagger, train_head
from bertfeat.usages import find_usages
from tests.support.runs import contents, text_file
from tests.support.tiny_models import SENTENCES, TEXTS, Tiny

Floats = NDArray[np.float32]
LINES = [*TEXTS, *SENTENCES] * 3
WIDTH = 5


def extractor(tiny: Tiny, **settings: Any) -> Extractor:
    return Extractor(tiny.folder, **{"pooling": "word", "precision": "fp32", "dtype": "float32", **settings})


def vectors(features: FeatureSet, column: str = "last_word") -> Floats:
    return np.concatenate([document.matrix(column) for document in features])


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return text_file(tmp_path_factory.mktemp("bases") / "a.txt", LINES)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-3), ("float16", 4e-3), ("int8", None)])
def test_the_best_directions_are_stored(
    packed_tiny: Tiny, corpus: Path, tmp_path: Path, dtype: str, tolerance: float | None
) -> None:
    """No projection of that rank is nearer to the vectors than theirs by singular values (Eckart and Young 1936)."""
    extractor(packed_tiny).extract(corpus, tmp_path / "whole")
    extractor(packed_tiny, dtype=dtype).extract(corpus, tmp_path / "short", width=WIDTH)
    whole, short = vectors(FeatureSet(tmp_path / "whole")), vectors(FeatureSet(tmp_path / "short"))
    assert short.shape == whole.shape
    _, values, right = np.linalg.svd(whole.astype(np.float64), full_matrices=False)
    best = whole @ right[:WIDTH].T @ right[:WIDTH]
    (column,) = FeatureSet(tmp_path / "short").columns
    assert column.basis is not None
    assert column.basis.kept == pytest.approx((values[:WIDTH] ** 2).sum() / (values**2).sum(), abs=1e-3)
    if tolerance is not None:
        np.testing.assert_allclose(short, best, atol=tolerance * np.abs(whole).max())
    else:
        lengths = np.linalg.norm(short, axis=1) * np.linalg.norm(best, axis=1)
        assert ((short * best).sum(1) / lengths)[lengths > 0].min() >= INT8_COSINE - 1e-5
    assert (short[~whole.any(axis=1)] == 0).all()  # words without pieces
    assert verify_features(tmp_path / "short").holds


def test_layers_are_derived_as_from_whole_vectors(bert: Tiny, corpus: Path, tmp_path: Path) -> None:
    """All directions but one: what is read is nearly the vector, in every layer, and document vectors are untouched."""
    settings: dict[str, Any] = {"layers": "concat4", "pooling": "mean,token,word"}
    extractor(bert, **settings).extract(corpus, tmp_path / "whole")
    width = FeatureSet(tmp_path / "whole").columns[1].width - 1
    extractor(bert, **settings).extract(corpus, tmp_path / "short", width=width)
    for whole, short in zip(FeatureSet(tmp_path / "whole"), FeatureSet(tmp_path / "short"), strict=True):
        np.testing.assert_array_equal(whole.vector("concat4"), short.vector("concat4"))
        for recipe in ("last", "second-to-last", "sum4", "concat4"):
            for pooling in ("word", "token"):
                ours, theirs = short.matrix(recipe, pooling), whole.matrix(recipe, pooling)
                np.testing.assert_allclose(ours, theirs, atol=5e-3 * np.abs(theirs).max())


def test_parts_describe_themselves(bert: Tiny, corpus: Path, tmp_path: Path) -> None:
    """Another reader: the JSON of the footer, and NumPy."""
    extractor(bert, dtype="float16").extract(corpus, tmp_path / "short", width=WIDTH)
    features = FeatureSet(tmp_path / "short")
    path = tmp_path / "short" / "part-00000.parquet"
    table = pq.read_table(path)
    (column,) = json.loads(pq.read_metadata(path).metadata[b"bertfeat"])["columns"]
    basis = np.frombuffer(base64.b64decode(column["basis"]["values"]), "<f2").reshape(column["width"], WIDTH)
    np.testing.assert_allclose(basis.T.astype(float) @ basis, np.eye(WIDTH), atol=2e-3)
    for cell, document in zip(table["last_word"].to_pylist(), features, strict=True):
        stored = np.frombuffer(cell, "<f2").reshape(-1, WIDTH).astype(np.float32)
        np.testing.assert_allclose(stored @ basis.T.astype(np.float32), document.matrix("last_word"), atol=1e-6)


def test_row_groups_are_as_small_as_those_of_whole_vectors(
    bert: Tiny, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader holds the vectors of a row group, however few values are stored of them."""
    monkeypatch.setattr("bertfeat.core.features.part.ROW_GROUP_BYTES", 4000)
    groups = []
    for name, width in (("whole", None), ("short", WIDTH)):
        extractor(bert).extract(corpus, tmp_path / name, width=width)
        metadata = pq.read_metadata(tmp_path / name / "part-00000.parquet")
        groups.append([metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)])
    assert groups[0] == groups[1]
    assert len(groups[0]) > 5


def test_a_run_resumes_and_others_take_its_basis(bert: Tiny, corpus: Path, tmp_path: Path) -> None:
    made, folder = extractor(bert), tmp_path / "a"

    def interrupt(progress: Progress) -> None:
        if progress.documents >= 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        made.extract(corpus, folder, part_rows=4, width=WIDTH, progress=interrupt)
    assert made.extract(corpus, folder, part_rows=4, width=WIDTH).kept_parts > 0
    made.extract(corpus, tmp_path / "b", part_rows=4, width=WIDTH)
    assert contents(folder) == contents(tmp_path / "b")
    assert made.extract(corpus, folder, part_rows=4, basis=folder).nothing_to_do
    others: list[dict[str, Any]] = [{"width": WIDTH - 1}, {}]
    for other in others:
        with pytest.raises(SettingsDifferError, match=f"@{WIDTH}:"):
            made.extract(corpus, folder, part_rows=4, **other)
    with pytest.raises(UsageError, match="runs that share a corpus do not learn components"):
        made.extract(corpus, tmp_path / "s", width=WIDTH, join=True)
    made.extract(corpus, tmp_path / "joined", part_rows=4, basis=folder, join=True)
    assert contents(tmp_path / "joined") == contents(folder)


def test_usages_are_ranked_by_what_is_stored(bert: Tiny, corpus: Path, tmp_path: Path) -> None:
    extractor(bert, layers="concat4").extract(corpus, tmp_path / "short", width=WIDTH)
    features, like = FeatureSet(tmp_path / "short"), "He went to the bank."
    found = find_usages(features, "bank", like=like, k=100).usages
    (document,) = Extractor.from_record(
        features.header.model, features.header.settings, features.columns, name=bert.folder
    ).features([like])
    assert document.words is not None
    query = document.matrix("last")[list(document.words.strings or ()).index("bank")]
    for usage in found:
        other = features[usage.row]
        assert other.words is not None
        vector = other.matrix("last")[other.words.start.tolist().index(usage.start)]
        cosine = float(query @ vector) / float(np.linalg.norm(query) * np.linalg.norm(vector))
        assert usage.score == pytest.approx(cosine, abs=1e-5)
    assert len(found) > 5


def test_heads_read_new_texts_by_the_same_directions(bert: Tiny, tmp_path: Path) -> None:
    conll = "".join("He O\nwent O\nto O\nthe O\nbank B-X\n\nThe O\nriver B-Y\nran O\n\n" for _ in range(6))
    (tmp_path / "a.conll").write_text(conll)
    made = extractor(bert)
    made.extract(tmp_path / "a.conll", tmp_path / "train", width=WIDTH)
    made.extract(tmp_path / "a.conll", tmp_path / "other", width=WIDTH - 1)
    made.extract(tmp_path / "a.conll", tmp_path / "whole")
    given: Any = {"layers": "last", "settings": HeadSettings(hidden=4, epochs=3)}
    folder = train_head("tag", tmp_path / "train", tmp_path / "train", tmp_path / "tagger", **given).folder
    tagger = Tagger(folder, model=bert.folder)
    (column,) = tagger.extractor.columns
    assert column.basis == FeatureSet(tmp_path / "train").columns[0].basis
    (document,) = tagger.extractor.features(["The river ran"])
    rank = np.linalg.matrix_rank(np.concatenate([document.matrix("last")] * 2), tol=1e-4)
    assert rank <= WIDTH
    of_set, of_file = tagger.predict(tmp_path / "train"), tagger.predict(tmp_path / "a.conll")
    assert of_set.rows == of_file.rows
    for other in ("other", "whole"):
        with pytest.raises(TrainingError, match="stored by other components than those of the head"):
            tagger.predict(tmp_path / other)
        with pytest.raises(TrainingError, match="stored by other components"):
            train_head("tag", tmp_path / "train", tmp_path / other, tmp_path / f"tagger-{other}", **given)


def test_widths_and_bases_that_do_not_fit(bert: Tiny, tiny: Any, corpus: Path, tmp_path: Path) -> None:
    made = extractor(bert)
    made.extract(corpus, tmp_path / "whole")
    made.extract(corpus, tmp_path / "short", width=WIDTH)
    width = made.columns[0].width
    for given, problem in (
        ({"width": width}, f"last_word has {width} values; give fewer"),
        ({"width": 0}, "must be at least 1"),
        ({"basis": tmp_path / "whole"}, "it has no components of last_word"),
        ({"basis": tmp_path / "short", "width": 3}, f"has {WIDTH} components of last_word; leave it out"),
        ({"basis": tmp_path / "nowhere"}, "nowhere"),
    ):
        with pytest.raises(BertfeatError, match=problem):
            made.extract(corpus, tmp_path / "x", **given)
    with pytest.raises(UsageError, match="only vectors of tokens and words are shortened"):
        extractor(bert, pooling="mean").extract(corpus, tmp_path / "x", width=3)
    with pytest.raises(FeatureSetError, match="its components are those of vectors of"):
        extractor(tiny("electra")).extract(corpus, tmp_path / "x", basis=tmp_path / "short")
    assert not (tmp_path / "x").exists() or not list((tmp_path / "x").glob("*.parquet"))


def test_an_estimate_counts_what_is_stored(bert: Tiny, corpus: Path, tmp_path: Path) -> None:
    made = extractor(bert)
    made.extract(corpus, tmp_path / "short", width=WIDTH)
    words = FeatureSet(tmp_path / "short").header.counts.words
    whole, by_width, by_basis = (
        estimate_extraction(made, corpus, options=ExtractionOptions(**given)).bytes
        for given in ({}, {"width": WIDTH}, {"basis": str(tmp_path / "short")})
    )
    assert by_width == by_basis
    assert whole - by_width == pytest.approx(4 * words * (made.columns[0].width - WIDTH), rel=0.01)


def test_a_length_that_float16_does_not_hold(bert: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each value fits, and the coordinate of their sum would not: the row fails instead of becoming infinite."""
    compute = compute_features

    def large(*given: Any, **more: Any) -> Any:
        computed = compute(*given, **more)
        computed.matrices["last_word"][0] = 60_000
        return computed

    corpus = text_file(tmp_path / "a.txt", ["the bank", "the river", "the water"])
    made = extractor(bert, dtype="float16")
    made.extract(corpus, tmp_path / "short", width=WIDTH)
    monkeypatch.setattr("bertfeat.core.extraction.sentence_transformers.extractor.compute_features", large)
    report = made.extract(corpus, tmp_path / "large", basis=tmp_path / "short")
    assert (report.failed, report.counts.documents) == (1, 2)
    (failure,) = FeatureSet(tmp_path / "large").failures()
    assert "beyond what float16 holds; use --dtype float32" in failure.reason


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"width": 400}, "'last_word' of .* values in 400 directions"),
        ({"width": 4}, "the directions of 'last_word' are not"),
        ({"values": "AAAA"}, "the directions of 'last_word' are not"),
        ({"values": "no base64!"}, "header"),
        ({"values": 3}, "header"),
    ],
)
def test_headers_with_another_basis(
    bert: Tiny, corpus: Path, tmp_path: Path, change: dict[str, Any], problem: str
) -> None:
    extractor(bert).extract(corpus, tmp_path / "short", width=WIDTH)
    header = json.loads(encode_header(FeatureSet(tmp_path / "short").header))
    header["columns"][0]["basis"].update(change)
    with pytest.raises(DamagedError, match=problem):
        decode_header(json.dumps(header).encode(), "here")


def test_bases_of_some_columns(bert: Tiny, tmp_path: Path) -> None:
    """Rows that fail, pairs, and words that are chosen: the sample has what the run has."""
    rows = [{"a": text, "b": "The bank."} for text in SENTENCES] + [{"a": None, "b": "x"}]
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    reading = CorpusSettings(text_columns=("a",), pair_column="b")
    made = extractor(bert, pooling="token,word", only="bank,the")
    report = made.extract(tmp_path / "a.jsonl", tmp_path / "short", corpus_settings=reading, width=3)
    assert report.failed == 1
    bases = {column.pooling: column.basis for column in FeatureSet(tmp_path / "short").columns}
    assert bases[Pooling.WORD] != bases[Pooling.TOKEN]
    assert verify_features(tmp_path / "short").holds
