"""Stop before work is spent on a corpus of which nothing can be read."""

from collections.abc import Iterable, Iterator

from bertfeat.corpus.document import Corpus, Document, Failure, Row, quote_names
from bertfeat.errors import WrongColumnsError

TRIED = 100
"""So many failures with no document before them are no accident."""

_HELD = 10_000  # most rows held back, where blank lines hide what the corpus is like


def check_readable(rows: Iterable[Row], corpus: Corpus) -> Iterator[Row]:
    """Pass the rows of a corpus on, unless the first 100 (of fewer: all) but for blank lines are failures.

    Raises:
        WrongColumns: before any row is given; tells the first failure and the columns that there are.
    """
    rest = iter(rows)
    held: list[Row] = []
    failures: list[Failure] = []
    for row in rest:
        held.append(row)
        if isinstance(row, Failure):
            failures.append(row)
        if len(failures) == TRIED:
            raise _wrong(failures, corpus)
        if isinstance(row, Document) or len(held) == _HELD:
            break
    else:
        if failures:
            raise _wrong(failures, corpus)
    yield from held
    yield from rest


def _wrong(failures: list[Failure], corpus: Corpus) -> WrongColumnsError:
    count = f"the first {len(failures)} rows" if len(failures) == TRIED else f"all rows ({len(failures)})"
    columns = f"; the columns that there are: {quote_names(corpus.columns)}" if corpus.columns else ""
    return WrongColumnsError(f"{count} cannot be read, the first because: {failures[0].reason}{columns}")
