"""The output of ``bertfeat verify`` for each kind of result that is sound."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bertfeat.display import format_size
from bertfeat.errors import pluralize

from .console import Console, fields_of, two_columns

if TYPE_CHECKING:
    from bertfeat.extraction import VerifyReport
    from bertfeat.io import Location
    from bertfeat.learning import HeadVerifyReport, Table7VerifyReport
    from bertfeat.pretraining import PretrainedVerifyReport
    from bertfeat.search import IndexReport


def print_index_check(report: "IndexReport", folder: "Location", console: Console) -> None:
    """Print what was checked of an index, and warn where its features changed."""
    for source in report.changed_sources:
        console.warn(f"{source} is not as it was when the index was made from it; bertfeat index makes it anew")
    contents = f"{pluralize(report.documents, 'document')} and {pluralize(report.vectors, 'vector')}"
    rows = [
        ("index", folder),
        ("read", f"{format_size(report.bytes)} in {pluralize(report.files, 'file')}"),
        ("sound", f"{contents}: digests and numbers hold"),
    ]
    _print_sound(
        "index", {name: value for name, value in fields_of(report).items() if name != "settings"}, rows, console
    )


def print_head_check(report: "HeadVerifyReport", folder: "Location", console: Console) -> None:
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


def print_pretrained_check(report: "PretrainedVerifyReport", folder: "Location", console: Console) -> None:
    """Print what was checked of a pre-trained model."""
    rows = [
        ("model", folder),
        ("read", f"{format_size(report.bytes)} in {pluralize(report.files, 'file')}"),
        ("sound", f"trained for {pluralize(report.steps, 'step')}: the digests of all files hold"),
    ]
    _print_sound("model", fields_of(report), rows, console)


def print_table7_check(report: "Table7VerifyReport", folder: "Location", console: Console) -> None:
    """Print what was checked of a Table 7."""
    rows = [
        ("Table 7", folder),
        ("sound", f"{pluralize(report.rows, 'row')} of the table, made of {pluralize(report.runs, 'run')}"),
        ("not finished", f"{report.unfinished:,} trainings" if report.unfinished else None),
        *_features_rows(report.features),
    ]
    _print_sound("table7", fields_of(report), rows, console)


def _features_rows(states: Mapping[str, str]) -> list[tuple[str, object]]:
    """The states of the feature sets that a result was made from."""
    return [(f"{name} features", state) for name, state in states.items()]


def _print_sound(kind: str, value: dict[str, object], rows: Sequence[tuple[str, object]], console: Console) -> None:
    console.result({"kind": kind, "holds": True, **value}, two_columns(rows))


def print_features_check(report: "VerifyReport", folder: "Location", console: Console) -> None:
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
        lines.append(f"{'column':<{width}}  least cosine  mean cosine  max abs  mean abs")
        for deviation in report.deviations:
            cosines = f"{deviation.min_cosine:12.8f}  {deviation.mean_cosine:11.8f}"
            errors = f"{deviation.max_absolute:7.1e}  {deviation.mean_absolute:8.1e}"
            lines.append(f"{deviation.column:<{width}}  {cosines}  {errors}")
    if not report.holds:
        lines.append(f"DOES NOT HOLD: a cosine is below {report.bound}")
    return lines
