"""Documents → rows of equally many token ids, each with what it is made of.

Shapes: ``R`` rows, ``S`` tokens of each; ``M`` tokens of documents, one document after the other.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertfeat.contexts.settings import ContextSettings
from bertfeat.core import Document, Model, Tokenizer, open_library_tokenizer, split_texts
from bertfeat.errors import ModelError, UsageError, parameter
from bertfeat.ragged import offsets_of

_CHARACTERS = 1 << 22  # of texts that are tokenized at a time
_ID, _START, _END, _DOCUMENT = range(4)  # rows of a table of tokens: its id, its characters, its document's number
_TokenTable = NDArray[np.int64]  # [4, M]


class DocumentPiece(NamedTuple):
    """The tokens of a row that are of one document: those from ``first`` to before ``stop``, and their characters."""

    id: str
    row: int  # of the document in the corpus
    first: int
    stop: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ContextRows:
    """Rows of token ids, the characters of each token in the text of its document, and the documents of each row."""

    ids: NDArray[np.int32]  # [R, S]
    starts: NDArray[np.int32]  # [R, S]; special tokens have no width
    ends: NDArray[np.int32]  # [R, S]
    documents: list[list[DocumentPiece]]  # [R]


class ContextJoin:
    """Joins documents, each followed by the model's separator, and cuts what comes out into rows of one size.

    The separator is what the model's tokenizer sets after a text (``[SEP]``, ``</s>``), else its token for the end of
    one. With ``bos`` each row begins with what it sets before a text, else with its token for the beginning, if it has
    either.

    Raises:
        UsageError: rows that are longer than the model reads, or too short for a token of a text.
        ModelError: the tokenizer has no separator.
    """

    def __init__(self, model: Model, settings: ContextSettings) -> None:
        self._tokenizer = Tokenizer(model)
        template = self._tokenizer.single
        self._before, self._after = template.before if settings.bos else (), template.after
        if not self._after or (settings.bos and not self._before):
            self._take_named(model, settings)
        self.size = settings.size or model.max_tokens
        """Tokens of a row."""
        self.left_over = 0
        """Tokens at the end of the documents that filled no row, once all rows have been given."""
        where = parameter("size", self.size)
        if self.size > model.max_tokens:
            raise UsageError(
                f"{model.name} reads {model.max_tokens:,} tokens at once", where=where, remedy="choose fewer"
            )
        if self.size <= len(self._before):
            problem = f"{model.name} sets {len(self._before)} tokens before a text"
            raise UsageError(problem, where=where, remedy=f"choose more, or {parameter('bos', False)}")

    def _take_named(self, model: Model, settings: ContextSettings) -> None:
        """Take the tokens that the tokenizer names, where it sets none around texts."""
        named = open_library_tokenizer(model.folder, model.name, model.library_config)
        if settings.bos and not self._before and named.bos_token_id is not None:
            self._before = (named.bos_token_id,)
        if not self._after:
            if named.eos_token_id is None:
                raise ModelError("its tokenizer has no token that ends a text", where=model.name)
            self._after = (named.eos_token_id,)

    def rows(self, documents: Iterable[Document]) -> Iterator[ContextRows]:
        """Give the rows, some at a time; what fills none at the end is counted in ``left_over``.

        Raises:
            UsageError: a document of token ids.
        """
        body = self.size - len(self._before)
        held: _TokenTable = np.zeros((4, 0), np.int64)
        met: dict[int, Document] = {}  # the documents of what is held, by their numbers
        for block in _text_blocks(documents):
            met |= enumerate(block, max(met, default=-1) + 1)
            held = np.concatenate([held, self._tokens(block, max(met) + 1 - len(block))], axis=1)
            number = held.shape[1] // body
            if number:
                yield self._cut(held[:, : number * body].reshape(4, number, body), met)
            held = held[:, number * body :]
            first = int(held[_DOCUMENT, 0]) if held.shape[1] else max(met)
            met = {at: document for at, document in met.items() if at >= first}
        self.left_over = held.shape[1]

    def _tokens(self, documents: Sequence[Document], first: int) -> _TokenTable:
        """The tokens of documents, which are numbered from ``first``, each followed by the separator."""
        pieces = split_texts(self._tokenizer, [document.text for document in documents], offsets=True)
        assert pieces.spans is not None
        after = len(self._after) * (pieces.counts > 0)  # an empty text needs none
        lengths = pieces.counts + after
        document = np.repeat(np.arange(len(documents)), lengths)
        place = np.arange(len(document)) - offsets_of(lengths)[:-1][document]
        of_text = place < pieces.counts[document]
        table: _TokenTable = np.empty((4, len(document)), np.int64)
        table[_DOCUMENT] = document + first
        table[_ID, of_text] = pieces.ids
        table[_START, of_text], table[_END, of_text] = pieces.spans.start, pieces.spans.end
        separators = ~of_text
        table[_ID, separators] = np.array(self._after)[(place - pieces.counts[document])[separators]]
        characters = np.array([len(each.text) for each in documents], np.int64)
        table[_START, separators] = table[_END, separators] = characters[document[separators]]
        return table

    def _cut(self, tokens: NDArray[np.int64], met: dict[int, Document]) -> ContextRows:
        """Set what rows begin with before their tokens. Shape: ``[4, R, S - before]``."""
        lead = np.repeat(tokens[:, :, :1], len(self._before), axis=2)
        lead[_ID], lead[_END] = self._before, lead[_START]
        rows = np.concatenate([lead, tokens], axis=2)
        documents = [self._pieces(row, met) for row in rows.transpose(1, 0, 2)]
        ids, starts, ends = (rows[at].astype(np.int32) for at in (_ID, _START, _END))
        return ContextRows(ids, starts, ends, documents)

    def _pieces(self, row: NDArray[np.int64], met: dict[int, Document]) -> list[DocumentPiece]:
        """The documents of a row. Shape: ``[4, S]``."""
        firsts = np.flatnonzero(np.diff(row[_DOCUMENT], prepend=-1))
        stops = [*firsts[1:].tolist(), row.shape[1]]
        numbers, starts, ends = row[_DOCUMENT, firsts], row[_START, firsts], row[_END, np.array(stops) - 1]
        columns = (firsts.tolist(), stops, starts.tolist(), ends.tolist())
        return [
            DocumentPiece(met[number].id, met[number].row, *places)
            for number, *places in zip(numbers.tolist(), *columns, strict=True)
        ]


def _text_blocks(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Documents in lists of about as many characters."""
    block, characters = list[Document](), 0
    for document in documents:
        if document.ids is not None:
            raise UsageError(
                f"contexts are joined from texts, and row {document.row} is token ids",
                remedy="extract reads these as they are",
            )
        block.append(document)
        characters += len(document.text)
        if characters >= _CHARACTERS:
            yield block
            block, characters = [], 0
    if block:
        yield block
