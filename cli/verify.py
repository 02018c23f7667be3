"""``bertfeat verify``: is a feature set, an index, a tagger or a head what it says?"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from bertfeat.errors import StorageError, UsageError

from .app import Command, option
from .bundles import bundle, leave_out
from .command_line import options_on_command_line
from .console import Console
from .info_output import local_result
from .option_types import LOCATION, listed_option
from .options import output_options, reading_options, refuse_reading_options
from .verify_output import (
    print_features_check,
    print_head_check,
    print_index_check,
    print_table7_check,
    print_tagger_check,
)

if TYPE_CHECKING:
    from bertfeat.corpus import CorpusSettings
    from bertfeat.io import Location

NOT_SOUND = 1


@dataclass(frozen=True, slots=True)
class SampleOptions:
    """How a sample of features is computed again."""

    sample: int | None
    bound: float | None
    corpus: tuple[str, ...]
    model: str | None
    device: str | None


sample_options = bundle(
    "again",
    SampleOptions,
    ("sample", "bound", "corpus", "model", "device"),
    option(
        "--sample",
        type=click.IntRange(min=0),
        metavar="N",
        show_default="100",
        help="Documents of a feature set that are computed again.",
    ),
    option(
        "--bound",
        type=click.FloatRange(-1, 1),
        metavar="C",
        show_default="by the set's precision",
        help="Least accepted cosine of the sample.",
    ),
    listed_option(
        "--corpus",
        metavar="FILE[,FILE]",
        help="The corpus, if the set does not hold its texts; give the same reading options as to extract.",
    ),
    option("--model", metavar="NAME|DIR", further=True, help="The set's model, if it was moved."),
    option(
        "--device",
        metavar="DEVICE",
        further=True,
        show_default="a GPU if there is one",
        help="Device that computes the sample: cpu, cuda, cuda:1.",
    ),
)


@click.command(cls=Command, name="verify")
@click.argument("folder", metavar="FEATURES|INDEX|TAGGER|HEAD", type=LOCATION)
@sample_options
@reading_options
@output_options
def command(folder: "Location", again: SampleOptions, reading: "CorpusSettings", console: Console) -> None:
    """Check a feature set, an index, a tagger, a head or a Table 7: every byte, and what is derived.

    In a feature set the counts of its rows are checked too, and a sample of its features is computed again in fp32
    from the texts. The exit code is 1 if a check fails.

    \b
    bertfeat verify corpus.features
    bertfeat verify corpus.features --sample 1000 --bound 0.999
    bertfeat verify textless.features --corpus corpus.txt
    bertfeat verify s3://bucket/corpus.index
    """
    from bertfeat.io import Address, ResultKind, result_kind

    kind = result_kind(folder)
    _check_verify_options(again, is_features=kind is ResultKind.FEATURES)
    if kind is ResultKind.INDEX:
        from bertfeat.search import verify_index

        print_index_check(verify_index(folder), folder, console)
    elif kind is ResultKind.TAGGER:
        from bertfeat.tagging import verify_tagger

        print_tagger_check(verify_tagger(local_result(kind, folder)), folder, console)
    elif kind is ResultKind.TABLE7:
        from bertfeat.heads import is_head_table, verify_head_table7
        from bertfeat.tagging import verify_table7

        place = local_result(kind, folder)
        check = verify_head_table7 if is_head_table(place) else verify_table7
        print_table7_check(check(place), folder, console)
    elif kind is ResultKind.MODEL:
        raise UsageError("this is a model, of which nothing is stored that could be verified", where=folder)
    elif kind is ResultKind.HEAD:
        from bertfeat.heads import verify_head

        print_head_check(verify_head(local_result(kind, folder)), folder, console)
    elif kind is ResultKind.FEATURES or isinstance(folder, Address) or folder.is_dir():
        _verify_feature_set(folder, again, reading, console)
    else:
        raise StorageError("no such folder, or a file", where=folder, remedy="give what bertfeat wrote")


leave_out(command, "keep")


def _verify_feature_set(folder: "Location", again: SampleOptions, reading: "CorpusSettings", console: Console) -> None:
    from bertfeat.extraction import verify_features

    sample = {} if again.sample is None else {"sample": again.sample}
    report = verify_features(
        folder,
        corpus=again.corpus or None,
        corpus_settings=reading,
        bound=again.bound,
        model=again.model,
        device=again.device,
        **sample,
    )
    if again.sample != 0 and report.documents and not report.sampled:
        console.warn("the set does not hold its texts, so no number was computed again; give them with --corpus")
    print_features_check(report, folder, console)
    if report.holds:
        return
    if again.corpus:
        first = again.corpus[0]
        console.warn(f"that is also what another corpus looks like: is {first} the one the features were made from?")
    raise click.exceptions.Exit(NOT_SOUND)


def _check_verify_options(again: SampleOptions, *, is_features: bool) -> None:
    """Refuse options on the command line that would not be used."""
    options = options_on_command_line()
    if options and not is_features:
        raise click.UsageError(f"{options[0]} is for feature sets, and this is none; leave it out")
    if again.sample == 0 and (unused := [option for option in options if option != "--sample"]):
        raise click.UsageError(f"{unused[0]} is for the sample, and --sample 0 computes none; leave one out")
    if not again.corpus:
        refuse_reading_options("and goes with --corpus")
