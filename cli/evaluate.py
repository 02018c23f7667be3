"""``bertfeat evaluate``: score an index, or the layers of a feature set, on a BEIR folder of relevance judgements."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .app import Command, option
from .bundles import bundle
from .command_line import options_on_command_line
from .console import Console, pluralize, two_columns
from .evaluate_output import print_layers
from .option_types import LOCAL_PATH, LOCATION, listed_option
from .options import output_options
from .progress import ProgressView, progress_display
from .rerank_options import RERANK_NAMES, rerank_options

if TYPE_CHECKING:
    from bertfeat import MaxSim
    from bertfeat.io import Location
    from bertfeat.search import RetrievalScores

_OF_FEATURES = ("layers", "pooling", "transforms", "seed", "picture")


@dataclass(frozen=True, slots=True)
class Judging:
    """By which judgements, and by which model."""

    split: str
    own_ids: str
    model: str | None
    device: str | None


@dataclass(frozen=True, slots=True)
class LayerChoice:
    """Which rows a table of layers has, and what becomes of it."""

    layers: tuple[str, ...]
    pooling: tuple[str, ...]
    transforms: tuple[str, ...]
    seed: int
    picture: Path | None


judging_options = bundle(
    "judging",
    Judging,
    ("split", "own_ids", "model", "device"),
    option("--split", default="test", metavar="NAME", help="Name of the judgements: qrels/NAME.tsv."),
    option(
        "--own-ids",
        type=click.Choice(["auto", "keep", "drop"]),
        default="auto",
        help="Hits with their query's id: drop (BEIR's rule), keep, or auto: keep if any is judged.",
    ),
    option("--model", metavar="NAME|DIR", further=True, help="The model, if it was moved."),
    option("--device", metavar="DEVICE", further=True, help="cpu, cuda, cuda:1.", show_default="a GPU if there is one"),
)
layer_options = bundle(
    "rows",
    LayerChoice,
    _OF_FEATURES,
    listed_option(
        "--layers",
        metavar="SPEC[,SPEC]",
        show_default="all that are stored",
        help="Of FEATURES: which ones, such as all,concat4,sum4.",
    ),
    listed_option(
        "--pooling",
        choices=("mean", "cls", "max"),
        metavar="NAME[,NAME]",
        show_default="all that are stored",
        help="Of FEATURES: mean, cls, max.",
    ),
    listed_option(
        "--transform",
        "transforms",
        metavar="NAME[,NAME]",
        show_default="none",
        help="Of FEATURES: none, whiten, half-whiten, the last two also with a width: whiten:128.",
    ),
    option("--plot", "picture", type=LOCAL_PATH, metavar="FILE", help="Draw the table as .png, .pdf or .svg."),
    option(
        "--seed", type=click.IntRange(min=0), default=1, further=True, metavar="N", help="Of the intervals' resamples."
    ),
)


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
@judging_options
@rerank_options
@layer_options
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
    ids the judgements name. FEATURES are searched exactly, under cosine, without an index: a row for each layer and
    transform, with bootstrap intervals over the queries.

    Where queries are documents of the corpus, as in BEIR's ArguAna and Quora, a query's own document is not a hit;
    where queries and documents only have the same numbers, it is.

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
    if names := options_on_command_line(among=_OF_FEATURES):
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

    if rows.picture is not None:
        picture_path(rows.picture)  # before anything is computed
    with progress_display(console, _view_scan) as show:
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
            on_step=None if show is None else lambda done, total: show((done, total)),
        )
    if rows.picture is not None:
        draw_retrieval(table, rows.picture)
    print_layers(table, console)


def _view_scan(step: tuple[int, int]) -> ProgressView:
    return ProgressView(step[0] / max(step[1], 1), f"{step[0]:,} of {step[1]:,} vectors")


def _print_scores(scores: "RetrievalScores", console: Console) -> None:
    if scores.unknown_documents:
        console.warn(
            f"{scores.unknown_documents:,} of {scores.judged_documents:,} judged documents are not in the index"
        )
    rows = [
        *((title, f"{score:.4f}") for title, score in scores.rows()),
        ("queries", f"{scores.queries:,}"),
        ("own ids", _own_ids_note(scores)),
    ]
    console.result(scores.to_json(), two_columns(rows))


def _own_ids_note(scores: "RetrievalScores") -> str:
    """The treatment of hits that have their query's own id."""
    if scores.own_ids == "keep":
        return "kept: a hit may bear its query's id (--own-ids drop leaves it out)"
    return (
        f"{pluralize(scores.dropped, 'hit')} with their query's id left out, as BEIR does (--own-ids keep keeps them)"
    )
