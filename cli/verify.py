"""``bertfeat verify``: is a feature set, an index or a tagger what it says?"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .app import Command, option
from .bundles import bundle, leave_out
from .command_line import options_on_command_line
from .console import Console, fields_of, format_size, pluralize, two_columns
from .option_types import listed_option
from .options import output_options, reading_options

if TYPE_CHECKING:
    from bertfeat.corpus import CorpusSettings
    from bertfeat.extraction import VerifyReport

NOT_SOUND = 1
SAMPLE = 100


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
        show_default=str(SAMPLE),
        help="Documents of a feature set that are computed again.",
    ),
    option(
        "--bound",
        type=click.FloatRange(-1, 1),
        metavar="C",
        show_default="by the set's precision",
        help="Least cosine of the sample.",
    ),
    listed_option(
        "--corpus", metavar="FILE[,FILE]", help="Where the texts are, if not in the set; read as extract read them."
    ),
    option("--model", metavar="NAME|DIR", further=True, help="Where the set's model is now, if not where it was."),
    option(
        "--device",
        metavar="DEVICE",
        further=True,
        show_default="a GPU if there is one",
        help="Where the sample is computed: cpu, cuda, cuda:1.",
    ),
)


@click.command(cls=Command, name="verify")
@click.argument("folder", metavar="FEATURES|INDEX|TAGGER", type=click.Path(path_type=Path))
@sample_options
@reading_options
@output_options
def command(folder: Path, again: SampleOptions, reading: "CorpusSettings", console: Console) -> None:
    """Check a feature set, an index, a tagger or a Table 7: every byte, and what is derived.

    Of a feature set also the account of its rows, and a sample of its numbers, which is computed again in fp32 from
    the texts. The exit code is 1 where something does not hold.

    \b
    bertfeat verify corpus.features
    bertfeat verify corpus.features --sample 1000 --bound 0.999
    bertfeat verify textless.features --corpus corpus.txt
    bertfeat verify corpus.index
    """
    from bertfeat.errors import StorageError
    from bertfeat.io import ResultKind, result_kind

    kind = result_kind(folder)
    _refuse_unused(again, is_features=kind is ResultKind.FEATURES)
    if kind is ResultKind.INDEX:
        _verify_index(folder, console)
    elif kind is ResultKind.TAGGER:
        _verify_tagger(folder, console)
    elif kind is ResultKind.TABLE7:
        _verify_table7(folder, console)
    elif kind is ResultKind.FEATURES or folder.is_dir():
        _verify_features(folder, again, reading, console)
    else:
        raise StorageError(f"{folder}: no such folder, or a file; give what bertfeat wrote")


leave_out(command, "keep")


def _refuse_unused(again: SampleOptions, *, is_features: bool) -> None:
    """Refuse what is typed and would not be used."""
    typed = options_on_command_line()
    if typed and not is_features:
        raise click.UsageError(f"{typed[0]} is for feature sets, and this is none; leave it out")
    if again.sample == 0 and (useless := [each for each in typed if each != "--sample"]):
        raise click.UsageError(f"{useless[0]} is for the sample, and --sample 0 computes none; leave one out")
    if not again.corpus and (reading := [each for each in typed if each not in _OF_SAMPLES]):
        raise click.UsageError(f"{reading[0]} says how a corpus is read, and goes with --corpus")


_OF_SAMPLES = ("--sample", "--bound", "--model", "--device")


def _verify_features(folder: Path, again: SampleOptions, reading: "CorpusSettings", console: Console) -> None:
    from bertfeat.corpus import open_corpus
    from bertfeat.extraction import verify_features

    texts = open_corpus(again.corpus, reading) if again.corpus else None
    sample = SAMPLE if again.sample is None else again.sample
    report = verify_features(
        folder, corpus=texts, sample=sample, bound=again.bound, model=again.model, device=again.device
    )
    if sample and report.documents and not report.sampled:
        console.warn("the set does not hold its texts, so no number was computed again; give them with --corpus")
    console.result({"kind": "features", "holds": report.holds, **fields_of(report)}, _lines(folder, report))
    if not report.holds and again.corpus:
        first = again.corpus[0]
        console.warn(f"that is also what another corpus looks like: is {first} the one the features were made from?")
    if not report.holds:
        raise click.exceptions.Exit(NOT_SOUND)


def _verify_index(folder: Path, console: Console) -> None:
    from bertfeat.search import verify_index

    found = verify_index(folder)
    for source in found.changed_sources:
        console.warn(f"{source} is not as it was when the index was made from it; bertfeat index makes it anew")
    held = (
        f"{pluralize(found.documents, 'document')} and {pluralize(found.vectors, 'vector')}: digests and numbers hold"
    )
    rows = [
        ("index", folder),
        ("read", f"{format_size(found.bytes)} in {pluralize(found.files, 'file')}"),
        ("sound", held),
    ]
    _tell(console, "index", {name: value for name, value in fields_of(found).items() if name != "settings"}, rows)


def _verify_tagger(folder: Path, console: Console) -> None:
    from bertfeat.tagging import verify_tagger

    found = verify_tagger(folder)
    held = f"{pluralize(found.tensors, 'tensor')}, {pluralize(found.labels, 'label')}: digests, shapes and history hold"
    rows = [("tagger", folder), ("read", format_size(found.bytes)), ("sound", held), *_features_now(found.features)]
    _tell(console, "tagger", fields_of(found), rows)


def _verify_table7(folder: Path, console: Console) -> None:
    from bertfeat.tagging import verify_table7

    found = verify_table7(folder)
    held = f"{pluralize(found.rows, 'row')} of the table, made of {pluralize(found.runs, 'run')}"
    unfinished = f"{found.unfinished:,} trainings" if found.unfinished else None
    rows = [("Table 7", folder), ("sound", held), ("not finished", unfinished), *_features_now(found.features)]
    _tell(console, "table7", fields_of(found), rows)


def _features_now(features: Any) -> list[tuple[str, Any]]:
    return [(f"{name} features", state) for name, state in features.items()]


def _tell(console: Console, kind: str, value: dict[str, Any], rows: list[tuple[str, Any]]) -> None:
    console.result({"kind": kind, "holds": True, **value}, two_columns(rows))


def _lines(folder: Path, report: "VerifyReport") -> list[str]:
    sound = (
        f"{pluralize(report.parts, 'part')} and {pluralize(report.documents, 'document')}: checksums and account hold"
    )
    lines = two_columns([("feature set", folder), ("sound", sound), ("sample", pluralize(report.sampled, "document"))])
    if report.deviations:
        wide = max(len(deviation.column) for deviation in report.deviations)
        lines += [f"{'column':<{wide}}  least cosine  mean cosine  max abs  mean abs"]
    for found in report.deviations:
        cosines = f"{found.min_cosine:12.8f}  {found.mean_cosine:11.8f}"
        lines.append(f"{found.column:<{wide}}  {cosines}  {found.max_absolute:7.1e}  {found.mean_absolute:8.1e}")
    if not report.holds:
        lines.append(f"DOES NOT HOLD: a cosine is below {report.bound}")
    return lines
