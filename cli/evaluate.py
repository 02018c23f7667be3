"""``bertfeat evaluate``: score an index on a BEIR folder of queries and relevance judgements."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .app import Command, option
from .console import Console, pluralize, two_columns
from .option_types import LOCATION
from .options import output_options
from .rerank_options import rerank_options

if TYPE_CHECKING:
    from bertfeat import MaxSim
    from bertfeat.io import Location
    from bertfeat.search import RetrievalScores


@click.command(cls=Command, name="evaluate")
@click.argument("index", type=LOCATION)
@option(
    "--beir",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="Folder with queries.jsonl and qrels/.",
)
@option("--split", default="test", metavar="NAME", help="Name of the judgements: qrels/NAME.tsv.")
@option("--exact", is_flag=True, help="Compare with every vector, whatever the type of the index.")
@option(
    "--own-ids",
    type=click.Choice(["auto", "keep", "drop"]),
    default="auto",
    help="Hits with their query's id: drop (BEIR's rule), keep, or auto: keep if any is judged.",
)
@rerank_options
@option("--model", metavar="NAME|DIR", further=True, help="The index's model, if it was moved.")
@option("--device", metavar="DEVICE", further=True, help="cpu, cuda, cuda:1.", show_default="a GPU if there is one")
@output_options
def command(
    index: "Location",
    beir: Path,
    split: str,
    exact: bool,
    own_ids: str,
    rerank: "MaxSim | None",
    model: str | None,
    device: str | None,
    console: Console,
) -> None:
    """Score an index on a BEIR folder: nDCG@10, MAP, MRR and recall@100, as trec_eval computes them.

    The index must be made from the folder's corpus.jsonl, whose ids the judgements name. Where queries are documents
    of the corpus, as in BEIR's ArguAna and Quora, a query's own document is not a hit; where queries and documents
    only have the same numbers, it is.

    \b
    bertfeat extract scifact/corpus.jsonl --text-column title,text -o scifact.features
    bertfeat index scifact.features
    bertfeat evaluate scifact.index --beir scifact
    bertfeat evaluate scifact.index --beir scifact --rerank maxsim
    """
    from bertfeat.search import evaluate_beir

    scores = evaluate_beir(
        index, beir, split=split, exact=exact, own_ids=own_ids, rerank=rerank, model=model, device=device
    )
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
