"""``bertfeat evaluate``: score an index, a run, or the layers of a feature set on a BEIR folder of judgments."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import click

from bertfeat.core import Pooling, list_poolings
from bertfeat.errors import pluralize
from bertfeat.options import Option

from .app import Command, option
from .bundles import option_names, options_on_command_line, settings_options
from .console import Console, fields_of, progress_display, two_columns
from .option_types import LOCATION
from .options import RERANK_NAMES, output_options, rerank_options

if TYPE_CHECKING:
    from bertfeat import MaxSim
    from bertfeat.io import Location
    from bertfeat.search import Interval, LayerTable, RetrievalScores


@dataclass(slots=True)
class Judging:
    """The judgments and metrics by which hits are scored, and the model that embeds the queries."""

    metrics: Annotated[
        tuple[str, ...],
        Option(
            "Such as nDCG@20, P@5, recall@100, success@10, MAP, MRR.",
            default="nDCG@10,MAP,MRR,recall@100",
            metavar="NAME[,NAME]",
            basic=True,
        ),
    ] = ()
    split: Annotated[str, Option("Name of the judgments: qrels/NAME.tsv.", metavar="NAME", basic=True)] = "test"
    own_ids: Annotated[
        Literal["keep", "drop"],
        Option("Hits with their query's id: drop where queries are documents of the corpus (ArguAna).", basic=True),
    ] = "keep"
    model: Annotated[str | None, Option("The model, if it was moved.", metavar="NAME|DIR")] = None
    device: Annotated[str | None, Option("cpu, cuda, cuda:1.", default="a GPU if there is one", metavar="DEVICE")] = (
        None
    )


@dataclass(slots=True)
class LayerChoice:
    """The rows of a table of layers, their intervals, and the table's plot."""

    layers: Annotated[
        tuple[str, ...],
        Option(
            "Of FEATURES: which ones, such as all,concat4,sum4.",
            default="all that are stored",
            metavar="SPEC[,SPEC]",
            basic=True,
        ),
    ] = ()
    pooling: Annotated[
        tuple[Pooling, ...],
        Option(f"Of FEATURES: {list_poolings()}.", default="all that are stored", metavar="NAME[,NAME]", basic=True),
    ] = ()
    transforms: Annotated[
        tuple[str, ...],
        Option(
            "Of FEATURES: none, whiten, half-whiten, the last two also with a width: whiten:128.",
            default="none",
            metavar="NAME[,NAME]",
            basic=True,
        ),
    ] = ()
    plot: Annotated[Path | None, Option("Draw the table as .png, .pdf or .svg.", metavar="FILE", basic=True)] = None


@click.command(cls=Command, name="evaluate")
@click.argument("source", metavar="INDEX|FEATURES|RUN", type=LOCATION)
@option(
    "--beir",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="Folder with queries.jsonl and qrels/.",
)
@option("--exact", is_flag=True, help="Of INDEX: compare with every vector, whatever its type.")
@option(
    "--run",
    further=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Of INDEX: write 1,000 hits of each query in TREC's form, a RUN.",
)
@settings_options("judging", Judging)
@rerank_options
@settings_options("rows", LayerChoice)
@output_options
def command(
    source: "Location",
    beir: Path,
    exact: bool,
    run: Path | None,
    judging: Judging,
    rerank: "MaxSim | None",
    rows: LayerChoice,
    console: Console,
) -> None:
    """Score an index or a run on a BEIR folder, or tell which layers of a feature set search best on it.

    Scores are those of trec_eval. The corpus must be the folder's corpus.jsonl, whose ids the judgments name. FEATURES
    are searched exactly, under cosine, without an index: a row for each layer and transform, with bootstrap intervals
    over the queries, compared by the first of the metrics. A RUN is a file of hits in TREC's form, of any tool.

    Each metric is of a search for as many hits as it reads: nDCG@10 of `search -k 10`, recall@100 of `-k 100`, MAP and
    MRR of `-k 1000`. Where queries are documents of the corpus, as in BEIR's ArguAna and Quora, --own-ids drop leaves
    out a query's own document.

    \b
    bertfeat extract scifact/corpus.jsonl --text-column title,text --layers all -o scifact.features
    bertfeat evaluate scifact.features --beir scifact --layers all,concat4,sum4 --transform none,half-whiten
    bertfeat index scifact.features --column sum4 --transform half-whiten
    bertfeat evaluate scifact.index --beir scifact
    bertfeat evaluate scifact.index --beir scifact --rerank maxsim --metrics P@5,nDCG@20 --run maxsim.run
    bertfeat evaluate bm25.run --beir scifact --metrics P@5,nDCG@20
    """
    from bertfeat.io import Address, ResultKind, result_kind

    is_run = not isinstance(source, Address) and source.exists() and not source.is_dir()
    if result_kind(source) is ResultKind.FEATURES:
        _refuse_options(("exact", "run", *RERANK_NAMES), "for an index; a feature set is searched exactly")
        _evaluate_features(source, beir, judging, rows, console)
        return
    _refuse_options(option_names(LayerChoice), f"for a feature set, and {source} is none")
    if is_run:
        _refuse_options(
            ("exact", "run", *RERANK_NAMES, "model", "device"), f"for an index, and {source} is a file of hits"
        )
        from bertfeat.search import evaluate_run

        scores = evaluate_run(
            Path(str(source)), beir, metrics=judging.metrics, split=judging.split, own_ids=judging.own_ids
        )
        _print_scores(scores, console)
        return
    from bertfeat.search import evaluate_beir

    scores = evaluate_beir(
        source,
        beir,
        metrics=judging.metrics,
        split=judging.split,
        exact=exact,
        own_ids=judging.own_ids,
        run=run,
        rerank=rerank,
        model=judging.model,
        device=judging.device,
    )
    _print_scores(scores, console)


def _refuse_options(names: Iterable[str], reason: str) -> None:
    """Refuse options that the source does not read, if any of them is on the command line."""
    if given := options_on_command_line(among=tuple(names)):
        raise click.UsageError(f"{', '.join(given)}: {reason}; leave it out")


def _evaluate_features(source: "Location", beir: Path, judging: Judging, rows: LayerChoice, console: Console) -> None:
    from bertfeat.plots import draw_retrieval, picture_path
    from bertfeat.search import evaluate_layers

    if rows.plot is not None:
        picture_path(rows.plot)  # before anything is computed
    with progress_display(console) as progress:
        table = evaluate_layers(
            source,
            beir,
            layers=rows.layers,
            pooling=rows.pooling or None,
            transforms=rows.transforms,
            metrics=judging.metrics,
            split=judging.split,
            own_ids=judging.own_ids,
            model=judging.model,
            device=judging.device,
            progress=progress,
        )
    if rows.plot is not None:
        draw_retrieval(table, rows.plot)
    _print_layers(table, console)


def _print_scores(scores: "RetrievalScores", console: Console) -> None:
    if scores.unknown_documents:
        console.warn(
            f"{scores.unknown_documents:,} of {scores.judged_documents:,} judged documents are not in the index"
        )
    if scores.without_hits:
        console.warn(
            f"the run has no hits for {scores.without_hits:,} of {scores.queries:,} judged queries, which score 0"
        )
    if scores.not_judged:
        console.warn(f"not judged, and so not scored: {scores.not_judged:,} of the queries in the run")
    if scores.seem_documents:
        console.warn(_own_ids_advice(scores.own_first, scores.queries))
    if scores.own_ids == "keep":
        own_ids = "kept: a hit may bear its query's id"
    else:
        own_ids = f"{pluralize(scores.dropped, 'hit')} with their query's id left out, as BEIR does"
    scans = [  # numbers of queries compared with every vector, because an approximate search found too few hits
        f"{scanned:,} of {scores.queries:,} queries for {hits:,} hits: fewer were found, so every vector was compared"
        for hits, scanned in scores.scanned.items()
    ]
    rows = [
        *((title, f"{score:.4f}") for title, score in scores.rows()),
        ("queries", f"{scores.queries:,}"),
        ("own ids", own_ids),
        *(("scanned", scan) for scan in scans),
    ]
    console.result(scores.to_json(), two_columns(rows))


def _print_layers(table: "LayerTable", console: Console) -> None:
    """Print which layers search best, with warnings about what the table lacks and which rows not to trust."""
    if table.unknown_documents:
        missing = f"{table.unknown_documents:,} of {table.judged_documents:,} judged documents"
        console.warn(f"{missing} are not in the feature set")
    if table.seem_documents:
        console.warn(_own_ids_advice(table.own_first, table.queries))
    for left_out in table.left_out:
        console.warn(f"{left_out.column} left out: {left_out.reason}")
    if few := [row for row in table.rows if row.few_vectors]:
        console.warn(
            f"{table.documents:,} vectors are few for whitening in full ({pluralize(len(few), 'row')}, marked with !): "
            f"give a width, such as whiten:{max(1, table.documents // 10)}, or take half-whiten"
        )
    best = {"column": table.best.column, "transform": table.best.transform}
    console.result({**fields_of(table), "best": best}, _layer_lines(table))


def _own_ids_advice(own_first: int, queries: int) -> str:
    """The warning that queries seem to be documents, each of which finds itself."""
    return (
        f"{own_first:,} of {queries:,} queries find the document of their own id first: if queries are "
        f"documents of the corpus, as in ArguAna and Quora, BEIR leaves these hits out: --own-ids drop"
    )


def _layer_lines(table: "LayerTable") -> Iterator[str]:
    ranked_by, *others = table.metrics
    ids = "kept" if table.own_ids == "keep" else "left out"
    yield f"{table.model}: exact search for {table.queries:,} queries among {pluralize(table.documents, 'document')}"
    yield f"by cosine, intervals of 95 % over the queries; hits with their query's id {ids}"
    yield ""
    heads = ("column", "transform", "values", ranked_by.title, "interval", "from the best", "interval")
    cells = [(*heads, *(metric.title for metric in others))]
    for row in table.rows:
        score = row.scores[ranked_by.key]
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
