"""The file of a word index: an Arrow IPC stream of one row, whose cells are the arrays, and a digest of its bytes.

A file whose digest does not hold counts as none, so that the index is made again. Memory for writing one depends on the
vocabulary, the number of documents and a row group, not on the number of words.

Shapes: D documents of a batch, T texts, N words, V different words.
"""

import mmap
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from bertfeat.core import FeatureSet, PiecePositions, RecordBatch, Unit, WordRule, fold_word, is_word, split_each
from bertfeat.errors import DamagedError, errors_within
from bertfeat.io import file_identity, output_file, scratch_array, storage_errors
from bertfeat.progress import StepProgress
from bertfeat.ragged import offsets_of

_KEY = b"bertfeat.words"
_VERSION = "2"
_WHOLE_GROUP = 1 << 40  # a batch size that no row group reaches, so that each batch is a whole row group
_AT_ONCE = 1 << 22  # words that are sorted at a time
_DIGEST = 16  # bytes at the end of the file
_BLOCK = 1 << 20  # bytes that are hashed at once

# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────


def read_arrays(path: Path, key: str) -> Mapping[str, Any] | None:
    """The arrays of the index of that key, by name; None where there is no such file, or a byte of it changed."""
    try:
        with path.open("rb") as file:
            if not _digest_holds(path, file_identity(file)):
                return None
            content = pa.py_buffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError):  # nothing is there, or an empty file
        return None
    with pa.ipc.open_stream(content) as stream:
        if (stream.schema.metadata or {}).get(_KEY) != _mark(key):
            return None
        batch = stream.read_next_batch()
    cells = {name: batch.column(name).values for name in batch.schema.names}
    return {
        name: cell if pa.types.is_large_string(cell.type) else cell.to_numpy(zero_copy_only=True)
        for name, cell in cells.items()
    }


@lru_cache(maxsize=64)
def _digest_holds(path: Path, identity: object) -> bool:
    """Whether a file ends in the digest of what stands before it, checked once for each ``identity``."""
    with path.open("rb") as file:
        return _hash_beginning(file, os.fstat(file.fileno()).st_size - _DIGEST) == file.read()


def _hash_beginning(file: IO[bytes], size: int) -> bytes:
    """XXH3 (128 bits) of the first bytes of a file, which is left behind them."""
    digest = xxhash.xxh3_128()
    while size > 0 and (block := file.read(min(size, _BLOCK))):
        digest.update(block)
        size -= len(block)
    return digest.digest()


def _mark(key: str) -> bytes:
    return f"{_VERSION} {key}".encode()


# ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _BatchWords:
    """The words of some documents."""

    rows: NDArray[np.int64]  # [D]
    strings: pa.Array  # [N]
    start: NDArray[np.int32]  # [N] character offsets in the text
    end: NDArray[np.int32]  # [N]
    text: NDArray[np.int64]  # [N] the number of the text that a word stands in
    texts: int  # of a document: one, or two of a pair
    tags: pa.Array | None = None  # [N]


def write_word_index(features: FeatureSet, path: Path, key: str, tell: Callable[[StepProgress], None]) -> None:
    """Read all words of a feature set, and write their index whole or not at all.

    Raises:
        StorageError: the file cannot be written.
        DamagedError: a part of the set is damaged.
    """
    with storage_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    with storage_errors(path.parent), ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile(dir=path.parent)) for _ in range(4)]
        words, starts, lengths, tags = map(_Spool, files)
        vocabulary, tag_names = dict[str, int](), dict[str, int]()  # in the order in which they come
        rows, counts, per_text = ([np.empty(0, np.int64)] for _ in range(3))
        done = 0
        for batch in _read_words(features):
            numbers, letters = _number_words(batch.strings, vocabulary)
            words.append(numbers)
            starts.append(batch.start)
            lengths.append(batch.end - batch.start)
            if batch.tags is not None:
                tags.append(_number_words(batch.tags, tag_names, str)[0])
            rows.append(batch.rows)
            per_text.append(np.bincount(batch.text, minlength=len(batch.rows) * batch.texts))
            counts.append(np.bincount(batch.text[letters] // batch.texts, minlength=len(batch.rows)))
            done += len(batch.rows)
            tell(StepProgress("index words", done, len(features), "documents"))
        if done != len(features):
            problem = f"its parts hold {done:,} documents, and its manifest says {len(features):,}"
            raise DamagedError(problem, where=features.folder, remedy="extract them again")
        numbers, ordered = words.array(path.parent), sorted(vocabulary)
        ends = _renumber(numbers, np.array([vocabulary[word] for word in ordered], np.int64))
        places = _new_array(path.parent, len(numbers), len(numbers))
        _group_places(numbers, ends, places)
        arrays = {
            "rows": pa.array(np.concatenate(rows)),
            "counts": pa.array(np.concatenate(counts)),
            "texts": pa.array(offsets_of(np.concatenate(per_text))),
            "vocabulary": pa.array(ordered, pa.large_string()),
            "ends": pa.array(ends),
            "words": pa.array(numbers),
            "places": pa.array(places),
            "starts": pa.array(starts.array(path.parent)),
            "lengths": pa.array(lengths.array(path.parent)),
            "tag_names": pa.array(list(tag_names), pa.large_string()),
            "tags": pa.array(tags.array(path.parent)),
        }
        with output_file(path) as temporary:
            _write_arrays(arrays, temporary, key)


class _Spool:
    """An array of whole numbers that grows in a file without a name, which is gone with the process."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._number, self._largest = file, 0, 0

    def append(self, values: NDArray[np.integer]) -> None:
        """Write more values, of at most 32 bits and none of them negative."""
        self._file.write(values.astype(np.uint32).tobytes())
        self._number += len(values)
        self._largest = max(self._largest, int(values.max(initial=0)))

    def array(self, folder: Path) -> NDArray[np.unsignedinteger]:
        """All values, mapped into memory from a file in a folder, in the smallest type that holds them."""
        small = _new_array(folder, self._number, self._largest)
        if self._number:
            self._file.flush()
            values = np.memmap(self._file, np.uint32, "r")
            for begin in range(0, self._number, _AT_ONCE):
                small[begin : begin + _AT_ONCE] = values[begin : begin + _AT_ONCE]
        return small


def _new_array(folder: Path, number: int, largest: int) -> NDArray[np.unsignedinteger]:
    """An array on the disk of a folder, for whole numbers up to ``largest``."""
    array: NDArray[np.unsignedinteger] = scratch_array((number,), np.min_scalar_type(largest), folder)
    return array


def stores_all_words(features: FeatureSet) -> bool:
    """Whether a set stores its words, and all of them, so that its texts need not be split."""
    return "words" in features.names and not features.header.settings.only


def _read_words(features: FeatureSet) -> Iterator[_BatchWords]:
    """The words of each row group: those that the set stores, or those of its texts."""
    stored = stores_all_words(features)
    wanted = ["row", "words", "word_start", "word_end", "word_segment", "tags"] if stored else ["row", "text", "pair"]
    texts = 2 if "pair" in features.names else 1  # of a document
    rule = features.header.settings.word_rule
    for batch in features.stream([name for name in wanted if name in features.names], batch_rows=_WHOLE_GROUP):
        with errors_within(features.folder):
            words = _stored_words(batch, texts) if stored else _words_of_texts(batch, texts, rule)
        yield words


def _stored_words(batch: RecordBatch, texts: int) -> _BatchWords:
    positions = PiecePositions.read(batch, Unit.WORD)
    inside = positions.end > positions.start
    text = positions.owners * texts + (0 if positions.segment is None else positions.segment)
    text, start, end = text[inside], positions.start[inside], positions.end[inside]
    strings, tags = (batch.column(name).flatten() if name in batch.schema.names else None for name in ("words", "tags"))
    if any(each is not None and len(each) != len(inside) for each in (strings, tags)):
        raise DamagedError(
            "the words and their places are of different numbers",
            remedy="extract them again: the file was not written like this",
        )
    if not inside.all():
        strings, tags = (each if each is None else each.filter(pa.array(inside)) for each in (strings, tags))
    return _BatchWords(batch.column("row").to_numpy(), strings, start, end, text, texts, tags)


def _words_of_texts(batch: RecordBatch, texts_per_document: int, rule: WordRule) -> _BatchWords:
    columns = [batch.column(name).to_pylist() for name in ("text", "pair")[:texts_per_document]]
    texts = [text for document in zip(*columns, strict=True) for text in document]
    words, counts = split_each(texts, rule)
    owners = np.repeat(np.arange(len(texts)), counts)
    places = zip(owners.tolist(), words.start.tolist(), words.end.tolist(), strict=True)
    strings = pa.array([texts[text][begin:stop] for text, begin, stop in places], pa.large_string())
    return _BatchWords(batch.column("row").to_numpy(), strings, words.start, words.end, owners, texts_per_document)


def _number_words(
    strings: pa.Array, vocabulary: dict[str, int], fold: Callable[[str], str] = fold_word
) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
    """Number words in a vocabulary that grows, and say which are more than punctuation marks; ``[N]`` each."""
    encoded = strings.dictionary_encode()
    folded = [fold(word) for word in encoded.dictionary.to_pylist()]
    numbers = np.array([vocabulary.setdefault(word, len(vocabulary)) for word in folded], np.uint32)
    letters = np.array([is_word(word) for word in folded], bool)
    places = encoded.indices.to_numpy()
    return numbers[places], letters[places]


def _renumber(words: NDArray[np.unsignedinteger], order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Give the words their numbers in the sorted vocabulary, in place, and count each: ``[V+1]`` running sums."""
    ranks = np.empty(len(order), words.dtype)
    ranks[order] = np.arange(len(order))
    counts = np.zeros(len(order), np.int64)
    for begin in range(0, len(words), _AT_ONCE):
        some = ranks[words[begin : begin + _AT_ONCE]]
        words[begin : begin + _AT_ONCE] = some
        counts += np.bincount(some, minlength=len(order))
    return offsets_of(counts)


def _group_places(
    words: NDArray[np.unsignedinteger], ends: NDArray[np.int64], places: NDArray[np.unsignedinteger]
) -> None:
    """Sort the places by the number of their word, ascending for each word (a counting sort, block by block)."""
    free = ends[:-1].copy()  # where the next place of each word goes
    for begin in range(0, len(words), _AT_ONCE):
        order = np.argsort(words[begin : begin + _AT_ONCE], kind="stable")
        ordered = words[begin : begin + _AT_ONCE][order]
        different, firsts, counts = np.unique(ordered, return_index=True, return_counts=True)
        within = np.arange(len(ordered)) - np.repeat(firsts, counts)
        places[free[ordered] + within] = begin + order
        free[different] += counts


def _write_arrays(arrays: Mapping[str, pa.Array], path: Path, key: str) -> None:
    cells = {
        name: pa.LargeListArray.from_arrays(pa.array([0, len(array)], pa.int64()), array)
        for name, array in arrays.items()
    }
    schema = pa.schema([(name, cell.type) for name, cell in cells.items()], metadata={_KEY: _mark(key)})
    with path.open("w+b") as file:
        with pa.ipc.new_stream(file, schema) as writer:
            writer.write_batch(pa.record_batch(list(cells.values()), schema=schema))
        size = file.tell()
        file.seek(0)
        file.write(_hash_beginning(file, size))
