"""The metrics of retrieval, and the scores of queries by them; ir_measures computes them, as trec_eval does."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import UsageError, needed_library, parameter
from bertfeat.search.evaluation.beir import BeirFolder
from bertfeat.search.evaluation.runs import order_hits

DEPTH = 1000  # most hits per query, as in trec_eval and BEIR


class _Family(NamedTuple):
    """A family of metrics: one for each cutoff."""

    title: str  # in tables, before the @
    key: str  # in JSON, before the cutoff
    measure: str  # as ir_measures names it: https://ir-measur.es
    cutoff: Literal["@K", "[@K]", ""]  # whether a name must have one, may, or must not


_FAMILIES = (
    _Family("nDCG", "ndcg", "nDCG", "[@K]"),
    _Family("MAP", "map", "AP", "[@K]"),
    _Family("MRR", "mrr", "RR", "[@K]"),
    _Family("P", "precision", "P", "@K"),
    _Family("recall", "recall", "R", "@K"),
    _Family("success", "success", "Success", "@K"),
    _Family("judged", "judged", "Judged", "@K"),
    _Family("R-precision", "r_precision", "Rprec", ""),
)
_BY_NAME = {name.lower(): family for family in _FAMILIES for name in (family.title, family.key, family.measure)}


@dataclass(frozen=True, slots=True)
class RetrievalMetric:
    """A metric of retrieval, such as nDCG@10."""

    key: str  # in JSON and in :attr:`RetrievalScores.scores`: ndcg_at_10
    title: str  # in tables: nDCG@10
    measure: str  # as ir_measures names it: https://ir-measur.es
    cutoff: int | None = None  # the k of nDCG@k

    @property
    def depth(self) -> int:
        """The number of hits per query that the metric reads, and that are therefore asked for."""
        return self.cutoff or DEPTH

    @classmethod
    def parse(cls, name: str) -> "RetrievalMetric":
        """Read a name such as ``nDCG@10``, ``P@5`` or ``MAP``, in any case, a name of ir_measures, or a :attr:`key`.

        Raises:
            UsageError: an unknown metric, or a cutoff that is missing, not wanted, or not from 1 to 1,000.
        """
        word, at, cutoff = name.strip().replace("_at_", "@").partition("@")
        family = _BY_NAME.get(word.lower())
        where = parameter("metrics", name)
        if family is None:
            raise UsageError("this metric is unknown", where=where, remedy=f"there are {list_metrics()}")
        if not at:
            if family.cutoff == "@K":
                raise UsageError("a number of hits is missing", where=where, remedy=f"write {family.title}@10")
            return cls(family.key, family.title, family.measure)
        if not family.cutoff:
            raise UsageError("it takes no number of hits", where=where, remedy=f"write {family.title}")
        if not re.fullmatch("[0-9]{1,4}", cutoff, re.ASCII) or not 1 <= int(cutoff) <= DEPTH:
            raise UsageError(f"the number of hits must be from 1 to {DEPTH:,}", where=where)
        return cls(f"{family.key}_at_{int(cutoff)}", f"{family.title}@{int(cutoff)}", family.measure, int(cutoff))


def list_metrics() -> str:
    """The names of all metrics in one line; K stands for a number of hits."""
    return ", ".join(f"{family.title}{family.cutoff}" for family in _FAMILIES)


RETRIEVAL_METRICS = tuple(map(RetrievalMetric.parse, ("nDCG@10", "MAP", "MRR", "recall@100")))
"""The metrics that are computed where none are named."""


def as_metrics(names: Sequence[str]) -> tuple[RetrievalMetric, ...]:
    """Read the names of metrics, each once, in their order; none are those of :data:`RETRIEVAL_METRICS`."""
    return tuple(dict.fromkeys(map(RetrievalMetric.parse, names))) or RETRIEVAL_METRICS


def check_scorer() -> None:
    """Check that ir_measures is there, before anything is computed."""
    with needed_library("scoring needs ir_measures", "bertfeat[evaluate]"):
        import ir_measures  # noqa: F401


def score_queries(
    data: BeirFolder, retrieved: Mapping[str, Mapping[str, float]], metrics: Sequence[RetrievalMetric]
) -> NDArray[np.float64]:
    """The score of each judged query by each metric, as trec_eval computes them: ``[Q, metrics]``.

    ``retrieved`` has the documents found for each query and their scores, larger for nearer ones; a query without any
    scores 0. Every metric reads them in one order, :func:`order_hits`; of equal scores ir_measures would take now the
    first id, now the last. A negative grade counts as 0.

    trec_eval is C that believes its input: two ids that begin alike up to a NUL end the process, and so may grades of
    -2 and less. So it gets numbers for ids, and no negative grades.
    """
    import ir_measures

    measures = {}
    for at, metric in enumerate(metrics):
        measure = getattr(ir_measures, metric.measure)  # its own parser of "nDCG@10" fails from Python 3.14 on
        measures[measure if metric.cutoff is None else measure @ metric.cutoff] = at
    judged, ordered = {}, {}
    for at, query in enumerate(data.queries):
        grades, hits = data.judgments[query], order_hits(retrieved.get(query, {}))
        numbers = {id_: str(number) for number, id_ in enumerate({**grades, **hits})}
        judged[str(at)] = {numbers[id_]: max(grade, 0) for id_, grade in grades.items()}
        if hits:
            ordered[str(at)] = {numbers[id_]: float(-rank) for rank, id_ in enumerate(hits)}
    scores = np.zeros((len(data.queries), len(metrics)))
    for found in ir_measures.iter_calc(list(measures), judged, ordered):
        scores[int(found.query_id), measures[found.measure]] = found.value
    return scores
