"""Verification of saved heads and of Table 7: every byte is read, and the table is derived from its runs again."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bertfeat.arguments import checked
from bertfeat.display import displayed
from bertfeat.errors import HeadError
from bertfeat.io import JsonFormat, read_regular
from bertfeat.learning.head_files import (
    MODEL_NAME,
    RECORD_NAME,
    WEIGHTS_NAME,
    check_tuned_model,
    read_head_record,
    read_head_weights,
)
from bertfeat.learning.inputs import FeaturesState, features_state
from bertfeat.learning.kinds import HeadKind
from bertfeat.learning.table7.results import (
    FORMAT_VERSION,
    MARKDOWN_NAME,
    RESULTS_NAME,
    HeadRuns,
    HeadTable,
    format_head_table,
    read_table_settings,
)
from bertfeat.learning.table7.training import BASELINES

# ── heads ─────────────────────────────────────────────────────────────────────────────────────────────────


@displayed
@dataclass(frozen=True, slots=True)
class HeadVerifyReport:
    """A sound head: what was read, and the state of its features."""

    folder: Path
    format_version: int
    head: HeadKind
    bytes: int  # that were read
    tensors: int
    labels: int
    epochs: int
    features: Mapping[str, FeaturesState]  # of train and dev; those that changed do not make the head unsound


@checked
def verify_head(folder: str | Path) -> HeadVerifyReport:
    """Read every byte of a head, or of a fine-tuned model, against the digests that were recorded of them.

    Features that it was trained on are looked for where they were.

    Raises:
        HeadError: there is no finished head, or a file of it was changed since.
    """
    folder = Path(folder)
    record = read_head_record(folder)
    places, tensors, names = record.places or {}, 0, [RECORD_NAME]
    if record.network is None:  # it was fine-tuned on texts
        check_tuned_model(folder, record)
        names += [f"{MODEL_NAME}/{name}" for name in record.files or {}]
    else:
        tensors = len(read_head_weights(folder, record))
        names.append(WEIGHTS_NAME)
    return HeadVerifyReport(
        folder=folder,
        format_version=record.format_version,
        head=record.kind,
        bytes=sum((folder / name).stat().st_size for name in names),
        tensors=tensors,
        labels=len(record.outputs.labels),
        epochs=len(record.history),
        features={name: features_state(folder, listed, record.data[name]) for name, listed in places.items()},
    )


# ── Table 7 ───────────────────────────────────────────────────────────────────────────────────────────────


@displayed
@dataclass(frozen=True, slots=True)
class Table7VerifyReport:
    """A sound Table 7."""

    folder: Path
    rows: int  # of the table; 0 while it is not finished
    runs: int  # that are kept, those of rows that the table no longer shows, too
    unfinished: int  # trainings that were begun
    features: Mapping[str, FeaturesState]  # of train, dev and test


@checked
def verify_head_table7(folder: str | Path) -> Table7VerifyReport:
    """Read every run of a head's table against its digest, and compare the table with them and with its Markdown.

    Raises:
        HeadError: there is no table, or something of it does not hold.
    """
    folder = Path(folder)
    settings = read_table_settings(folder)
    if settings is None:
        raise HeadError("there is no Table 7 in it", where=folder, remedy=_AGAIN)
    runs = HeadRuns(folder, settings.identity)
    kept = {path.relative_to(runs.folder).with_suffix("").as_posix() for path in runs.folder.glob("*/*.json")}
    for place in kept:
        runs.read(place)
    table = _read_table(folder)
    if table is not None:
        _check_table(folder, table, runs)
    return Table7VerifyReport(
        folder=folder,
        rows=0 if table is None else len(table.rows),
        runs=len(kept),
        unfinished=len(list(runs.folder.glob("*/*.head"))),
        features={
            name: features_state(folder, settings.places.get(name, ()), digest)
            for name, digest in settings.identity.data.items()
        },
    )


def _read_table(folder: Path) -> HeadTable | None:
    table = _TABLE_FORMAT.read(folder / RESULTS_NAME)
    if table is None and (folder / MARKDOWN_NAME).exists():  # which is written after it
        raise HeadError("it is missing", where=folder / RESULTS_NAME, remedy=_AGAIN)
    return table


def _check_table(folder: Path, table: HeadTable, runs: HeadRuns) -> None:
    """Compare a table with the runs that are kept (baselines are not), and with its Markdown."""
    for run in (run for row in table.rows if row.name not in BASELINES for run in row.runs):
        kept = runs.read(run.place)
        if kept != run:
            problem = f"the run {run.place} is {'not there' if kept is None else 'another one'}"
            raise HeadError(problem, where=folder / RESULTS_NAME, remedy=_AGAIN)
    path = folder / MARKDOWN_NAME
    try:
        text = read_regular(path)
    except FileNotFoundError as error:
        raise HeadError("it is missing", where=path, remedy=_AGAIN) from error
    except OSError as error:
        raise HeadError(f"cannot be read ({error})", where=path, remedy=_AGAIN) from error
    if text != format_head_table(table).encode("utf-8", "backslashreplace"):
        raise HeadError(f"it does not show what {RESULTS_NAME} says", where=path, remedy=_AGAIN)


_AGAIN = "run the same table7 command again: what is done is not done again"
_TABLE_FORMAT = JsonFormat(HeadTable, FORMAT_VERSION, error=HeadError, remedy=_AGAIN)
