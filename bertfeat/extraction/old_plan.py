"""The first plan, by which feature sets were made before files were cut by themselves; such sets go on with it.

Parts are cut from all rows of the corpus together, so they begin in the middle of a file, and nobody but who reads the
whole corpus knows where.
"""

from collections.abc import Iterator

from bertfeat.corpus import Corpus, Row
from bertfeat.extraction.plan import PartLimits, PlannedPart, plan_parts
from bertfeat.extraction.row_digests import digest_rows


def plan_of_version(version: int | None, corpus: Corpus, limits: PartLimits) -> Iterator[PlannedPart]:
    """Cut a corpus into parts by the plan that a feature set records.

    Raises:
        CorpusError: the corpus cannot be read on.
    """
    return plan_parts_as_before(corpus, limits) if version is None else plan_parts(corpus, limits)


def plan_parts_as_before(corpus: Corpus, limits: PartLimits) -> Iterator[PlannedPart]:
    """Cut a corpus into parts, lazily, and give each with its rows. Memory: one part.

    Raises:
        CorpusError: the corpus cannot be read on.
    """
    number, before = 0, 0.0
    rows: list[Row] = []
    size, characters = 0.0, 0
    for row in corpus.rows():
        cost, read = limits.costs(row)
        if rows and not limits.hold(len(rows) + 1, size + cost, characters + read):
            fraction = corpus.fraction
            yield _make_part(number, rows, fraction - before)
            number, rows, size, characters, before = number + 1, [], 0.0, 0, fraction
        rows.append(row)
        size += cost
        characters += read
    if rows:
        yield _make_part(number, rows, corpus.fraction - before)


def _make_part(number: int, rows: list[Row], share: float) -> PlannedPart:
    digest, sketch = digest_rows(rows)
    return PlannedPart(number, rows[0].row, len(rows), (), digest, sketch, share, tuple(rows))
