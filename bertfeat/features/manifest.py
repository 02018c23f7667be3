"""The manifest and the list of failures: derived from the parts and written last, so that a set opens quickly."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from io import BufferedIOBase
from pathlib import Path
from shutil import copyfileobj
from tempfile import SpooledTemporaryFile
from typing import IO

from bertfeat.corpus import RESERVED_COLUMNS, Failure, KeptColumn
from bertfeat.errors import DamagedError, FeatureSetError
from bertfeat.features.header import FORMAT_VERSION, Counts, ModelIdentity
from bertfeat.features.part import PartFooter
from bertfeat.features.parts import (
    RERUN_REMEDY,
    PartEntry,
    check_accounting,
    list_part_files,
    part_entry,
    part_footers,
)
from bertfeat.features.schema import KEPT_TYPES
from bertfeat.features.seal import REDO_PART
from bertfeat.features.settings import FeatureSettings
from bertfeat.features.shard_record import SHARD_NAME, refuse_shard
from bertfeat.io import (
    STATE_FOLDER,
    JsonFormat,
    Location,
    create_file,
    make_state_folder,
    open_file,
    remove_stored,
    to_plain,
    write_json,
)
from bertfeat.recipe import FeatureColumn

MANIFEST_NAME = f"{STATE_FOLDER}/manifest.json"
FAILURES_NAME = f"{STATE_FOLDER}/failures.jsonl"

_KEPT_NAMES = {str(kind): name for name, kind in KEPT_TYPES.items()}
_RUN_FIELDS = ("sources", "times", "versions", "run")  # known to the run only, and to no part
_SPOOLED = 1 << 20  # bytes of a list of failures that is held in memory
_COMPARED = 1 << 20  # bytes of it that are compared at once


@dataclass(frozen=True, slots=True)
class Manifest:
    """The description of a finished feature set."""

    format_version: int
    settings: FeatureSettings
    fingerprint: str
    model: ModelIdentity
    columns: tuple[FeatureColumn, ...]
    kept: tuple[KeptColumn, ...]
    sources: tuple[str, ...]
    rows: int  # of the corpus: documents, failed and blank
    counts: Counts
    failed: int
    blank: int
    split_batches: int
    times: Mapping[str, object]
    versions: Mapping[str, str]
    parts: tuple[PartEntry, ...]
    run: str = ""  # digest of settings, files and their stamps, by which a run over the same is recognized


_MANIFEST_FORMAT = JsonFormat(
    Manifest,
    FORMAT_VERSION,
    error=DamagedError,
    refusal=FeatureSetError,
    remedy="run the same extract command again: it writes a new one",
)


def write_manifest(
    folder: Location,
    *,
    sources: tuple[str, ...] | None = None,
    times: Mapping[str, object] | None = None,
    versions: Mapping[str, str] | None = None,
    run: str = "",
) -> Manifest:
    """Finish a feature set: check the account over all parts, write the failures and, last, the manifest.

    ``sources`` are the names of the corpus's files now (default: those recorded in the parts). ``times`` (seconds,
    dates), ``versions`` (of bertfeat, torch, …) and the digest of the ``run`` are stored as given.

    Raises:
        FeatureSetError: there is no part; or two parts were made with different settings.
        DamagedError: a part is missing or damaged, or rows do not add up.
        StorageError: the folder cannot be written.
    """
    with SpooledTemporaryFile(_SPOOLED) as failures:
        manifest = replace(_derive_manifest(folder, failures), times=times or {}, versions=versions or {}, run=run)
        manifest = manifest if sources is None else replace(manifest, sources=sources)
        check_accounting(folder, manifest.parts)
        make_state_folder(folder)
        _write_failures(folder, failures)
    write_json(folder / MANIFEST_NAME, manifest)
    remove_stored(folder / SHARD_NAME)
    return manifest


def read_manifest(folder: Location) -> Manifest | None:
    """Read the manifest; None where the set is not finished.

    Raises:
        FeatureSetError: written by a newer bertfeat.
        DamagedError: cannot be read as a manifest, or was changed after it was written.
    """
    if isinstance(folder, Path) and folder.is_file():
        problem, remedy = "this is a file, and a feature set is a folder", "bertfeat extract makes one of a corpus"
        raise FeatureSetError(problem, where=folder, remedy=remedy)
    return _MANIFEST_FORMAT.read(folder / MANIFEST_NAME)


def remove_manifest(folder: Location) -> None:
    """Mark a set as unfinished: called before the first part is written or removed."""
    for name in (MANIFEST_NAME, FAILURES_NAME, SHARD_NAME):
        remove_stored(folder / name)


def check_derived(folder: Location, manifest: Manifest) -> None:
    """Derive the manifest and the list of failures from the parts again, and compare them with the files.

    Raises:
        DamagedError: one of the two differs from what the parts give.
    """
    with SpooledTemporaryFile(_SPOOLED) as failures:
        # as JSON: two recipes are equal whatever their names, but the manifest has their names too
        written, derived = to_plain(manifest), to_plain(_derive_manifest(folder, failures))
        for name in derived:
            if name not in (*_RUN_FIELDS, "format_version") and written[name] != derived[name]:
                raise DamagedError(
                    f"the manifest is not that of the parts, from which it is derived: they differ in {name}",
                    where=folder,
                    remedy=RERUN_REMEDY,
                )
        _check_failures(folder, failures)


def finished_parts(folder: Location, manifest: Manifest) -> tuple[PartEntry, ...]:
    """The parts that the manifest lists, when those and no others are there, in the listed sizes.

    Raises:
        DamagedError: a part is missing, changed in size or not listed, or rows do not add up.
    """
    if not manifest.parts:
        raise DamagedError("the manifest lists no parts", where=folder, remedy=RERUN_REMEDY)
    sizes = {file.name: file.stamp.size for file in list_part_files(folder)}
    for entry in manifest.parts:
        if sizes.pop(entry.name, None) != entry.bytes:
            raise DamagedError(
                "missing or changed in size since the set was finished", where=folder / entry.name, remedy=REDO_PART
            )
    if sizes:
        raise DamagedError(
            "not one of the parts that the manifest lists", where=folder / min(sizes), remedy="move it elsewhere"
        )
    check_accounting(folder, manifest.parts)
    return manifest.parts


def unfinished_parts(folder: Location, *, allowed: bool) -> tuple[PartEntry, ...]:
    """The parts of a set without manifest, some of which may be missing, if it is ``allowed`` to read them.

    Raises:
        FeatureSetError: it is not, or there are no parts of one feature set.
        DamagedError: a part is damaged, or rows do not add up.
    """
    footers = part_footers(folder)
    if not allowed:
        refuse_shard(folder)
        first, *more = next(footers).header.sources or ("CORPUS",)
        sources = f"{first} …" if more else first
        raise FeatureSetError(
            f"this feature set is not finished (it has no {MANIFEST_NAME})",
            where=folder,
            remedy=f"the same command again finishes it: bertfeat extract {sources} -o {folder} … "
            f"(or read what there is so far: FeatureSet(folder, allow_unfinished=True))",
        )
    entries = tuple(part_entry(footer) for footer in footers)
    check_accounting(folder, entries, gaps=True)
    return entries


def kept_columns(footer: PartFooter) -> tuple[KeptColumn, ...]:
    """The corpus's own columns in a part."""
    known = {*RESERVED_COLUMNS, *(column.name for column in footer.header.columns)}
    return tuple(
        KeptColumn(field.name, _KEPT_NAMES[str(field.type)]) for field in footer.schema if field.name not in known
    )


def _derive_manifest(folder: Location, failures: IO[bytes]) -> Manifest:
    """Add up the parts, one header in memory at a time, and list the failures.

    Fields that only a run knows stay empty.
    """
    entries, sources, counts, splits = [], {}, Counts(), 0
    for footer in part_footers(folder):
        entries.append(part_entry(footer))
        failures.writelines(map(_failure_line, footer.header.failures))
        sources.update(dict.fromkeys(footer.header.sources))
        counts += footer.header.counts
        splits += footer.header.split_batches
    return Manifest(
        format_version=FORMAT_VERSION,
        settings=footer.header.settings,
        fingerprint=footer.header.fingerprint,
        model=footer.header.model,
        columns=footer.header.columns,
        kept=kept_columns(footer),
        sources=tuple(sources),
        rows=entries[-1].last_row,
        counts=counts,
        failed=sum(part.failed for part in entries),
        blank=sum(part.blank for part in entries),
        split_batches=splits,
        times={},
        versions={},
        parts=tuple(entries),
    )


# ── failures ────────────────────────────────────────────────────────────────────────────────────────────────


def _failure_line(failure: Failure) -> bytes:
    plain = {name: value for name, value in to_plain(failure).items() if name != "value" or value}
    # a lone surrogate has no UTF-8 form, but its backslash form is JSON
    return json.dumps(plain, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def _write_failures(folder: Location, failures: IO[bytes]) -> None:
    """Write the list of failures; where there are none there is no list."""
    if not failures.tell():
        remove_stored(folder / FAILURES_NAME)
        return
    failures.seek(0)
    with create_file(folder / FAILURES_NAME) as new, new.path.open("wb") as file:
        copyfileobj(failures, file)


def _check_failures(folder: Location, failures: IO[bytes]) -> None:
    are_none = not failures.tell()
    failures.seek(0)
    path = folder / FAILURES_NAME
    try:
        with open_file(path) as file:
            same = _are_equal(failures, file)
    except FileNotFoundError:
        same = are_none
    except OSError as error:
        raise FeatureSetError(f"cannot be read: {error.strerror or error}", where=path) from error
    if not same:
        raise DamagedError("this is not the list of failures that the parts hold", where=path, remedy=RERUN_REMEDY)


def _are_equal(right: IO[bytes], file: BufferedIOBase) -> bool:
    """Whether a file has the right content and no more; a wrong one may be endless."""
    while block := right.read(_COMPARED):
        if file.read(len(block)) != block:
            return False
    return not file.read(1)
