"""``bertfeat info``: what a feature set, an index, a model or a corpus is."""

from typing import TYPE_CHECKING

import click

from .app import Command, option
from .bundles import on_command_line
from .console import Console, two_columns
from .info_output import describe_corpus, describe_installation, describe_model, describe_result
from .options import output_options, reading_options, refuse_reading_options

if TYPE_CHECKING:
    from bertfeat.corpus import CorpusSettings
    from bertfeat.io import Location


@click.command(cls=Command, name="info")
@click.argument("thing", metavar="[PATH|MODEL]", required=False)
@option("--revision", metavar="REV", help="The hub's branch, tag or commit of a model.")
@reading_options
@output_options
def command(thing: str | None, revision: str | None, reading: "CorpusSettings", console: Console) -> None:
    """Show what a feature set, index, tagger, head, model or corpus is, or what is installed.

    A corpus is read to its end and counted. What is not a path is taken for a model's name. Without an argument:
    versions, kernels, hardware, the default model.

    \b
    bertfeat info
    bertfeat info corpus.features
    bertfeat info s3://bucket/corpus.features
    bertfeat info sentence-transformers/all-MiniLM-L6-v2
    bertfeat info news.jsonl.gz --text-column title,body
    """
    from bertfeat.io import as_location, result_kind

    place = as_location(thing) if thing else None
    kind = result_kind(place) if place is not None else None
    is_corpus = place is not None and kind is None and _is_corpus(place)
    is_model = thing is not None and kind is None and not is_corpus
    if not is_corpus:
        refuse_reading_options("and this is none")
    if on_command_line("revision") and not is_model:
        raise click.UsageError("--revision goes with a model's name, and this is none")
    if thing is None:
        description = describe_installation()
    elif place is not None and kind is not None:
        description = describe_result(kind, place)
    elif is_corpus:
        description = describe_corpus(thing, reading)
    else:
        description = describe_model(thing, revision)
    console.result(description.value, two_columns(description.rows))


def _is_corpus(place: "Location") -> bool:
    """Whether there is something at the path, and not the folder of a model; models are never at addresses."""
    from bertfeat.io import Address

    return isinstance(place, Address) or (place.exists() and not (place / "config.json").exists())
