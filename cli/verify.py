"""``bertfeat verify``: check that a feature set, an index, a head, a Table 7 or a pre-trained model is undamaged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import click

from bertfeat.core import CorpusSettings
from bertfeat.display import format_size
from bertfeat.errors import StorageError, UsageError, pluralize
from bertfeat.options import Option, check_bounds

from .app import Command
from .bundles import option_names, options_on_command_line, settings_options
from .console import Console, fields_of, two_columns
from .info import local_result
from .option_types import LOCATION
from .options import output_options, refuse_reading_options

if TYPE_CHECKING:
    from bertfeat.core import VerifyReport
    from bertfeat.io import Location
    from bertfeat.learning import HeadVerifyReport, Table7VerifyReport
    from bertfeat.pretraining import PretrainedVerifyReport
    from bertfeat.search import IndexReport


# what is kept beside the features is not compared, and how texts were split is recorded
_READING = [name for name in option_names(CorpusSettings) if name not in ("keep", "metadata", "split", "tag_column")]


@dataclass(slots=True)
class SampleOptions:
    """The sample of features that is computed again."""

    sample: Annotated[
        int | None,
        Option("Documents of a feature set that are computed again.", default="100", basic=True, least=0),
    ] = None
    corpus: Annotated[
        tuple[str, ...],
        Option(
            "The corpus, if the set does not hold its texts; give the same reading options as to extract.",
            metavar="FILE[,FILE]",
            basic=True,
        ),
    ] = ()
    model: Annotated[str | None, Option("The set's model, if it was moved.", metavar="NAME|DIR")] = None
    device: Annotated[
        str | None,
        Option(
            "Device that computes the sample: cpu, cuda, cuda:1.",
            default="a GPU if there is one",
            metavar="DEVICE",
        ),
    ] = None

    def __post_init__(self) -> None:
        check_bounds(self)


@click.command(cls=Command, name="verify")
@click.argument("folder", metavar="FEATURES|INDEX|HEAD|MODEL", type=LOCATION)
@settings_options("again", SampleOptions)
@settings_options("reading", CorpusSettings, fields=_READING)
@output_options
def command(folder: "Location", again: SampleOptions, reading: CorpusSettings, console: Console) -> None:
    """Check a feature set, an index, a head, a Table 7 or a model: every byte, and derived values.

    In a feature set the counts of its rows are checked too, and a sample of its features is computed again in fp32
    from the texts. The exit code is 1 if a check fails.

    \b
    bertfeat verify corpus.features
    bertfeat verify corpus.features --sample 1000
    bertfeat verify textless.features --corpus corpus.txt
    bertfeat verify s3://bucket/corpus.index
    """
    from bertfeat.io import Address, ResultKind, result_kind

    kind = result_kind(folder)
    _check_verify_options(again, is_features=kind is ResultKind.FEATURES)
    if kind is ResultKind.INDEX:
        from bertfeat.search import verify_index

        _print_index_check(verify_index(folder), folder, console)
    elif kind is ResultKind.TABLE7:
        from bertfeat.learning import verify_head_table7

        _print_table7_check(verify_head_table7(local_result(kind, folder)), folder, console)
    elif kind is ResultKind.MODEL:
        from bertfeat.pretraining import verify_pretrained

        _print_pretrained_check(verify_pretrained(local_result(kind, folder)), folder, console)
    elif kind is ResultKind.HEAD:
        from bertfeat.learning import verify_head

        _print_head_check(verify_head(local_result(kind, folder)), folder, console)
    elif kind is None and not isinstance(folder, Address) and (folder / "config.json").exists():
        problem = "this is a model that bertfeat did not train, so no digest of its files is recorded"
        raise UsageError(problem, where=folder, remedy="bertfeat info shows what it is")
    elif kind is ResultKind.FEATURES or isinstance(folder, Address) or folder.is_dir():
        _verify_feature_set(folder, again, reading, console)
    else:
        raise StorageError("no such folder, or a file", where=folder, remedy="name a folder that bertfeat wrote")


def _verify_feature_set(folder: "Location", again: SampleOptions, reading: CorpusSettings, console: Console) -> None:
    from bertfeat.core import verify_features

    sample = {} if again.sample is None else {"sample": again.sample}
    report = verify_features(
        folder,
        corpus=again.corpus or None,
        corpus_settings=reading,
        model=again.model,
        device=again.device,
        **sample,
    )
    if again.sample != 0 and report.documents and not report.sampled:
        console.warn("the set does not hold its texts, so no number was computed again; give them with --corpus")
    _print_features_check(report, folder, console)
    if report.holds:
        return
    if again.corpus:
        first = again.corpus[0]
        console.warn(f"another corpus would also fail: is {first} the one that the features were made from?")
    raise click.exceptions.Exit(1)


def _check_verify_options(again: SampleOptions, *, is_features: bool) -> None:
    """Refuse options on the command line that would not be used."""
    options = options_on_command_line()
    if options and not is_features:
        raise click.UsageError(f"{options[0]} is for feature sets, and this is none; leave it out")
    if again.sample == 0 and (unused := [option for option in options if option != "--sample"]):
        raise click.UsageError(f"{unused[0]} is for the sample, and --sample 0 computes none; leave one out")
    if not again.corpus:
        refuse_reading_options("and goes with --corpus")


def _print_index_check(report: "IndexReport", folder: "Location", console: Console) -> None:
    """Print what was checked of an index, and warn where its features changed."""
    for source in report.changed_sources:
        changed = f"{source} is not as it was when the index was made from it"
        console.warn(f"{changed}; bring it up to date: {report.update_command}")
    contents = f"{pluralize(report.documents, 'document')} and {pluralize(report.vectors, 'vector')}"
    rows = [
        ("index", folder),
        ("read", f"{format_size(report.bytes)} in {pluralize(report.files, 'file')}"),
        ("sound", f"{contents}: digests and numbers hold"),
    ]
    _print_sound(
        "index", {name: value for name, value in fields_of(report).items() if name != "settings"}, rows, console
    )


def _print_head_check(report: "HeadVerifyReport", folder: "Location", console: Console) -> None:
    """Print what was checked of a head."""
    labels = f", {pluralize(report.labels, 'label')}" if report.labels else ""
    checked = f"{pluralize(report.tensors, 'tensor')}{labels}: digests hold"
    rows = [
        ("head", f"{folder}: {report.head.noun}"),
        ("read", format_size(report.bytes)),
        ("sound", checked if report.tensors else "its record; of a fine-tuned model no more is read"),
        *_features_rows(report.features),
    ]
    _print_sound("head", fields_of(report), rows, console)


def _print_pretrained_check(report: "PretrainedVerifyReport", folder: "Location", console: Console) -> None:
    """Print what was checked of a pre-trained model."""
    rows = [
        ("model", folder),
        ("read", f"{format_size(report.bytes)} in {pluralize(report.files, 'file')}"),
        ("sound", f"trained for {pluralize(report.steps, 'step')}: the digests of all files hold"),
    ]
    _print_sound("model", fields_of(report), rows, console)


def _print_table7_check(report: "Table7VerifyReport", folder: "Location", console: Console) -> None:
    """Print what was checked of a Table 7."""
    rows = [
        ("Table 7", folder),
        ("sound", f"{pluralize(report.rows, 'row')} of the table, made of {pluralize(report.runs, 'run')}"),
        ("not finished", f"{report.unfinished:,} trainings" if report.unfinished else None),
        *_features_rows(report.features),
    ]
    _print_sound("table7", fields_of(report), rows, console)


def _features_rows(states: Mapping[str, str]) -> list[tuple[str, object]]:
    """Format the states of the feature sets that a result was made from, as names and values."""
    return [(f"{name} features", state) for name, state in states.items()]


def _print_sound(kind: str, value: dict[str, object], rows: Sequence[tuple[str, object]], console: Console) -> None:
    console.result({"kind": kind, "holds": True, **value}, two_columns(rows))


def _print_features_check(report: "VerifyReport", folder: "Location", console: Console) -> None:
    """Print what was checked of a feature set, and how far each column of the sample deviates."""
    contents = f"{pluralize(report.parts, 'part')} and {pluralize(report.documents, 'document')}"
    rows = [
        ("feature set", folder),
        ("sound", f"{contents}: checksums and account hold"),
        ("sample", pluralize(report.sampled, "document")),
    ]
    value = {"kind": "features", "holds": report.holds, **fields_of(report)}
    console.result(value, [*two_columns(rows), *_deviation_lines(report)])


def _deviation_lines(report: "VerifyReport") -> list[str]:
    lines = []
    if report.deviations:
        width = max(len(deviation.column) for deviation in report.deviations)
        below = f"below {report.deviations[0].FAR}"
        lines.append(
            f"{'column':<{width}}  least cosine  mean cosine  max abs  mean abs  vectors  least of one  {below}"
        )
        for deviation in report.deviations:
            cosines = f"{deviation.min_cosine:12.8f}  {deviation.mean_cosine:11.8f}"
            errors = f"{deviation.max_absolute:7.1e}  {deviation.mean_absolute:8.1e}"
            singles = f"{deviation.vectors:7,}  {deviation.least_of_one:12.5f}  {deviation.below:{len(below)},}"
            lines.append(f"{deviation.column:<{width}}  {cosines}  {errors}  {singles}")
    if not report.holds:
        lines.append(f"DOES NOT HOLD: a cosine is below {report.bound}")
    return lines
