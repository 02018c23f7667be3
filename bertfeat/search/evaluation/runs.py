"""Runs in TREC's form: the hits of many queries in a text file, which trec_eval, ir_measures and others read.

A line is ``query Q0 document rank score name``, with spaces or tabs between.
"""

import math
from collections.abc import Mapping
from pathlib import Path

from bertfeat.errors import CorpusError, UsageError
from bertfeat.io import open_regular, shorten
from bertfeat.search.queries import decoded_lines

Run = dict[str, dict[str, float]]
"""Query → document → score, larger for nearer ones; the nearest first."""

_NAME = "bertfeat"


def write_run(path: Path, found: Mapping[str, Mapping[str, float]]) -> None:
    """Write the documents found for each query, in the order in which trec_eval reads them.

    Raises:
        UsageError: an id has spaces, which separate the values of a line.
    """
    with path.open("w", encoding="utf-8") as file:
        for query, hits in found.items():
            for rank, (document, score) in enumerate(_ordered(hits).items(), 1):
                for id_ in (query, document):
                    if len(id_.split()) != 1:
                        raise UsageError(f"the id {shorten(id_)!r} has spaces, which separate the values of a run")
                file.write(f"{query} Q0 {document} {rank} {score!r} {_NAME}\n")


def read_run(path: str | Path) -> Run:
    """Read a run.

    Raises:
        CorpusError: it cannot be read, is empty, or a line is not in TREC's form or names a document twice.
    """
    found: Run = {}
    try:
        with open_regular(Path(path)) as file:
            for line in decoded_lines(file, str(path)):
                where, values = f"{path}, line {line.number}", line.text.split()
                score = _as_score(values[4]) if len(values) == 6 else None
                if score is None:
                    raise CorpusError(
                        f"expected query, Q0, document, rank, score (a number) and name; it is {shorten(line.text)!r}",
                        where=where,
                    )
                query, _, document, *_ = values
                if document in found.setdefault(query, {}):
                    raise CorpusError(f"another line has the document {document!r} for this query", where=where)
                found[query][document] = score
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror or error}") from error
    if not found:
        raise CorpusError("there are no hits in it", where=path)
    return {query: _ordered(hits) for query, hits in found.items()}


def _ordered(hits: Mapping[str, float]) -> dict[str, float]:
    """The hits by score, and equal scores by id, the last first: trec_eval's order."""
    return dict(sorted(hits.items(), key=lambda hit: (hit[1], hit[0]), reverse=True))


def _as_score(text: str) -> float | None:
    try:
        score = float(text)
    except ValueError:
        return None
    return score if math.isfinite(score) else None
