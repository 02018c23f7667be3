"""``bertfeat pretrain``: a corpus becomes a model."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bertfeat.pretraining import PretrainingSettings

from .app import Command, option
from .bundles import leave_out, set_aside
from .console import Console
from .errors import SigtermInterrupt
from .option_types import LOCAL_PATH
from .options import output_options, reading_options
from .paths import default_output
from .pretrain_output import print_pretraining, print_pretraining_estimate
from .progress import progress_display
from .settings_options import settings_options

if TYPE_CHECKING:
    from bertfeat.corpus import CorpusSettings


@click.command(cls=Command, name="pretrain")
@click.argument("sources", nargs=-1, required=True, metavar="CORPUS...")
@option(
    "-o",
    "--output",
    type=LOCAL_PATH,
    metavar="DIR",
    show_default="corpus.model for corpus.txt",
    help="Where the model goes.",
)
@option("--model", metavar="NAME|DIR", show_default="a new model", help="A model that goes on learning.")
@settings_options("settings", PretrainingSettings)
@option(
    "--document-column",
    metavar="COL",
    help="Rows in a row with one value in it are one document.",
    show_default="blank lines of text files, else files",
)
@reading_options
@option("--revision", further=True, metavar="REV", help="The hub's branch, tag or commit of the model.")
@option("--device", further=True, metavar="DEVICE", show_default="a GPU if there is one", help="cpu or cuda.")
@option(
    "--checkpoint-minutes",
    type=float,
    default=5.0,
    further=True,
    metavar="M",
    help="Time from one checkpoint to the next.",
)
@option("--dry-run", is_flag=True, help="Measure tokens/s, estimate hours, and write nothing.")
@option("--overwrite", is_flag=True, further=True, help="Start anew where another training's folder is.")
@output_options
def command(
    sources: tuple[str, ...],
    output: Path | None,
    model: str | None,
    settings: PretrainingSettings,
    document_column: str | None,
    reading: "CorpusSettings",
    revision: str | None,
    device: str | None,
    checkpoint_minutes: float,
    dry_run: bool,
    overwrite: bool,
    console: Console,
) -> None:
    """Pre-train a BERT on a corpus: from scratch, or going on from another model.

    The rows of CORPUS are sentences or paragraphs. DIR gets a model of Hugging Face with its heads, which
    extract --model and transformers open. Interrupted, the same command goes on from the last checkpoint.

    \b
    bertfeat pretrain corpus.txt --shape tiny --vocabulary 8000 --minutes 10
    bertfeat pretrain novels.csv --document-column title --dry-run
    bertfeat pretrain domain.jsonl --model bert-base-uncased --epochs 3 -o domain.model
    """
    folder = output or default_output(sources, ".model")
    from bertfeat.pretraining import estimate_pretraining, pretrain_model

    if dry_run:
        estimate = estimate_pretraining(
            sources,
            model=model,
            revision=revision,
            settings=settings,
            corpus_settings=reading,
            document_column=document_column,
            device=device,
        )
        print_pretraining_estimate(estimate, console)
        return
    try:
        with progress_display(console) as progress:
            report = pretrain_model(
                sources,
                folder,
                model=model,
                revision=revision,
                settings=settings,
                corpus_settings=reading,
                document_column=document_column,
                device=device,
                checkpoint_minutes=checkpoint_minutes,
                overwrite=overwrite,
                progress=progress,
            )
    except (KeyboardInterrupt, SigtermInterrupt):
        if folder.exists():  # else it was stopped before it wrote anything
            console.say(
                f"what is done up to the last checkpoint stays in {folder}; the same command goes on from there"
            )
        raise
    print_pretraining(report, console)


leave_out(command, "keep", "pair_column", "pairs", "id_column", "word_column", "tag_column")
leave_out(command, "pretokenized", "document_context")
set_aside(command, "text_columns")
