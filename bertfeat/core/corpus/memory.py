"""A corpus of Python objects, for the Python API."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeGuard, cast

from bertfeat.arguments import checked
from bertfeat.core.corpus.columns import (
    SAMPLE,
    ColumnSample,
    find_kept_columns,
    find_list_of_spans,
    sample_columns,
    select_kept_names,
)
from bertfeat.core.corpus.document import Document, Failure, KeptColumn, Row, size_problem
from bertfeat.core.corpus.input_file import Columns
from bertfeat.core.corpus.records import (
    RecordShape,
    as_list,
    is_storable,
    is_token_id,
    named_fields,
    paths_of,
    with_inner,
)
from bertfeat.core.corpus.settings import CorpusSettings
from bertfeat.core.corpus.splitting import Splitting
from bertfeat.errors import UsageError, WrongTypeError, parameter, shorten

CorpusItem = str | tuple[str, str] | Sequence[str] | Sequence[int] | Mapping[str, object] | Document
"""An item of a corpus in memory."""

_DEFAULT_SETTINGS = CorpusSettings()
_ACCEPTED = "texts, pairs as tuples (a, b), mappings, Documents or, with pretokenized, lists of words or of token ids"


class MemoryCorpus:
    """Documents made of Python objects; an empty string is an empty document, not a blank line."""

    sources: tuple[str, ...] = ()

    def __init__(self, items: Sequence[CorpusItem], settings: CorpusSettings) -> None:
        self._items = items
        self._given_words = settings.pretokenized
        self._read = 0
        documents = [item for item in items if isinstance(item, Document)]
        paths = paths_of(named_fields(settings))
        sample = sample_columns((with_inner(item, paths) for item in items if isinstance(item, Mapping)), SAMPLE)
        self.columns = sample.columns
        self._kept = _kept_columns_of(documents, sample, settings)  # of the items
        listed = find_list_of_spans(settings.split, (Columns("the list", sample.columns),), self._kept)
        self._splitting = Splitting.of(settings.split, self._kept, listed)
        self.kept = self._splitting.columns if self._splitting else self._kept
        self.split = settings.split
        tuples = not settings.pretokenized and any(isinstance(item, tuple) for item in items)
        self.has_pairs = settings.has_pairs or tuples or any(document.pair is not None for document in documents)
        self.has_words = settings.pretokenized or any(document.words is not None for document in documents)
        self.has_tags = settings.tag_column is not None or any(document.tags is not None for document in documents)
        if self._splitting is not None and (
            self.has_pairs or self.has_words or any(d.ids is not None for d in documents)
        ):
            what = "pairs are two texts" if self.has_pairs else "these items bring their words or token ids"
            problem = f"it splits running text, and {what}"
            raise UsageError(problem, where=parameter("split", settings.split), remedy="leave it out")
        read = self._splitting.read if self._splitting else self._kept
        self._shape = RecordShape.of(settings, self.columns, read)
        for number, item in enumerate(items, 1):
            problem = self._problem(item)
            if problem:
                raise UsageError(f"item {number} is {problem}; a corpus is made of {_ACCEPTED}")

    @property
    def fraction(self) -> float:
        """The share of the items that the newest ``rows()`` has given, 0 to 1."""
        return self._read / len(self._items) if self._items else 1.0

    def rows(self) -> Iterator[Row]:
        """All rows from the start."""
        texts = self._texts()
        return texts if self._splitting is None else self._spans(texts, self._splitting)

    def _texts(self) -> Iterator[Row]:
        self._read = 0
        for row, item in enumerate(self._items):
            self._read = row + 1
            yield self._row(row, item)

    def _spans(self, texts: Iterator[Row], splitting: Splitting) -> Iterator[Row]:
        row = 0
        for text in texts:
            spans = splitting.split(text, row, lambda: f"item {self._read}")
            yield from spans
            row += len(spans)

    def _row(self, row: int, item: CorpusItem) -> Row:
        result = self._read_item(row, item)
        if not isinstance(result, Document):
            return result
        problem = size_problem(result.text) or size_problem(result.pair or "")
        if not _is_storable_document(result):
            problem = "half of a surrogate pair (such as '\\ud83d' alone) in a string; it cannot be stored"
        if problem:
            return Failure(row, shorten(result.id), f"item {row + 1}: {problem}", shorten(result.text))
        return result

    def _read_item(self, row: int, item: CorpusItem) -> Document | Failure:
        number = str(row + 1)
        if isinstance(item, str):
            return Document(row, number, item)
        if isinstance(item, Document):
            return replace(item, row=row)
        if isinstance(item, Mapping):
            result = self._shape.read(row, item, number)
            return replace(result, reason=f"item {number}: {result.reason}") if isinstance(result, Failure) else result
        if _are_token_ids(item):
            ids = tuple(map(int, item))
            return Document(row, number, " ".join(map(str, ids)), ids=ids)
        words = cast("Sequence[str]", item)
        if self._given_words:
            return Document(row, number, " ".join(words), words=tuple(words))
        return Document(row, number, words[0], words[1])

    def _problem(self, item: object) -> str:
        """Describe the problem of an item: its type, or how it differs from other items; empty if there is none."""
        if isinstance(item, str):
            if self.has_words:
                return "a string, where a list of words is needed"
            return "a single text among pairs" if self.has_pairs else ""
        if isinstance(item, Mapping):
            alike = self.has_pairs == (self._shape.pair is not None) and self.has_words == self._given_words
            return "" if alike else "a mapping that gives no pair or no words, unlike other items"
        if isinstance(item, Document):
            return self._document_problem(item)
        if self._given_words:
            has_words = isinstance(item, list | tuple) and all(isinstance(word, str) and word for word in item)
            expected = "a list of words that are strings and not empty, or of token ids"
            return "" if has_words or _are_token_ids(item) else f"{type(item).__name__}, not {expected}"
        if isinstance(item, tuple) and len(item) == 2 and all(isinstance(text, str) for text in item):
            return "" if not self.has_words else "a pair, where a list of words is needed"
        return f"of type {type(item).__name__}" + (", not two strings" if isinstance(item, tuple) else "")

    def _document_problem(self, document: Document) -> str:
        for what, has, others_have in (
            ("pair", document.pair is not None, self.has_pairs),
            ("words", document.words is not None, self.has_words),
            ("tags", document.tags is not None, self.has_tags),
        ):
            if has != others_have and document.ids is None:
                return f"a Document {'with' if has else 'without'} {what}, unlike other items"
        if document.tags is not None and len(document.tags) != len(document.words or ()):
            return f"a Document of {len(document.words or ())} words with {len(document.tags)} tags"
        if document.ids is not None and (document.pair or document.words or document.tags):
            return "a Document of token ids with a pair, words or tags"
        if document.ids is not None and not _are_token_ids(document.ids):
            return "a Document whose ids are no tuple of token ids"
        if document.ids is not None and document.text != " ".join(map(str, document.ids)):
            return "a Document whose text is not its ids, joined by spaces"
        if len(document.kept) != len(self._kept):
            kept = len(self._kept)
            return f"a Document with {len(document.kept)} kept values, where {parameter('keep')} names {kept}"
        if self._splitting is not None and len(self._splitting.read) > len(self._kept):
            column = self._splitting.rule.column
            return f"a Document, whose spans are a kept value: {parameter('keep', (column,))} is missing"
        return ""


@checked
def memory_corpus(items: Iterable[CorpusItem], settings: CorpusSettings = _DEFAULT_SETTINGS) -> MemoryCorpus:
    """Make a corpus of texts, pairs ``(a, b)``, mappings (read like JSONL), Documents, or lists of words or token ids.

    Items without an id get their 1-based number as one; rows are the items' places, from 0.

    Raises:
        UsageError: an item of another type (named by its 1-based number), or unlike the others.
    """
    if settings.metadata is not None:
        raise UsageError("a list is not made of files, which this table describes", where=parameter("metadata"))
    if len(getattr(items, "shape", ())) > 1:  # a table, whose iterator gives the names of its columns
        raise WrongTypeError(
            f"a corpus is a list of {_ACCEPTED}, not a table ({type(items).__name__})",
            remedy="give one of its columns, or its rows as mappings, as to_dict('records') and to_pylist() make them",
        )
    if isinstance(items, str | bytes | Mapping | Document) or not isinstance(items, Iterable):
        raise WrongTypeError(f"a corpus is a list of {_ACCEPTED}, not one {type(items).__name__}")
    return MemoryCorpus(items if isinstance(items, list | tuple) else list(items), settings)


def _are_token_ids(item: object) -> TypeGuard[Sequence[int]]:
    items = as_list(item) or ()
    return len(items) > 0 and all(map(is_token_id, items))


def _kept_columns_of(
    documents: Sequence[Document], sample: ColumnSample, settings: CorpusSettings
) -> tuple[KeptColumn, ...]:
    if sample.count or not documents:
        return find_kept_columns((Columns("the list", sample.columns, sample.types),), settings)
    names = select_kept_names(settings.keep, (), ())
    values = sample_columns((dict(zip(names, document.kept, strict=False)) for document in documents), SAMPLE)
    return tuple(KeptColumn(name, kind or values.types.get(name, "string")) for name, kind in names.items())


def _is_storable_document(document: Document) -> bool:
    if document.pair is None and document.words is None and not document.kept and document.id.isascii():
        return document.text.isascii() or is_storable(document.text)
    return is_storable([document.id, document.text, document.pair, document.words, document.tags, document.kept])
