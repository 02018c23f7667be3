"""``verify_index``: a byte that changed, a file of another index, and files that do not fit one another."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import faiss  # type: ignore[import-untyped,unused-ignore]
import numpy as np
import pyarrow as pa
import pytest

from bertfeat.errors import BertfeatError, IndexFolderError
from bertfeat.search import BuildOptions, VectorIndex, build_index, remove_documents, verify_index
from bertfeat.search.index_files import seal_version
from bertfeat.search.settings import FORMAT_VERSION, IndexSettings, read_index_settings, write_index_settings
from tests.support.features_toy import toy_part, toy_set
from tests.support.index_toy import clustered, vector_set, version_of

GOLDEN = Path(__file__).parents[1] / "golden" / f"index-{FORMAT_VERSION}"
KINDS = ("flat", "hnsw", "ivf", "disk", "words")


@pytest.fixture
def copied(tmp_path: Path) -> Callable[..., Path]:
    """A golden index of one's own, to be damaged."""

    def copy(kind: str) -> Path:
        return Path(shutil.copytree(GOLDEN / kind, tmp_path / f"{kind}.index"))

    return copy


@pytest.mark.parametrize("kind", KINDS)
def test_a_sound_index(kind: str) -> None:
    found = verify_index(GOLDEN / kind)
    settings = found.settings
    assert found.vectors == settings.count
    assert (found.files, found.bytes) == (len(settings.files), sum(file.bytes for file in settings.files.values()))
    assert found.changed_sources == ()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", KINDS)
def test_every_flipped_byte_is_told(kind: str, copied: Callable[..., Path]) -> None:
    folder = copied(kind)
    random = np.random.default_rng(7)
    for name in read_index_settings(folder).files:
        path = version_of(folder) / name
        sound = path.read_bytes()
        for at in sorted({0, len(sound) - 1, *random.integers(len(sound), size=25).tolist()}):
            path.write_bytes(sound[:at] + bytes([sound[at] ^ 1 << int(random.integers(8))]) + sound[at + 1 :])
            for opening in (verify_index, VectorIndex):
                with pytest.raises(IndexFolderError, match=rf"{name} was changed after it was written"):
                    opening(folder)
        path.write_bytes(sound)
    verify_index(folder)


def test_large_files_are_told_by_the_check_alone(copied: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertfeat.search.index_files.check_files.__kwdefaults__", {"digest_up_to": 0})
    folder = copied("flat")
    path = version_of(folder) / "index.faiss"
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    VectorIndex(folder)
    with pytest.raises(IndexFolderError, match=r"index\.faiss was changed"):
        verify_index(folder)


@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize("name", ["documents.arrow", "pieces.arrow"])
def test_flipped_bytes_of_arrow_files_are_no_crash(
    name: str, copied: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in files that are too large for a digest at every opening: an error, or what was not touched."""
    monkeypatch.setattr("bertfeat.search.index_files.check_files.__kwdefaults__", {"digest_up_to": 0})
    folder = copied("words")
    path = version_of(folder) / name
    sound, told = path.read_bytes(), []
    for at in range(len(sound)):
        path.write_bytes(sound[:at] + bytes([sound[at] ^ 0xFF]) + sound[at + 1 :])
        try:
            index = VectorIndex(folder)
            numbers = np.arange(len(index))
            assert index.pieces is not None
            index.pieces.take(numbers).to_pylist()
            index.documents.take(index.document_numbers(numbers)).to_pylist()
            index.search(np.ones((1, index.settings.width), np.float32), 3, where="year > 1900 and text is not null")
        except BertfeatError as error:
            told.append(str(error))
    assert len(told) > len(sound) // 4
    assert [message for message in told if name not in message and "a file was changed" not in message] == []


def test_texts_that_are_no_text_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertfeat.search.index_files.check_files.__kwdefaults__", {"digest_up_to": 0})
    vector_set(tmp_path / "toy.features", clustered(5000))
    build_index(tmp_path / "toy.features", tmp_path / "toy.index", options=BuildOptions(evaluate=False))
    path = version_of(tmp_path / "toy.index") / "documents.arrow"
    data = path.read_bytes()
    path.write_bytes(data.replace(b"text of 4242", b"text of \xff242", 1))
    documents = VectorIndex(tmp_path / "toy.index").documents
    assert documents.take(np.array([7]))["text"].to_pylist() == ["text of 8"]  # another batch
    with pytest.raises(IndexFolderError, match=r"documents\.arrow: cannot be read \(.*UTF8.*build the index again"):
        documents.take(np.array([4999]))


# ── files that fit their digests and not one another ────────────────────────────────────────────────────────


def rewritten(folder: Path, **changes: Any) -> None:
    """Give the files new digests, and the settings other values: what a bug of ours would leave."""
    settings = replace(read_index_settings(folder), **changes)
    finish_unchecked(settings, folder)


def finish_unchecked(settings: IndexSettings, folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bertfeat.search.index_files.open_contents", lambda *_, **__: None)
        write_index_settings(seal_version(settings, folder / settings.version), folder)


def edit_store(folder: Path, name: str, **columns: Any) -> None:
    path = version_of(folder) / name
    table = pa.ipc.open_file(path.read_bytes()).read_all()
    for column, change in columns.items():
        at = table.schema.get_field_index(column)
        table = table.set_column(at, table.field(at), pa.array(change(table[column].to_pylist()), table.field(at).type))
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)


def put(row: int, value: Any) -> Callable[[list[Any]], list[Any]]:
    return lambda values: [*values[:row], value, *values[row + 1 :]]


def nothing(_folder: Path) -> None:
    """Only the settings are changed."""


def documents(folder: Path, **columns: Any) -> None:
    edit_store(folder, "documents.arrow", **columns)


def pieces(folder: Path, **columns: Any) -> None:
    edit_store(folder, "pieces.arrow", **columns)


MISFITS: dict[str, tuple[str, Callable[[Path], None], dict[str, Any], str]] = {
    "count": ("words", nothing, {"count": 7}, r"holds \d+ vectors of \d+ values, but 7 of \d+ were wri"),
    "documents": ("words", nothing, {"documents": 5}, r"digests\.npy: .* \(\[6, 16\] of uint8, where \[5, 16\]"),
    "tombstones": ("hnsw", nothing, {"tombstones": 4}, r"removed\.npy has 5 entries, but 4 were written"),
    "metric": ("flat", nothing, {"metric": "l2"}, "is not of the metric l2"),
    "no id": ("flat", lambda f: documents(f, id=put(2, None)), {}, "1 of 'id' are missing"),
    "source": ("flat", lambda f: documents(f, _source=put(2, 9)), {}, "'_source' 9 is in it, and they are from 0 to 1"),
    "owner": ("words", lambda f: pieces(f, document=put(0, 6)), {}, "'document' 6 is in it, and they are from 0 to 5"),
    "no source": ("flat", lambda f: documents(f, _source=put(2, -1)), {}, "'_source' -1 is in it"),
    "no owner": ("words", lambda f: pieces(f, document=put(0, None)), {}, "1 of 'document' are missing"),
    "no start": ("words", lambda f: pieces(f, start=put(0, None)), {}, "1 of 'start' are missing"),
    "segment": ("words", lambda f: pieces(f, segment=put(0, 2)), {}, "'segment' 2 is in it, and they are from 0 to 1"),
}  # fmt: skip


@pytest.mark.parametrize("case", MISFITS)
def test_what_does_not_fit_is_told(case: str, copied: Callable[..., Path]) -> None:
    kind, damage, changes, message = MISFITS[case]
    folder = copied(kind)
    damage(folder)
    rewritten(folder, **changes)
    with pytest.raises(IndexFolderError, match=message):
        verify_index(folder)


ENGINES = {"flat": "Flat", "hnsw": "HNSW32", "ivf": "IVF4,Flat"}
FOREIGN = ("HNSW32", "IVF4,Flat", "PCA4,Flat", "SQ8", "Flat")


def put_engine(folder: Path, factory: str) -> None:
    """Another FAISS index of as many vectors of the same width and metric, all of them of length 1."""
    settings = read_index_settings(folder)
    vectors = clustered(settings.count, settings.width)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    index = faiss.index_factory(settings.width, factory, settings.metric.faiss_metric)
    index.train(vectors)
    index.add(vectors)
    faiss.write_index(index, str(version_of(folder) / "index.faiss"))
    rewritten(folder)


@pytest.mark.parametrize(
    ("kind", "factory"), [(kind, each) for kind, own in ENGINES.items() for each in FOREIGN if each != own]
)
def test_an_engine_of_another_type(kind: str, factory: str, copied: Callable[..., Path]) -> None:
    folder = copied(kind)
    put_engine(folder, factory)
    for opening in (VectorIndex, verify_index):
        with pytest.raises(IndexFolderError, match=r"index\.faiss is not the index that was written: it (is|does not)"):
            opening(folder)


@pytest.mark.parametrize("column", ["document", "start", "segment"])
def test_pieces_that_are_null_are_told_when_they_are_read(column: str, copied: Callable[..., Path]) -> None:
    folder = copied("words")
    pieces(folder, **{column: put(0, None)})
    rewritten(folder)
    with pytest.raises(IndexFolderError, match=rf"pieces\.arrow: cannot be read \(1 of '{column}' are missing\)"):
        VectorIndex(folder).document_numbers(np.array([0]))


def test_a_source_that_there_is_not_is_told_when_it_is_read(copied: Callable[..., Path]) -> None:
    folder = copied("flat")
    documents(folder, _source=put(2, 9))
    rewritten(folder)
    with pytest.raises(IndexFolderError, match=r"documents\.arrow: cannot be read \('_source' 9 is in it"):
        VectorIndex(folder).documents.take(np.array([0]))


def test_files_of_another_index_are_told(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 1)):
        vector_set(tmp_path / f"{name}.features", clustered(50, seed=seed))
        build_index(tmp_path / f"{name}.features", tmp_path / f"{name}.index")
    for name in ("index.faiss", "documents.arrow"):
        path = version_of(tmp_path / "a.index") / name
        before = path.read_bytes()
        shutil.copy(version_of(tmp_path / "b.index") / name, path)
        if path.read_bytes() != before:  # the documents are the same in both
            with pytest.raises(IndexFolderError, match=f"{name} was changed"):
                verify_index(tmp_path / "a.index")
        path.write_bytes(before)
    verify_index(tmp_path / "a.index")


REMOVED = {
    "length": np.zeros(49, bool),
    "type": np.zeros(50, np.int8),
    "shape": np.zeros((50, 1), bool),
    "pickled": np.array([{}] * 50, object),
}


@pytest.mark.parametrize("case", REMOVED)
def test_tombstones_of_another_kind(case: str, copied: Callable[..., Path]) -> None:
    folder = copied("hnsw")
    np.save(version_of(folder) / "removed.npy", REMOVED[case], allow_pickle=True)
    rewritten(folder)
    with pytest.raises(IndexFolderError, match=r"removed\.npy: cannot be read"):
        VectorIndex(folder)


def test_sources_that_changed_are_listed(tmp_path: Path) -> None:
    for name in ("a", "b"):
        vector_set(tmp_path / f"{name}.features", clustered(20), ids=[f"{name}{row}" for row in range(20)])
    build_index([tmp_path / "a.features", tmp_path / "b.features"], tmp_path / "toy.index")
    shutil.rmtree(tmp_path / "b.features")
    vector_set(tmp_path / "b.features", clustered(21))
    assert verify_index(tmp_path / "toy.index").changed_sources == (str(tmp_path / "b.features"),)


def test_words_after_updates(tmp_path: Path) -> None:
    toy_set(tmp_path / "toy.features", toy_part(poolings=("word", "token"), pairs=True))
    for column in ("concat4_word", "concat4_token"):
        build_index(tmp_path / "toy.features", tmp_path / "toy.index", column)
        verify_index(tmp_path / "toy.index")
        remove_documents(tmp_path / "toy.index", ["2", "5"])
        found = verify_index(tmp_path / "toy.index")
        assert found.documents == 4
        assert found.vectors > 0


def test_settings_survive_writing_and_reading(copied: Callable[..., Path]) -> None:
    folder = copied("disk")
    settings = read_index_settings(folder)
    write_index_settings(settings, folder)
    assert read_index_settings(folder) == settings
