"""``bertfeat pretrain``: a corpus becomes a model."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .app import Command, option
from .bundles import bundle, deferred, leave_out, set_aside
from .console import Console
from .errors import SigtermInterrupt
from .option_types import LOCAL_PATH
from .options import output_options, reading_options
from .paths import default_output
from .pretrain_output import print_pretraining, print_pretraining_estimate
from .progress import progress_display, view_pretraining

if TYPE_CHECKING:
    from bertfeat.corpus import CorpusSettings
    from bertfeat.pretraining import PretrainingSettings

SHAPES = ("tiny", "mini", "small", "medium", "base", "large")
OBJECTIVES = ("mlm+nsp", "mlm", "ltr")
_MOST = (1 << 31) - 1  # steps, or epochs


def _settings_class() -> "type[PretrainingSettings]":
    from bertfeat.pretraining import PretrainingSettings

    return PretrainingSettings


learning_options = bundle(
    "settings",
    deferred(_settings_class),
    (
        *("shape", "vocabulary", "cased", "objective", "steps", "epochs", "minutes", "mask", "mask_rate"),
        *(
            "whole_words",
            "max_length",
            "positions",
            "batch_size",
            "learning_rate",
            "held_out",
            "anchor",
            "seed",
            "precision",
        ),
    ),
    option(
        "--shape",
        metavar="NAME|L=N,H=N,A=N",
        show_default="mini",
        help=f"Of a new model: {', '.join(SHAPES)}, or layers, width and attention heads.",
    ),
    option(
        "--vocabulary",
        type=click.IntRange(100, 1 << 24),
        metavar="N",
        show_default="30,000",
        help="Pieces that a new model's vocabulary gets; it is learnt from the corpus.",
    ),
    option("--cased", is_flag=True, further=True, help="A new vocabulary keeps capitals and accents."),
    option(
        "--objective",
        type=click.Choice(OBJECTIVES),
        show_default="mlm+nsp, or mlm with --model",
        help="Masked pieces and next sentences, masked pieces alone, or the next piece (left to right).",
    ),
    option("--minutes", type=float, metavar="M", help="Train as long; the steps are fixed by the speed at the start."),
    option(
        "--epochs", type=click.IntRange(1, (1 << 31) - 1), metavar="N", show_default="1", help="Train N times over."
    ),
    option("--steps", type=click.IntRange(1, _MOST), metavar="N", help="Train so many batches."),
    option(
        "--anchor",
        type=float,
        metavar="W",
        help="With --model: weight of the distance from its old vectors, such as 10.",
    ),
    option(
        "--mask",
        default="80:10:10",
        further=True,
        metavar="M:R:K",
        help="How many in 100 predicted pieces are masked, replaced at random, kept.",
    ),
    option("--mask-rate", type=float, default=0.15, further=True, metavar="SHARE", help="Share of predicted pieces."),
    option("--whole-words", is_flag=True, further=True, help="Predict all pieces of a word or none."),
    option(
        "--max-length",
        type=click.IntRange(8, 1 << 16),
        default=128,
        further=True,
        metavar="N",
        help="Tokens of a sequence, special ones included.",
    ),
    option(
        "--positions",
        type=click.IntRange(8, 1 << 16),
        further=True,
        metavar="N",
        show_default="as --max-length",
        help="Most tokens that a new model can read at once.",
    ),
    option(
        "--batch-size",
        type=click.IntRange(1, 1 << 20),
        default=32,
        further=True,
        metavar="N",
        help="Sequences in a batch.",
    ),
    option(
        "--learning-rate",
        type=float,
        further=True,
        metavar="RATE",
        show_default="1e-3 to 1e-4 by the width, 5e-5 with --model",
        help="The highest; it rises over the first tenth of the steps and falls to 0.",
    ),
    option(
        "--held-out",
        type=float,
        default=0.01,
        further=True,
        metavar="SHARE",
        help="Share of the corpus that the model is scored on and never learns from.",
    ),
    option(
        "--seed",
        type=click.IntRange(min=0),
        default=1,
        further=True,
        metavar="N",
        help="Of the random numbers: another one, another model.",
    ),
    option(
        "--precision",
        type=click.Choice(["auto", "fp32", "bf16"]),
        default="auto",
        further=True,
        help="auto: bf16 where the hardware multiplies it natively, else fp32; weights are fp32 in any case.",
    ),
)
"""How a model is pre-trained; the command gets ``settings``, which makes the ``PretrainingSettings``."""


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
@learning_options
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
    settings: Callable[[], "PretrainingSettings"],
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
    made = settings()
    from bertfeat.pretraining import estimate_pretraining, pretrain_model

    if dry_run:
        estimate = estimate_pretraining(
            sources,
            model=model,
            revision=revision,
            settings=made,
            corpus_settings=reading,
            document_column=document_column,
            device=device,
        )
        print_pretraining_estimate(estimate, console)
        return
    try:
        with progress_display(console, view_pretraining) as progress:
            report = pretrain_model(
                sources,
                folder,
                model=model,
                revision=revision,
                settings=made,
                corpus_settings=reading,
                document_column=document_column,
                device=device,
                checkpoint_minutes=checkpoint_minutes,
                overwrite=overwrite,
                progress=progress,
            )
    except (KeyboardInterrupt, SigtermInterrupt):
        console.say(f"the last checkpoint stays in {folder}; the same command goes on from there")
        raise
    print_pretraining(report, console)


leave_out(command, "keep", "pair_column", "pairs", "id_column", "tag_column", "pretokenized", "document_context")
set_aside(command, "text_columns", "steps")
