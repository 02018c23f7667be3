"""``bertfeat contexts``: join the texts of a corpus into rows of equally many token ids."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bertfeat.contexts import ContextSettings
from bertfeat.core import CorpusSettings, ModelSettings
from bertfeat.errors import ROWS_FAILED, pluralize, shell_spelling, shell_value

from .app import Command, option
from .bundles import settings_options
from .console import Console, escape_controls, progress_display
from .option_types import LOCAL_PATH
from .options import default_output, output_options

if TYPE_CHECKING:
    from bertfeat.contexts import ContextReport


@click.command(cls=Command, name="contexts")
@click.argument("sources", nargs=-1, required=True, metavar="CORPUS...")
@option(
    "-o",
    "--output",
    type=LOCAL_PATH,
    metavar="FILE",
    help="The Parquet file of the rows.",
    show_default="corpus.contexts.parquet for corpus.txt",
)
@settings_options("encoder", ModelSettings, fields=("model", "revision"))
@settings_options("settings", ContextSettings)
@settings_options("reading", CorpusSettings, fields=("text_columns", "id_column", "pretokenized", "format", "encoding"))
@option("--overwrite", is_flag=True, help="Replace a file that is there already.")
@output_options
def command(
    sources: tuple[str, ...],
    output: Path | None,
    encoder: ModelSettings,
    settings: ContextSettings,
    reading: CorpusSettings,
    overwrite: bool,
    console: Console,
) -> None:
    """Join the texts of a corpus into rows of equally many token ids, for a model that reads them without gaps.

    Each text is followed by the model's separator, and what comes out is cut into rows. extract reads them:
    token_ids are given to the model as they are, and documents, which may be kept, says which tokens of a row are of
    which characters of which text. What fills no row at the end is left out, and told.

    \b
    bertfeat contexts corpus.txt --size 128
    bertfeat extract corpus.contexts.parquet --pretokenized --text-column token_ids --keep documents \\
        --layers mlp:3 --pooling token
    """
    from bertfeat.contexts import write_contexts

    with progress_display(console) as progress:
        report = write_contexts(
            sources,
            output or default_output(sources, ".contexts.parquet"),
            settings,
            model=encoder.model,
            revision=encoder.revision,
            corpus_settings=reading,
            overwrite=overwrite,
            progress=progress,
        )
    _print_contexts(report, encoder, console)
    if report.failed:
        raise click.exceptions.Exit(ROWS_FAILED)


def _print_contexts(report: "ContextReport", encoder: ModelSettings, console: Console) -> None:
    """Print what was joined, what was left out, and how the file is read."""
    if report.failed:
        reasons = "".join(f"\n  {failure.reason}" for failure in report.failures)
        console.warn(f"{pluralize(report.failed, 'row')} failed, and went into no context; the first:{reasons}")
    if report.left_over:
        console.say(f"{pluralize(report.left_over, 'token')} at the end fill no row, and are left out")
    chosen = {"model": encoder.model, "revision": encoder.revision}
    named = [shell_spelling(name, str(value)) for name, value in chosen.items() if value is not None]
    file = " ".join([shell_value(report.file), *named])
    console.say(
        f"to read it: bertfeat extract {file} --pretokenized --text-column token_ids --pooling token --keep documents"
    )
    made = f"{pluralize(report.rows, 'row')} of {report.size:,} tokens, {report.documents:,} documents"
    console.result(report, [f"{escape_controls(str(report.file))}: {made}"])
