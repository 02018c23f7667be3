"""An index that is brought in step with its feature sets, held against one that is built anew from them."""

import re
import shutil
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bertfeat.core.corpus import CorpusSettings, KeptColumn, Value, memory_corpus
from bertfeat.core.extraction import Extractor
from bertfeat.errors import FeatureSetError
from bertfeat.search import BuildOptions, Index, VectorIndex, build_index, remove_documents, update_index, verify_index
from tests.support.index_toy import RECORD, clustered, ids_of, vector_set
from tests.support.steps import Stop, preload, start, steps
from tests.support.tiny_models import Tiny

preload("bertfeat.search", "bertfeat.search.building.update", "bertfeat.cli.index", "faiss", "pandas")

Corpus = dict[str, tuple[int, int]]  # of each id the number of its vector, and a kept value
VECTORS = clustered(600, seed=3)
KINDS = ("flat", "ivf", "hnsw", "IVF8,PQ4np", "disk")


def store(folder: Path, corpus: Mapping[str, tuple[int, int]]) -> Path:
    """A feature set of a corpus, in the place of an older one."""
    shutil.rmtree(folder, ignore_errors=True)
    kept: dict[KeptColumn, list[Value]] = {KeptColumn("year", "int64"): [year for _, year in corpus.values()]}
    vector_set(folder, VECTORS[[number for number, _ in corpus.values()]], ids=[*corpus], kept=kept)
    return folder


def edited(corpus: Corpus, random: np.random.Generator) -> Corpus:
    """A corpus with texts edited, put in, taken out and moved, ids and kept values changed."""
    rows = [(name, number, year) for name, (number, year) in corpus.items()]
    for at in random.choice(len(rows), 5, replace=False):
        rows[at] = (rows[at][0], int(random.integers(600)), rows[at][2])
    for at in random.choice(len(rows), 5, replace=False):
        rows[at] = (rows[at][0], rows[at][1], int(random.integers(99)))
    for at in random.choice(len(rows), 3, replace=False):
        rows[at] = (f"id {random.integers(1 << 40)}", *rows[at][1:])
    for at in sorted(random.choice(len(rows), 4, replace=False).tolist(), reverse=True):
        del rows[at]
    for _ in range(6):
        fresh = (f"id {random.integers(1 << 40)}", int(random.integers(600)), 7)
        rows.insert(int(random.integers(len(rows))), fresh)
    if random.random() < 0.3:
        random.shuffle(rows)
    return {name: (number, year) for name, number, year in rows}


def contents(folder: Path) -> dict[tuple[str, str], tuple[Any, NDArray[np.float32]]]:
    """Everything of the living documents of an index, by set and id: row, text, kept values, vectors."""
    index = VectorIndex(folder)
    living = np.ones(index.settings.count, bool) if index.removed is None else ~index.removed
    numbers = np.flatnonzero(living)
    table = index.documents.take(index.document_numbers(numbers))
    sources = [Path(source.path).name for source in index.settings.sources]
    vectors = index.reconstruct(numbers)
    found: dict[tuple[str, str], tuple[Any, NDArray[np.float32]]] = {}
    for row, vector in zip(table.to_pylist(), vectors, strict=True):
        key = (sources[row.pop("_source")], row["id"])
        before = found.get(key, (row, vector[:0].reshape(0, len(vector))))
        found[key] = (row, np.concatenate([before[1], vector[None]]))
    return found


def assert_same_contents(updated: Path, anew: Path, *, atol: float = 1e-6) -> None:
    ours, theirs = contents(updated), contents(anew)
    assert ours.keys() == theirs.keys()
    for key, (row, vectors) in theirs.items():
        assert ours[key][0] == row
        np.testing.assert_allclose(ours[key][1], vectors, atol=atol)
    verify_index(updated)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", KINDS)
def test_random_edits(kind: str, tmp_path: Path) -> None:
    random = np.random.default_rng(len(kind))
    corpora: list[Corpus] = [
        {f"{name}{at}": (start + at, at) for at in range(200)} for name, start in (("a", 0), ("b", 150))
    ]
    sets = [store(tmp_path / f"{name}.features", corpus) for name, corpus in zip("ab", corpora, strict=True)]
    options = BuildOptions(type="ivf", memory=10_000) if kind == "disk" else BuildOptions(type=kind)
    build_index(sets, tmp_path / "toy.index", options=options)
    for step in range(4):
        before = [dict(corpus) for corpus in corpora]
        at = step % 2
        corpora[at] = edited(corpora[at], random)
        store(sets[at], corpora[at])
        done = update_index(tmp_path / "toy.index", None if step < 2 else sets[at])
        build_index(sets, tmp_path / "anew.index", options=options)
        codes = kind.endswith("np")  # which were trained on other vectors
        assert_same_contents(tmp_path / "toy.index", tmp_path / "anew.index", atol=99 if codes else 1e-6)
        assert done.kept + done.added == sum(map(len, corpora))
        assert done.kept - done.removed == sum(map(len, before)) - 2 * done.removed
        assert 0 < done.added <= 14 + 3
        assert done.settings.changed_since_evaluation == codes
        assert not list(tmp_path.rglob("renewed.arrow"))
    if kind == "flat":
        ours, theirs = (VectorIndex(tmp_path / name).search(VECTORS, 50).scores for name in ("toy.index", "anew.index"))
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_one_id_is_one_rule(tmp_path: Path) -> None:
    """Of documents of one id the last set's is taken, whichever sets are read; and it comes back when that one goes."""
    sets = [tmp_path / f"{name}.features" for name in ("a", "b")]
    store(sets[0], {name: (at, 0) for at, name in enumerate("vwxy")})
    store(sets[1], {name: (at, 1) for at, name in enumerate("xyz", 100)})
    build_index(sets, tmp_path / "toy.index")
    store(sets[1], {name: (at, 1) for at, name in enumerate("wy", 100)})
    for named in (sets[1], None):
        update_index(tmp_path / "toy.index", named)
        found = {name for _, name in contents(tmp_path / "toy.index")}
        assert found == ({*"vwy"} if named else {*"vwxy"})
    build_index(sets, tmp_path / "anew.index")
    assert_same_contents(tmp_path / "toy.index", tmp_path / "anew.index")
    store(sets[0], {name: (at, 0) for at, name in enumerate("vwxyz", 200)})
    update_index(tmp_path / "toy.index", sets[0])  # w and y are those of the other set, which is not read
    build_index(sets, tmp_path / "anew.index")
    assert_same_contents(tmp_path / "toy.index", tmp_path / "anew.index")


def test_documents_that_were_removed_come_back_unless_they_are_named(tmp_path: Path) -> None:
    features = store(tmp_path / "toy.features", {name: (at, 0) for at, name in enumerate("abc")})
    build_index(features, tmp_path / "toy.index")
    remove_documents(tmp_path / "toy.index", ["a", "b"])
    done = update_index(tmp_path / "toy.index", remove=["b", "nobody"])
    assert (done.added, done.removed, done.kept, done.unknown) == (1, 0, 1, ("nobody",))
    assert ids_of(tmp_path / "toy.index") == {"a", "c"}


def test_new_rows_and_kept_values_alone(tmp_path: Path) -> None:
    corpus: Corpus = {name: (at, at) for at, name in enumerate("abcdef")}
    features = store(tmp_path / "toy.features", corpus)
    build_index(features, tmp_path / "toy.index")
    store(features, {name: (corpus[name][0], 9) for name in "fedcba"})
    done = update_index(tmp_path / "toy.index")
    assert (done.added, done.removed, done.kept) == (0, 0, 6)
    documents = VectorIndex(tmp_path / "toy.index").documents.take(np.arange(6)).to_pylist()
    assert [(each["id"], each["row"], each["year"]) for each in documents] == [
        (name, 5 - at, 9) for at, name in enumerate("abcdef")
    ]


def test_kept_columns_come_and_go(tmp_path: Path) -> None:
    """Those of a set that is read are those of now, of another type too; others' stay."""
    vectors = VECTORS[:6]
    kept: dict[KeptColumn, list[Value]] = {KeptColumn("year", "int64"): list(range(6))}
    features = vector_set(tmp_path / "toy.features", vectors, kept=kept)
    build_index(features, tmp_path / "toy.index")
    shutil.rmtree(features)
    kept = {KeptColumn("year", "string"): [f"of {at}" for at in range(6)], KeptColumn("by", "string"): [*"uvwxyz"]}
    vector_set(features, vectors, kept=kept)
    assert update_index(tmp_path / "toy.index").kept == 6
    assert Index(tmp_path / "toy.index").kept == ("year", "by")
    other = vector_set(tmp_path / "other.features", VECTORS[6:8], ids=["x", "y"])
    update_index(tmp_path / "toy.index", other)
    documents = VectorIndex(tmp_path / "toy.index").documents.take(np.arange(8)).to_pylist()
    assert [(each["year"], each["by"]) for each in documents[4:]] == [
        ("of 4", "y"),
        ("of 5", "z"),
        (None, None),
        (None, None),
    ]


def test_sets_without_texts_are_put_in_anew(tmp_path: Path) -> None:
    features = vector_set(tmp_path / "toy.features", VECTORS[:6], text=False)
    build_index(features, tmp_path / "toy.index")
    done = update_index(tmp_path / "toy.index")
    assert (done.added, done.removed, done.kept) == (6, 6, 0)


def test_equal_texts_are_as_many_documents(tmp_path: Path) -> None:
    features = store(tmp_path / "toy.features", dict.fromkeys("abcde", (0, 0)))
    build_index(features, tmp_path / "toy.index")
    for names, added, removed in (("abcdefg", 2, 0), ("gx", 0, 5), ("gx", 0, 0)):
        store(features, dict.fromkeys(names, (0, 0)))
        done = update_index(tmp_path / "toy.index")
        assert (done.added, done.removed) == (added, removed)
        assert ids_of(tmp_path / "toy.index") == {*names}


def test_a_set_that_is_not_there(tmp_path: Path) -> None:
    for name in ("a", "b"):
        store(tmp_path / f"{name}.features", {f"{name}{at}": (at, 0) for at in range(5)})
    build_index([tmp_path / "a.features", tmp_path / "b.features"], tmp_path / "toy.index")
    shutil.rmtree(tmp_path / "a.features")
    before = (tmp_path / "toy.index" / RECORD).read_bytes()
    with pytest.raises(FeatureSetError, match=r"a\.features.*; name the sets that are to be read: the documents of .*"):
        update_index(tmp_path / "toy.index")
    assert (tmp_path / "toy.index" / RECORD).read_bytes() == before
    store(tmp_path / "b.features", {"b9": (9, 0)})
    assert update_index(tmp_path / "toy.index", tmp_path / "b.features").kept == 5
    assert len(ids_of(tmp_path / "toy.index")) == 6


def test_the_search_parameter_stays_until_the_vectors_have_doubled(tmp_path: Path) -> None:
    vectors = clustered(4000)
    features = vector_set(tmp_path / "toy.features", vectors[:1000])
    first = build_index(features, tmp_path / "toy.index", options=BuildOptions(type="ivf", target_recall=0.9)).effort
    assert first is not None
    assert (first.tuned, first.vectors) == (True, 1000)
    for count, tuned_at in ((2000, 1000), (2001, 2001), (4000, 2001)):
        shutil.rmtree(features)
        vector_set(features, vectors[:count])
        settings = update_index(tmp_path / "toy.index").settings
        assert settings.effort is not None
        assert (settings.effort.vectors, settings.updates) == (tuned_at, 0)
        assert settings.evaluation is not None
        assert settings.evaluation.vectors == count
        assert settings.evaluation.recall["10"] > 0.85


def test_an_index_that_was_never_judged_is_not_now(tmp_path: Path) -> None:
    features = vector_set(tmp_path / "toy.features", VECTORS[:20])
    build_index(features, tmp_path / "toy.index", options=BuildOptions(evaluate=False))
    shutil.rmtree(features)
    vector_set(features, VECTORS[:30])
    assert update_index(tmp_path / "toy.index").settings.evaluation is None


def test_an_index_that_has_outgrown_its_type_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertfeat.search.vectors.index_types.EXACT_SCAN_BYTES", 20_000)
    vectors = clustered(600)
    features = vector_set(tmp_path / "toy.features", vectors[:300])
    assert build_index(features, tmp_path / "toy.index").factory == "Flat"
    shutil.rmtree(features)
    vector_set(features, vectors[1:301])
    assert update_index(tmp_path / "toy.index").advice == ""
    shutil.rmtree(features)
    vector_set(features, vectors)
    told = "built again it would be IVF15,Flat, which answers sooner from 600 vectors"
    assert update_index(tmp_path / "toy.index").advice == told


# ── stopped and hindered ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_killed_at_every_step_that_writes(tmp_path: Path) -> None:
    """The old index or the new one is there, and the same command ends in the new one."""
    corpus: Corpus = {f"a{at}": (at, at) for at in range(60)}
    features, folder = store(tmp_path / "toy.features", corpus), tmp_path / "toy.index"
    build_index(features, folder, options=BuildOptions(type="ivf", evaluate=False))
    store(features, edited(corpus, np.random.default_rng(0)))
    shutil.copytree(folder, tmp_path / "old")
    before, command = contents(folder), ["index", "-o", str(folder), "--update"]

    def restore() -> None:
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / "old", folder)

    events = steps(command, [tmp_path])
    after = contents(folder)
    assert after.keys() != before.keys()
    found = set()
    writing = re.compile(r"os\.(?!scandir|listdir)|.*(version-2|tmp)")
    for number in (number for number, event in enumerate(events, 1) if writing.match(event)):
        restore()
        with start(command, [tmp_path], stop=Stop(number, signal.SIGKILL)) as run:
            assert run.wait().exit_code == -signal.SIGKILL
        now = contents(folder).keys()
        found.add(now == after.keys())
        assert now in (before.keys(), after.keys())
        assert not update_index(folder).settings.tombstones
        verify_index(folder)
        assert contents(folder).keys() == after.keys()
        assert sorted(path.name for path in folder.iterdir()) == [".bertfeat", VectorIndex(folder).settings.version]
    assert found == {True, False}


# ── vectors of other things than documents ──────────────────────────────────────────────────────────────────

BEFORE = {
    "a": ("The bank. A river!", "[[0, 3], [4, 8]]"),
    "b": ("He went to the bank", "[[3, 7]]"),
    "c": ("money and the river. Again", "[]"),
    "d": ("They ran", "[[0, 4]]"),
}
NOW = {
    "d": ("They ran", "[[5, 8]]"),
    "e": ("The bank. A river!", "[[0, 3], [4, 8]]"),
    "b": ("He went to the water", "[[3, 7]]"),
    "f": ("", "[]"),
    "c": ("money and the river. Again", "[]"),
}
OTHERS: dict[str, dict[str, Any]] = {
    "spans": {"column": "last_token", "options": BuildOptions(type="flat", spans="sentences")},
    "listed spans": {"column": "last_token", "options": BuildOptions(type="flat", spans="column:listed")},
    "words": {"column": "last_word", "options": BuildOptions(type="flat")},
    "kept tokens": {"column": "last_mean", "options": BuildOptions(type="flat", with_tokens="last_token")},
    "pooled tokens": {"column": "last_mean", "options": BuildOptions(with_tokens="last_token", pool_tokens=2)},
    "encoding": {"column": "last_token", "options": BuildOptions(type="flat", encode="fde:256")},
    "whitened": {"column": "last_mean", "options": BuildOptions(type="flat", transform="whiten:2")},
    "no text": {"column": "last_mean", "options": BuildOptions(type="flat", keep_text=False)},
}


@pytest.fixture
def extract(bert: Tiny, tmp_path: Path) -> Callable[[Mapping[str, tuple[str, str]]], Path]:
    extractor = Extractor(bert.folder, layers="last", pooling="mean,token,word", precision="fp32", device="cpu")

    def extracted(texts: Mapping[str, tuple[str, str]]) -> Path:
        rows = [{"id": key, "text": text, "listed": listed} for key, (text, listed) in texts.items()]
        shutil.rmtree(tmp_path / "toy.features", ignore_errors=True)
        settings = CorpusSettings(id_column="id", keep=("listed",))
        extractor.extract(memory_corpus(rows, settings), tmp_path / "toy.features", part_rows=2)
        return tmp_path / "toy.features"

    return extracted


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", OTHERS)
def test_other_kinds(kind: str, extract: Callable[..., Path], bert: Tiny, tmp_path: Path) -> None:
    column, options = OTHERS[kind]["column"], OTHERS[kind]["options"]
    build_index(extract(BEFORE), tmp_path / "toy.index", column, options=options)
    features = extract(NOW)
    done = update_index(tmp_path / "toy.index")
    assert (done.added, done.kept) == ((3, 2) if kind == "listed spans" else (2, 3))
    build_index(features, tmp_path / "anew.index", column, options=options)
    learned = kind in ("encoding", "whitened")  # what is fitted stays as it was
    assert_same_contents(tmp_path / "toy.index", tmp_path / "anew.index", atol=99 if learned else 1e-6)
    query = "the *bank*" if kind == "words" else "the bank"
    for rerank in (None, "maxsim") if "tokens" in kind or "span" in kind else (None,):
        hits = []
        for name in ("toy.index", "anew.index"):
            index = Index(tmp_path / name, model=bert.folder, device="cpu")
            found = index.search(query, 9, rerank=rerank).hits
            hits.append(sorted((hit.id, hit.row, round(hit.score, 4), str(hit.piece)) for hit in found))
        assert hits[0] == hits[1] or learned
        assert len(hits[0]) == len(hits[1])
