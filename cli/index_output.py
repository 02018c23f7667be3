"""The output of ``bertfeat index``: of a build and of an update."""

from typing import TYPE_CHECKING

from bertfeat.display import format_duration, format_size
from bertfeat.errors import pluralize

from .console import Console, two_columns

if TYPE_CHECKING:
    from bertfeat.io import Location
    from bertfeat.search import IndexSettings, RecallReport, UpdateReport, Whitening

SHOWN_UNKNOWN = 5  # ids to remove that are not in the index
_JSON_FIELDS = (
    *("count", "documents", "metric", "type", "factory", "reason", "model", "zero_vectors", "skipped", "transform"),
    *("effort", "evaluation", "query_prompt", "sources", "tokens", "seconds", "versions"),
)


def print_index(settings: "IndexSettings", folder: "Location", console: Console) -> None:
    """Print what was built, with a warning where the recall that was asked for is not reached."""
    evaluation, effort = settings.evaluation, settings.effort
    if evaluation is not None and evaluation.recall.get("10", 1.0) < evaluation.wanted:
        console.warn(_too_little_recall(evaluation, settings.factory))
    if settings.zero_vectors and settings.metric == "cosine":
        console.warn(f"{settings.zero_vectors:,} zero vectors have no direction: their cosine with anything is 0")
    if settings.transform is not None and settings.transform.is_wide_for(settings.count):
        console.warn(too_wide(settings.transform, settings.count))
    rows = [
        ("index", folder),
        ("vectors", f"{settings.count:,} of {settings.width:,} values, {settings.column.name}, {settings.metric}"),
        ("transform", transform_line(settings)),
        ("documents", f"{settings.documents:,}"),
        ("skipped", f"{settings.skipped:,} special tokens and words without a vector" if settings.skipped else None),
        ("tokens", tokens_line(settings)),
        ("type", settings.factory),
        ("why", settings.reason),
        ("effort", f"{effort.name} {effort.value}, {'tuned' if effort.tuned else 'a guess'}" if effort else None),
        ("recall", _recall_and_queries(settings)),
        ("speed", _search_speed(settings)),
        ("size", format_size(sum(file.bytes for file in settings.files.values()))),
        ("time", format_duration(sum(settings.seconds.values()))),
    ]
    fields = {name: getattr(settings, name) for name in _JSON_FIELDS}
    console.result({"folder": folder, "column": settings.column.name, **fields}, two_columns(rows))


def print_update(report: "UpdateReport", folder: "Location", console: Console) -> None:
    """Print what an update added and removed."""
    from bertfeat.io import shorten

    settings = report.settings
    if report.unknown:
        shown = ", ".join(map(shorten, report.unknown[:SHOWN_UNKNOWN]))
        shown += " …" if len(report.unknown) > SHOWN_UNKNOWN else ""
        console.warn(f"{pluralize(len(report.unknown), 'id')} not in the index: {shown}")
    if settings.tombstones:
        console.warn(
            f"an index of type {settings.factory} cannot remove: {settings.tombstones:,} vectors stay in it as "
            f"tombstones, never found, until it is built again"
        )
    vectors = settings.count - settings.tombstones
    rows = [
        ("index", folder),
        ("added", f"{report.added:,} documents" if report.added else None),
        ("removed", f"{report.removed:,} documents"),
        ("vectors", f"{vectors:,}"),
        ("recall", recall_line(settings)),
    ]
    value: dict[str, object] = {"folder": folder, "added": report.added, "removed": report.removed}
    value |= {"unknown": report.unknown, "vectors": vectors, "tombstones": settings.tombstones}
    value |= {"evaluation": settings.evaluation}
    console.result(value, two_columns(rows))


def tokens_line(settings: "IndexSettings") -> str | None:
    """The token vectors that the index keeps; None: none."""
    kept = settings.tokens
    if kept is None:
        return None
    strings = "" if kept.has_strings else ", without the tokens themselves"
    return f"{kept.count:,} of {kept.column.width:,} values, {kept.column.name}, {kept.column.dtype}{strings}"


def recall_line(settings: "IndexSettings") -> str | None:
    """The measured recall, and of which vectors, where those are not the index as it is; None: not measured."""
    measured = settings.evaluation
    if measured is None:
        return None
    shares = ", ".join(f"{share:.3f} at {k}" for k, share in measured.recall.items())
    shares += f", for {measured.of.noun}"
    notes = ["of the transformed vectors"] if measured.transformed else []
    if settings.changed_since_evaluation:
        notes.append(f"at the last build, of {pluralize(measured.vectors, 'vector')}")
    return ", ".join([shares, *notes])


def transform_line(settings: "IndexSettings") -> str | None:
    """The transform of an index and the width that it leaves; None where there is none."""
    transform = settings.transform
    return None if transform is None else f"{transform.kind}, to {transform.width:,} values"


def too_wide(transform: "Whitening", count: int) -> str:
    """The warning about a whitening that so few vectors do not bear."""
    return (
        f"{transform}: {count:,} vectors are few for so many values, and lie nearly equally far from one another when "
        f"whitened in full; give a width, such as whiten:{max(1, count // 10)}, or take half-whiten"
    )


def _too_little_recall(evaluation: "RecallReport", factory: str) -> str:
    """The warning about a recall that is not the wanted one."""
    told = f"recall at 10 is {evaluation.recall['10']:.3f} for {evaluation.of.noun}"
    told += f", less than the wanted {evaluation.wanted}"
    has_codes = "PQ" in factory or "SQ" in factory
    if evaluation.of == "given" and has_codes:
        return f"{told}: this type cannot reach it; choose flat, hnsw or ivf"
    if evaluation.of == "given":
        return f"{told}; tune on more queries, or with a higher --target-recall"
    codes = "quantization loses more of these than of questions: " if has_codes else ""
    return f"{told}; {codes}--queries FILE tells what is found for questions"


def _recall_and_queries(settings: "IndexSettings") -> str:
    if settings.evaluation is None:
        return "not measured"
    return f"{recall_line(settings)} ({settings.evaluation.queries:,} held out)"


def _search_speed(settings: "IndexSettings") -> str | None:
    measured = settings.evaluation
    if measured is None:
        return None
    return (
        f"{measured.queries_per_second:,.0f} queries/s in a batch, exact search "
        f"{measured.exact_queries_per_second:,.0f} ({measured.threads} threads)"
    )
