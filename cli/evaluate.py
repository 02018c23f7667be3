"""``bertfeat evaluate``: score an index, or the layers of a feature set, on a BEIR folder of relevance judgments."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import click

from bertfeat.errors import pluralize
from bertfeat.options import Option
from bertfeat.recipe import Pooling, list_poolings

from .app import Command, option
from .bundles import options_on_command_line
from .console import Console, two_columns
from .evaluate_output import own_ids_advice, print_layers
from .option_types import LOCATION
from .options import output_options
from .progress import progress_display
from .rerank_options import RERANK_NAMES, rerank_options
from .settings_options import option_names, settings_options

if TYPE_CHECKING:
    from bertfeat import MaxSim
    from bertfeat.io import Location
    from bertfeat.search import RetrievalScores


@dataclass(slots=True)
class Judging:
    """The qrels by which hits are judged, and the model that embeds the queries."""

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
    seed: Annotated[int, Option("Of the intervals' resamples.", least=0)] = 1


@click.command(cls=Command, name="evaluate")
@click.argument("source", metavar="INDEX|FEATURES", type=LOCATION)
@option(
    "--beir",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="Folder with queries.jsonl and qrels/.",
)
@option("--exact", is_flag=True, help="Of INDEX: compare with every vector, whatever its type.")
@settings_options("judging", Judging)
@rerank_options
@settings_options("rows", LayerChoice)
@output_options
def command(
    source: "Location",
    beir: Path,
    exact: bool,
    judging: Judging,
    rerank: "MaxSim | None",
    rows: LayerChoice,
    console: Console,
) -> None:
    """Score an index on a BEIR folder, or tell which layers of a feature set search best on it.

    nDCG@10, MAP, MRR and recall@100, as trec_eval computes them. The corpus must be the folder's corpus.jsonl, whose
    ids the judgments name. FEATURES are searched exactly, under cosine, without an index: a row for each layer and
    transform, with bootstrap intervals over the queries.

    Each metric is of a search for as many hits as it reads: nDCG@10 of `search -k 10`, recall@100 of `-k 100`, MAP and
    MRR of `-k 1000`. Where queries are documents of the corpus, as in BEIR's ArguAna and Quora, --own-ids drop leaves
    out a query's own document.

    \b
    bertfeat extract scifact/corpus.jsonl --text-column title,text --layers all -o scifact.features
    bertfeat evaluate scifact.features --beir scifact --layers all,concat4,sum4 --transform none,half-whiten
    bertfeat index scifact.features --column sum4 --transform half-whiten
    bertfeat evaluate scifact.index --beir scifact
    bertfeat evaluate scifact.index --beir scifact --rerank maxsim
    """
    from bertfeat.io import ResultKind, result_kind

    if result_kind(source) is ResultKind.FEATURES:
        if names := options_on_command_line(among=("exact", *RERANK_NAMES)):
            raise click.UsageError(f"{', '.join(names)}: for an index; a feature set is searched exactly; leave it out")
        _evaluate_features(source, beir, judging, rows, console)
        return
    if names := options_on_command_line(among=option_names(LayerChoice)):
        raise click.UsageError(f"{', '.join(names)}: for a feature set, and {source} is none; leave it out")
    from bertfeat.search import evaluate_beir

    scores = evaluate_beir(
        source,
        beir,
        split=judging.split,
        exact=exact,
        own_ids=judging.own_ids,
        rerank=rerank,
        model=judging.model,
        device=judging.device,
    )
    _print_scores(scores, console)


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
            split=judging.split,
            own_ids=judging.own_ids,
            seed=rows.seed,
            model=judging.model,
            device=judging.device,
            progress=progress,
        )
    if rows.plot is not None:
        draw_retrieval(table, rows.plot)
    print_layers(table, console)


def _print_scores(scores: "RetrievalScores", console: Console) -> None:
    if scores.unknown_documents:
        console.warn(
            f"{scores.unknown_documents:,} of {scores.judged_documents:,} judged documents are not in the index"
        )
    if scores.seem_documents:
        console.warn(own_ids_advice(scores.own_first, scores.queries))
    rows = [
        *((title, f"{score:.4f}") for title, score in scores.rows()),
        ("queries", f"{scores.queries:,}"),
        ("own ids", _own_ids_note(scores)),
        *(("scanned", _scan_note(hits, queries, scores.queries)) for hits, queries in scores.scanned.items()),
    ]
    console.result(scores.to_json(), two_columns(rows))


def _own_ids_note(scores: "RetrievalScores") -> str:
    """The treatment of hits that have their query's own id."""
    if scores.own_ids == "keep":
        return "kept: a hit may bear its query's id"
    return f"{pluralize(scores.dropped, 'hit')} with their query's id left out, as BEIR does"


def _scan_note(hits: int, scanned: int, queries: int) -> str:
    """The number of queries that were compared with every vector, because an approximate search found too little."""
    return f"{scanned:,} of {queries:,} queries for {hits:,} hits: fewer were found, so every vector was compared"
