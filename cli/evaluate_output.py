"""The output of ``bertfeat evaluate`` of a feature set: a row for each column and transform."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bertfeat.errors import pluralize

from .console import Console, fields_of

if TYPE_CHECKING:
    from bertfeat.search import Interval, LayerTable


def print_layers(table: "LayerTable", console: Console) -> None:
    """Print which layers search best, with warnings about what the table does not have or should not be trusted in."""
    if table.unknown_documents:
        missing = f"{table.unknown_documents:,} of {table.judged_documents:,} judged documents"
        console.warn(f"{missing} are not in the feature set")
    if table.seem_documents:
        console.warn(own_ids_advice(table.own_first, table.queries))
    for left_out in table.left_out:
        console.warn(f"{left_out.column} left out: {left_out.reason}")
    if few := [row for row in table.rows if row.few_vectors]:
        console.warn(
            f"{table.documents:,} vectors are few for whitening in full ({pluralize(len(few), 'row')}, marked with !): "
            f"give a width, such as whiten:{max(1, table.documents // 10)}, or take half-whiten"
        )
    best = {"column": table.best.column, "transform": table.best.transform}
    console.result({**fields_of(table), "best": best}, _layer_lines(table))


def own_ids_advice(own_first: int, queries: int) -> str:
    """The warning that queries seem to be documents, each of which finds itself."""
    return (
        f"{own_first:,} of {queries:,} queries find the document of their own id first: if queries are "
        f"documents of the corpus, as in ArguAna and Quora, BEIR leaves these hits out: --own-ids drop"
    )


def _layer_lines(table: "LayerTable") -> Iterator[str]:
    from bertfeat.search import RANKED_BY, RETRIEVAL_METRICS

    others = [metric for metric in RETRIEVAL_METRICS if metric is not RANKED_BY]
    ids = "kept" if table.own_ids == "keep" else "left out"
    yield f"{table.model}: exact search for {table.queries:,} queries among {pluralize(table.documents, 'document')}"
    yield f"by cosine, intervals of 95 % over the queries; hits with their query's id {ids}"
    yield ""
    heads = ("column", "transform", "values", RANKED_BY.title, "interval", "from the best", "interval")
    cells = [(*heads, *(metric.title for metric in others))]
    for row in table.rows:
        score = row.scores[RANKED_BY.key]
        best = row is table.best
        difference = (
            ("best", "") if best else (f"{row.difference.value:+.3f}", _format_ends(row.difference, signed=True))
        )
        values = f"{row.width:,}{'!' if row.few_vectors else ''}"
        rest = (f"{row.scores[metric.key].value:.3f}" for metric in others)
        cells.append((row.column, row.transform, values, f"{score.value:.3f}", _format_ends(score), *difference, *rest))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()


def _format_ends(interval: "Interval", *, signed: bool = False) -> str:
    form = "+.3f" if signed else ".3f"
    return f"{interval.low:{form}} to {interval.high:{form}}"
