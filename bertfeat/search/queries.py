"""The queries of a search: texts, marked words and vectors, checked or read from files; and the encoder for them.

The encoder is the model that an index or a feature set records, opened again, or another object with the same methods.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertfeat.arguments import require_text
from bertfeat.core import (
    BadLine,
    DocumentFeatures,
    FeatureColumn,
    FeatureSet,
    FeatureSettings,
    ModelIdentity,
    Unit,
    encoding_by_mark,
    read_lines,
    unit_vectors,
)
from bertfeat.errors import (
    BertfeatError,
    CorpusError,
    FeatureSetError,
    IndexFolderError,
    UsageError,
    WrongTypeError,
    parameter,
    shorten,
)
from bertfeat.io import JsonError, Location, decode_json, open_regular
from bertfeat.search.settings import REBUILD, IndexSettings
from bertfeat.search.vectors.token_encoding import TokenEncoding

if TYPE_CHECKING:
    from bertfeat.core import Model

_BLOCK = 1 << 16
_ENCODED_AT_ONCE = 64  # queries
_LONGEST_LINE = 1 << 24  # bytes
_MARKED = re.compile(r"\*(\S(?:[^*]*\S)?)\*")


def query_texts(queries: Iterable[str]) -> list[str]:
    """Check that queries are a sequence of texts, and return them as a list.

    Raises:
        UsageError: they are not, or one is blank or cannot be encoded as UTF-8.
    """
    unfit = isinstance(queries, str | bytes | Mapping | Set) or not isinstance(queries, Iterable)
    if unfit or getattr(queries, "ndim", 1) != 1:
        raise WrongTypeError(
            f"search_batch() takes a list of texts, not {type(queries).__name__}; search() takes one text"
        )
    return [require_text(query, f"query {number}") for number, query in enumerate(queries)]


def query_vectors(vectors: ArrayLike, width: int, *, first: int = 0) -> NDArray[np.float32]:
    """Query vectors as ``[n, width]`` float32; ``first`` is the number of the first one, for errors.

    Raises:
        UsageError: an array of another shape or of other things than real numbers, or a value that is not finite.
    """
    try:
        matrix = np.asarray(vectors)
    except (TypeError, ValueError, RuntimeError) as error:  # lists of unequal lengths, tensors elsewhere
        raise WrongTypeError(f"query vectors must be an array [n, {width}] of numbers: {error}") from error
    if matrix.dtype.kind not in "fiu":
        raise WrongTypeError(f"query vectors must be whole or real numbers, not {matrix.dtype}")
    if matrix.ndim != 2 or matrix.shape[1] != width:
        remedy = "a single vector is given as vector[None]" if matrix.shape == (width,) else ""
        raise UsageError(
            f"query vectors must be [n, {width}], as in this index, not {list(matrix.shape)}", remedy=remedy
        )
    with np.errstate(over="ignore"):
        queries = matrix.astype(np.float32)
    for number in np.flatnonzero(~np.isfinite(queries).all(axis=1))[:1].tolist():
        raise UsageError(f"query vector {first + number} has a value that is not finite, or too large for float32")
    return queries


def unmark_words(text: str) -> tuple[str, list[tuple[int, int]]]:
    """A text without the stars around marked words, and the range of characters of each: ``the *bank* of``."""
    parts: list[str] = []
    spans: list[tuple[int, int]] = []
    end = length = 0
    for mark in _MARKED.finditer(text):
        parts += [text[end : mark.start()], mark[1]]
        start = length + mark.start() - end
        length, end = start + len(mark[1]), mark.end()
        spans.append((start, length))
    return "".join([*parts, text[end:]]), spans


def read_queries(file: BinaryIO, name: str) -> Iterator[str]:
    """The queries of a file, one per line, without blank lines; in UTF-8, or as its byte order mark says.

    Raises:
        CorpusError: a line cannot be decoded; names the file and the line.
    """
    for line in decoded_lines(file, name):
        yield line.text.strip()


@dataclass(frozen=True)
class _QueryRecord:
    """A line of BEIR's ``queries.jsonl``."""

    text: str


def read_query_records(file: BinaryIO, name: str) -> Iterator[str]:
    """The ``text`` of each line of JSON, as BEIR's ``queries.jsonl`` has it; blank lines are left out.

    Raises:
        CorpusError: a line that cannot be decoded, or is no object with a text; names the file and the line.
    """
    for line in decoded_lines(file, name):
        try:
            yield decode_json(line.text, _QueryRecord).text
        except JsonError as error:
            problem = f"expected an object with a text, as BEIR's queries.jsonl has them: {error}"
            raise CorpusError(problem, where=f"{name}, line {line.number}") from None


def read_vectors(path: Path) -> NDArray[np.generic]:
    """The array of a ``.npy`` file, mapped into memory.

    Raises:
        UsageError: it is no such file, or one of Python objects.
    """
    try:
        with open_regular(path) as file:
            first = file.read(4)
        return np.lib.format.open_memmap(path, mode="r")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, EOFError, OverflowError) as error:
        if first == b"PK\3\4":
            problem, remedy = "it is an archive (.npz)", "save the array alone with numpy.save"
        elif first == b"\x93NUM":
            why = "its header is damaged" if " object at 0x" in str(error) else error
            problem, remedy = f"it holds no whole array of numbers ({why})", ""
        else:
            problem, remedy = "it is no array", "numpy.save writes one"
        raise UsageError(f"{path} cannot be read as .npy: {problem}", remedy=remedy) from error


@dataclass(frozen=True, slots=True)
class NumberedLine:
    """A line of a file."""

    number: int  # from 1
    text: str


def decoded_lines(file: BinaryIO, name: str) -> Iterator[NumberedLine]:
    """The lines of a file that are not blank, decoded, without line ends; ``name`` is the file's name in errors."""
    first = file.read(4)  # as long as the longest mark
    encoding = encoding_by_mark(first)
    number = 0
    for lines in read_lines(_byte_blocks(first, file, name), encoding):
        for line in lines:
            number += 1
            if isinstance(line, BadLine) or "\0" in line:
                text = repr(shorten(line.text if isinstance(line, BadLine) else line)).replace("\\\\", "\\")
                raise CorpusError(
                    f"{text} is no {encoding.name} text",
                    where=f"{name}, line {number}",
                    remedy="save the file as UTF-8, or as UTF-16 with a byte order mark",
                )
            if line.strip():
                yield NumberedLine(number, line)


def _byte_blocks(first: bytes, file: BinaryIO, name: str) -> Iterator[bytes]:
    """The blocks of a file; refuses a line of more than 16 MiB, which may never end, as that of ``/dev/zero``."""
    read = getattr(file, "read1", file.read)  # from a pipe, the bytes that have arrived
    number, length, block = 1, 0, first
    while block:
        yield block
        number += block.count(b"\n")
        length = len(block) - 1 - block.rfind(b"\n") + (0 if b"\n" in block else length)
        if length > _LONGEST_LINE:
            raise CorpusError(f"it has more than {_LONGEST_LINE:,} bytes", where=f"{name}, line {number}")
        block = read(_BLOCK)


class QueryEncoder(Protocol):
    """Embeds queries, and the words of sentences: a :class:`bertfeat.Extractor`, or a class with these methods."""

    @property
    def identity(self) -> ModelIdentity:
        """The identity of the model."""
        ...

    def encode(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """One vector per text, ``[n, width]``."""
        ...

    def features(self, texts: Sequence[str], /) -> list[DocumentFeatures]:
        """Tokens and words with their vectors."""
        ...


@runtime_checkable
class _LanguageChecker(Protocol):
    """An encoder that knows which languages it reads badly, as a :class:`bertfeat.Extractor` does."""

    def language_warning(self, text: str, /) -> str | None:
        """The warning about a text in a language that the model does not know; None if it knows it."""
        ...


def query_warnings(encoder: QueryEncoder, text: str) -> tuple[str, ...]:
    """The warnings about a query: that the encoder does not know its language."""
    warning = encoder.language_warning(text) if isinstance(encoder, _LanguageChecker) else None
    return () if warning is None else (warning,)


@runtime_checkable
class _ColumnsEncoder(Protocol):
    """An encoder that can also compute other columns, as a :class:`bertfeat.Extractor` can."""

    def of_columns(self, columns: Sequence[FeatureColumn]) -> QueryEncoder:
        """The same encoder for other columns."""
        ...


@runtime_checkable
class _SettledEncoder(Protocol):
    """An encoder that knows the settings by which its vectors come about, as a :class:`bertfeat.Extractor` does."""

    @property
    def feature_settings(self) -> FeatureSettings:
        """The settings that a feature set of its vectors records."""
        ...


@runtime_checkable
class _ComparingEncoder(Protocol):
    """An encoder that can tell whether it gives the vectors that are recorded, as a :class:`bertfeat.Extractor` can."""

    def check_against(self, recorded: ModelIdentity, where: object) -> None:
        """Check that the model gives the same vectors here as it gave where something was recorded."""
        ...


@dataclass(frozen=True, slots=True)
class RecordedVectors:
    """The vectors of a feature set or an index, and how they were made, for queries that are compared with them."""

    folder: Location
    model: ModelIdentity
    settings: FeatureSettings
    columns: Sequence[FeatureColumn]
    prompt: str | None = None  # that queries have, where it is recorded
    error: type[BertfeatError] = FeatureSetError
    rebuild: str = "extract the features again"  # the last remedy of the errors

    @classmethod
    def of_index(cls, folder: Location, settings: IndexSettings) -> "RecordedVectors":
        """The vectors of an index."""
        made = (settings.model, settings.extraction, [settings.query_column], settings.query_prompt)
        return cls(folder, *made, IndexFolderError, REBUILD)

    @classmethod
    def of_features(
        cls, features: FeatureSet, columns: Sequence[FeatureColumn], prompt: str | None = None
    ) -> "RecordedVectors":
        """The vectors of a feature set in some of its columns."""
        return cls(features.folder, features.header.model, features.header.settings, columns, prompt)

    def open_encoder(self, model: str | Path | None, device: str | None = None) -> QueryEncoder:
        """Open the model, to embed queries in the columns as the documents were; ``model`` says where it is now.

        Raises:
            ModelError: the model cannot be found.
            BertfeatError: it is another one.
        """
        from bertfeat.core import Extractor, find_model  # torch: seconds

        named, revision, where = model or self.model.name, None if model else self.model.revision, self.folder
        prompt = query_prompt(self.prompt, lambda: find_model(named, revision=revision))
        try:
            return Extractor.from_record(
                self.model, self.settings, self.columns, name=model, device=device, prompt=prompt, where=where
            )
        except FeatureSetError as error:
            if self.error is FeatureSetError:
                raise
            raise self.error(error.problem, where=where, remedy=f"{error.remedy}, or {self.rebuild}") from error

    def check(self, encoder: QueryEncoder) -> None:
        """Check that an encoder gives these vectors: their model, settings and canary.

        Settings are compared where the encoder tells its own, and of these what decides the meaning of the columns'
        vectors (:meth:`FeatureSettings.incomparable_with`). Queries may have a prompt that documents have not: theirs
        is compared with the recorded one, if there is one.

        Raises:
            BertfeatError: it is another model, or has other settings.
            ModelError: it gives other vectors here.
        """
        identity, folder = encoder.identity, self.folder
        if identity.fingerprint != self.model.fingerprint:
            raise self.error(
                f"{folder} was made with {self.model.name} (fingerprint {self.model.fingerprint[:12]}), but the model "
                f"at hand is {identity.name} (fingerprint {identity.fingerprint[:12]}): vectors of two models cannot "
                "be compared",
                remedy=f"give the first one with {parameter('model')}, or {self.rebuild}",
            )
        if isinstance(encoder, _SettledEncoder) and (differences := self._differences(encoder.feature_settings)):
            raise self.error(
                f"{folder} and the encoder at hand have other settings ({', '.join(differences)}), and their vectors "
                "cannot be compared",
                remedy=f"leave the encoder out, give it those of {folder}, or {self.rebuild}",
            )
        if problem := self.model.canary_problem(identity):
            differing = f"the model gave the encoder's vectors otherwise than those of {folder}: {problem}"
            raise self.error(differing, remedy=self.rebuild)
        if isinstance(encoder, _ComparingEncoder):
            encoder.check_against(self.model, folder)

    def _differences(self, own: FeatureSettings) -> list[str]:
        """The settings of an encoder because of which its vectors cannot be compared."""
        ours = replace(self.settings, prompt=(own.prompt if self.prompt is None else self.prompt) or "")
        # which a text alone has not
        theirs = replace(own, prompt=own.prompt or "", document_context=self.settings.document_context)
        found = [each for column in self.columns for each in ours.incomparable_with(theirs, column.pooling)]
        return list(dict.fromkeys(map(str, found)))


def query_prompt(recorded: str | None, find: "Callable[[], Model]") -> str | None:
    """The text that is put before each query: the recorded one, else the model's own; None: that of documents.

    ``find`` finds the model, if it is needed.
    """
    return find().prompts.get("query") if recorded is None else recorded


def embed_queries(
    encoder: QueryEncoder, column: FeatureColumn, texts: Sequence[str], encoding: TokenEncoding | None = None
) -> NDArray[np.float32]:
    """The vectors of queries in a column, ``[n, width]``; in a column of tokens or words each query marks one word.

    With an ``encoding``, they are those of all tokens or words of a query.
    """
    if encoding is not None:  # some at a time, since the tokens of a query take more memory than its vector
        parts = [texts[start : start + _ENCODED_AT_ONCE] for start in range(0, len(texts), _ENCODED_AT_ONCE)]
        nothing = np.empty((0, encoding.shape.width), np.float32)
        return np.concatenate(
            [nothing, *(read_query_vectors(encoder.features(part), column, encoding) for part in parts)]
        )
    if column.pooling.per_document:
        return encoder.encode(texts)
    marked = [_marked_word(text) for text in texts]
    features = encoder.features([text for text, _ in marked])
    pairs = zip(features, marked, strict=True)
    return np.stack([_word_vector(document, span, column) for document, (_, span) in pairs])


def read_query_vectors(
    queries: Sequence[DocumentFeatures], column: FeatureColumn, encoding: TokenEncoding | None
) -> NDArray[np.float32]:
    """The vectors of queries whose features are known, ``[n, width]``: those of the column, or encodings of them."""
    if encoding is None:
        return np.stack([query.vector(column.name) for query in queries])
    return np.stack([encoding.encode_query(token_vectors(query, column)[1]) for query in queries])


def token_vectors(document: DocumentFeatures, column: FeatureColumn) -> tuple[Sequence[str], NDArray[np.float32]]:
    """The tokens (or words) of a text that are compared with others', and their vectors ``[n, W]`` of length 1.

    They are those that stand in it and have a vector; of a projection all.
    """
    compared = compared_pieces(document, column)
    pieces = document.pieces_of(column)
    assert pieces is not None
    strings = [string for string, counts in zip(pieces.strings or (), compared.tolist(), strict=True) if counts]
    return strings, unit_vectors(document.matrix(column.name)[compared])


def compared_pieces(document: DocumentFeatures, column: FeatureColumn) -> NDArray[np.bool_]:
    """Whether each token (or word) of a text is compared with others', ``[n]``."""
    pieces = document.pieces_of(column)
    if pieces is None or pieces.strings is None:
        raise UsageError(f"the encoder at hand gives no {column.name} of a text")
    return pieces.compared(column.recipe)


def encoder_of_columns(encoder: QueryEncoder, columns: Sequence[FeatureColumn]) -> QueryEncoder:
    """The same encoder for other columns; one without ``of_columns`` is returned as it is."""
    return encoder.of_columns(columns) if isinstance(encoder, _ColumnsEncoder) else encoder


def _marked_word(query: str) -> tuple[str, tuple[int, int]]:
    """A query without its marks, and the range of characters that they enclosed; a single word needs no marks."""
    text, spans = unmark_words(query)
    if len(spans) == 1:
        return text, spans[0]
    if spans or len(query.split()) != 1:
        raise UsageError(
            f"this index finds single tokens or words, so say which word of {query!r} is meant: He sat on the *bank*."
        )
    word = query.strip()
    return word, (0, len(word))


def _word_vector(document: DocumentFeatures, span: tuple[int, int], column: FeatureColumn) -> NDArray[np.float32]:
    """The mean vector of the tokens or words within a span of characters, ``[width]``."""
    pieces = document.tokens if column.pooling.unit is Unit.TOKEN else document.words
    start, end = span
    inside = np.zeros(0, bool)
    if pieces is not None:
        inside = (pieces.start < end) & (pieces.end > start) & (pieces.end > pieces.start)
        if pieces.aligned is not None:
            inside &= pieces.aligned
    if not inside.any():
        raise UsageError(f"the model has no vector for {(document.text or '')[start:end]!r} in the query")
    vector: NDArray[np.float32] = document.matrix(column.name)[inside].mean(axis=0)
    return vector
