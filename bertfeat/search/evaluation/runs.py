"""Runs in TREC's form: the hits of many queries in a text file, which trec_eval, ir_measures and others read.

A line is ``query Q0 document rank score name``, with spaces or tabs between.
"""

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from bertfeat.errors import CorpusError, UsageError, parameter, shorten
from bertfeat.io import open_regular
from bertfeat.search.queries import decoded_lines

Run = dict[str, dict[str, float]]
"""Query → document → score, larger for nearer ones; the nearest first."""

_NAME = "bertfeat"
_BETWEEN = re.compile("[ \t]+")


def check_run_ids(ids: Iterable[str]) -> None:
    """Check that ids fit into a run.

    Raises:
        UsageError: one is empty, or has white space, which separates the values of a line: for trec_eval that of ASCII,
            for ir_measures and other readers in Python all that Unicode knows.
    """
    for id_ in ids:
        if id_.split() != [id_]:
            raise UsageError(
                f"the id {shorten(id_)!r} is empty or has spaces, and spaces separate the values of a run",
                where=parameter("run"),
                remedy=f"leave {parameter('run')} out, or extract with other ids",
            )


def write_run(path: Path, found: Mapping[str, Mapping[str, float]]) -> None:
    """Write the documents found for each query, in the order of :func:`order_hits`."""
    with path.open("w", encoding="utf-8") as file:
        for query, hits in found.items():
            for rank, (document, score) in enumerate(order_hits(hits).items(), 1):
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
                where, values = f"{path}, line {line.number}", _BETWEEN.split(line.text.strip(" \t"))
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
    return {query: order_hits(hits) for query, hits in found.items()}


def order_hits(hits: Mapping[str, float]) -> dict[str, float]:
    """The hits by score in float32, and equal scores by id, the last first: trec_eval's order."""
    with np.errstate(over="ignore"):
        scores = np.fromiter(hits.values(), np.float64, len(hits)).astype(np.float32).tolist()
    return {id_: hits[id_] for _, id_ in sorted(zip(scores, hits, strict=True), reverse=True)}


def _as_score(text: str) -> float | None:
    try:
        score = float(text)
    except ValueError:
        return None
    return score if math.isfinite(score) else None
