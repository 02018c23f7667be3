"""The files that finish a feature set: the manifest and the list of failures.

They are derived from the parts and written last; with them a set opens without reading its parts.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from io import BufferedIOBase
from pathlib import Path
from shutil import copyfileobj
from tempfile import SpooledTemporaryFile
from typing import IO

from bertfeat.core.corpus import RESERVED_COLUMNS, Failure, KeptColumn
from bertfeat.core.features.canary import CanaryGroups
from bertfeat.core.features.part import FORMAT_VERSION, Counts, ModelIdentity, PartFooter
from bertfeat.core.features.parts import (
    OTHER_MACHINE,
    RERUN_REMEDY,
    SUCCESSOR,
    PartEntry,
    check_accounting,
    list_part_files,
    list_parts,
    part_entry,
    part_footers,
)
from bertfeat.core.features.schema import KEPT_TYPES
from bertfeat.core.features.sealed_file import REDO_PART
from bertfeat.core.features.settings import FeatureSettings
from bertfeat.core.recipe import FeatureColumn
from bertfeat.errors import DamagedError, FeatureSetError, shell_value
from bertfeat.io import (
    STATE_FOLDER,
    JsonFormat,
    Location,
    create_file,
    file_stamp,
    list_files,
    make_state_folder,
    move_stored,
    open_file,
    remove_stored,
    remove_stored_folder,
    to_plain,
    write_json,
)

_LOOKS = 5
_MANIFEST, _FAILURES = "manifest.json", "failures.jsonl"  # in a state folder
_MANIFEST_NAME = f"{STATE_FOLDER}/{_MANIFEST}"
FAILURES_NAME = f"{STATE_FOLDER}/{_FAILURES}"
WORDS_NAME = f"{STATE_FOLDER}/words.arrow"
"""The file of the word index, which look-ups of words make (:mod:`bertfeat.usages.word_index`)."""

_SPOOLED = 1 << 20  # most bytes of a list of failures that are held in memory, or compared at a time


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
    run: str = ""  # digest of settings, files and their stamps: equal if the same run is started again


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
    successor: Sequence[Location] = (),
) -> Manifest:
    """Finish a feature set: check that the rows of all parts add up, write the failures and, last, the manifest.

    With the parts of a ``successor``, these are written beside them, and the set stays what it is.
    ``sources`` are the current names of the corpus's files (default: those that the parts record). ``times`` (seconds,
    dates), ``versions`` (of bertfeat, torch, …) and the digest of the ``run`` are stored as given.

    Raises:
        FeatureSetError: there is no part; or two parts were made with different settings, or by machines on which the
            model gives different vectors.
        DamagedError: a part is missing or damaged, or rows do not add up.
        StorageError: the folder cannot be written.
    """
    with SpooledTemporaryFile(_SPOOLED) as failures:
        derived = _derive_manifest(folder, failures, successor or None)
        manifest = replace(derived, times=times or {}, versions=versions or {}, run=run)
        manifest = manifest if sources is None else replace(manifest, sources=sources)
        check_accounting(folder, manifest.parts)
        make_state_folder(folder)
        state = folder / (SUCCESSOR if successor else STATE_FOLDER)
        _write_failures(state / _FAILURES, failures)
    write_json(state / _MANIFEST, manifest)
    return manifest


def read_manifest(folder: Location) -> Manifest | None:
    """Read the manifest; None where the set is not finished.

    Raises:
        FeatureSetError: the folder is a file, or the manifest was written by a newer bertfeat.
        DamagedError: the file cannot be read as a manifest, or was changed after it was written.
    """
    if isinstance(folder, Path) and folder.is_file():
        problem, remedy = "this is a file, and a feature set is a folder", "bertfeat extract makes one of a corpus"
        raise FeatureSetError(problem, where=folder, remedy=remedy)
    own, successor = folder / _MANIFEST_NAME, folder / SUCCESSOR / _MANIFEST
    read = _MANIFEST_FORMAT.read
    return read(own) or read(successor) or read(own)  # it may be moved from the one to the other meanwhile


def read_finished(folder: Location) -> tuple[Manifest | None, tuple[PartEntry, ...]]:
    """The manifest of a set, and the parts that it lists; None and none where it is not finished.

    What does not fit is looked at a few times, since a successor may take the set's place meanwhile.

    Raises:
        FeatureSetError, DamagedError: see :func:`read_manifest` and :func:`finished_parts`.
    """
    for tries_left in reversed(range(_LOOKS)):
        manifest = read_manifest(folder)
        if manifest is None:
            break
        try:
            return manifest, finished_parts(folder, manifest)
        except DamagedError:
            if not tries_left:
                raise
    return None, ()


def settle_successor(folder: Location) -> None:
    """Put the successor of a set in its place, if it is whole; what a killed run began is ended. Lock the folder first.

    While its files are moved, readers find each in one of two places (:func:`finished_parts`,
    :class:`bertfeat.core.features.open_parts.OpenParts`).
    """
    state = folder / SUCCESSOR
    try:
        manifest = _MANIFEST_FORMAT.read(state / _MANIFEST)
    except DamagedError:
        manifest = None
    if manifest is None:
        return
    remove_manifest(folder)  # from now on the successor is the set
    listed = {entry.name for entry in manifest.parts}
    for file in list_files(state, "part-"):
        if file.name in listed:
            move_stored(state / file.name, folder / file.name)
    for path in list_parts(folder):
        if path.name not in listed:
            remove_stored(path)
    if file_stamp(state / _FAILURES) is not None:
        move_stored(state / _FAILURES, folder / FAILURES_NAME)
    move_stored(state / _MANIFEST, folder / _MANIFEST_NAME)
    drop_successor(folder)


def remove_manifest(folder: Location) -> None:
    """Mark a set as unfinished: called before the first part is written or removed."""
    for name in (_MANIFEST_NAME, FAILURES_NAME, WORDS_NAME):
        remove_stored(folder / name)


def has_whole_successor(folder: Location) -> bool:
    """Whether a successor of the set is whole, and only has to be put in its place."""
    return file_stamp(folder / SUCCESSOR / _MANIFEST) is not None


def drop_successor(folder: Location) -> None:
    """Remove what was made of a successor that is not wanted any more."""
    remove_stored_folder(folder / SUCCESSOR)


def check_derived(folder: Location, manifest: Manifest, parts: Sequence[Location] | None = None) -> None:
    """Derive the manifest and the list of failures from the parts again, and compare them with the files.

    ``parts`` are where the parts lie (default: all in the folder).

    Raises:
        DamagedError: one of the two differs from what the parts give.
    """
    with SpooledTemporaryFile(_SPOOLED) as failures:
        # as JSON: recipes with different names can compare equal, and the manifest must have the right names
        written, derived = to_plain(manifest), to_plain(_derive_manifest(folder, failures, parts))
        run_fields = ("sources", "times", "versions", "run")  # parts do not have them
        for name in derived:
            if name not in (*run_fields, "format_version") and written[name] != derived[name]:
                raise DamagedError(
                    f"the manifest is not that of the parts, from which it is derived: they differ in {name}",
                    where=folder,
                    remedy=RERUN_REMEDY,
                )
        _check_failures(folder, failures)


def finished_parts(folder: Location, manifest: Manifest) -> tuple[PartEntry, ...]:
    """The parts that the manifest lists, if exactly these are in the folder, each with its listed size.

    Those of a successor that is being put in its place may lie there still, and other parts here.

    Raises:
        DamagedError: a part is missing, changed in size or not listed, or rows do not add up.
    """
    if not manifest.parts:
        raise DamagedError("the manifest lists no parts", where=folder, remedy=RERUN_REMEDY)
    sizes = {file.name: file.stamp.size for file in list_part_files(folder)}
    for entry in manifest.parts:
        if sizes.pop(entry.name, None) != entry.bytes and not _waits(folder, entry):
            raise DamagedError(
                "missing or changed in size since the set was finished", where=folder / entry.name, remedy=REDO_PART
            )
    if sizes and not has_whole_successor(folder):
        raise DamagedError(
            "not one of the parts that the manifest lists", where=folder / min(sizes), remedy="move it elsewhere"
        )
    check_accounting(folder, manifest.parts)
    return manifest.parts


def _waits(folder: Location, entry: PartEntry) -> bool:
    """Whether a part of the successor has not been moved to its place yet."""
    stamp = file_stamp(folder / SUCCESSOR / entry.name)
    return stamp is not None and stamp.size == entry.bytes


def unfinished_parts(folder: Location, *, allowed: bool) -> tuple[PartEntry, ...]:
    """The parts that there are of a set without a manifest; refused unless ``allowed``."""
    footers = part_footers(folder)
    if not allowed:
        first, *more = next(footers).header.sources or ("CORPUS",)
        sources = shell_value(first) + (" …" if more else "")
        raise FeatureSetError(
            f"this feature set is not finished (it has no {_MANIFEST_NAME})",
            where=folder,
            remedy=f"the same command again finishes it: bertfeat extract {sources} -o {shell_value(folder)} … "
            f"(or read what there is so far: FeatureSet(folder, allow_unfinished=True))",
        )
    entries = tuple(part_entry(footer) for footer in footers)
    check_accounting(folder, entries, gaps=True)
    return entries


def kept_columns(footer: PartFooter) -> tuple[KeptColumn, ...]:
    """The columns of the corpus that a part keeps."""
    known = {*RESERVED_COLUMNS, *(column.name for column in footer.header.columns)}
    types = {str(kind): name for name, kind in KEPT_TYPES.items()}
    return tuple(KeptColumn(field.name, types[str(field.type)]) for field in footer.schema if field.name not in known)


def _derive_manifest(folder: Location, failures: IO[bytes], parts: Sequence[Location] | None) -> Manifest:
    """Derive a manifest from the parts, with one header in memory at a time, and write their failures to a file.

    ``parts`` are where they lie (None: all in the folder). Fields that only the run knows stay empty.
    """
    entries, sources, counts, splits = [], {}, Counts(), 0
    groups = CanaryGroups()
    for footer in part_footers(folder, parts):
        entries.append(part_entry(footer))
        groups.add(footer.header.number, footer.header.model.canary)
        failures.writelines(map(_failure_line, footer.header.failures))
        sources.update(dict.fromkeys(footer.header.sources))
        counts += footer.header.counts
        splits += footer.header.split_batches
    if problem := groups.problem():
        raise FeatureSetError(problem, where=folder, remedy=OTHER_MACHINE)
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
    # half of a surrogate pair cannot be encoded as UTF-8; its backslash escape is valid JSON
    return json.dumps(plain, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def _write_failures(place: Location, failures: IO[bytes]) -> None:
    """Write the list of failures; without failures there is no such file."""
    if not failures.tell():
        remove_stored(place)
        return
    failures.seek(0)
    with create_file(place) as new, new.path.open("wb") as file:
        copyfileobj(failures, file)


def _check_failures(folder: Location, failures: IO[bytes]) -> None:
    no_failures = not failures.tell()
    failures.seek(0)
    waiting = folder / SUCCESSOR / _FAILURES
    path = folder / FAILURES_NAME if file_stamp(waiting) is None else waiting
    try:
        with open_file(path) as file:
            same = _are_equal(failures, file)
    except FileNotFoundError:
        same = no_failures  # there is no file then
    except OSError as error:
        raise FeatureSetError(f"cannot be read: {error.strerror or error}", where=path) from error
    if not same:
        raise DamagedError("this is not the list of failures that the parts hold", where=path, remedy=RERUN_REMEDY)


def _are_equal(expected: IO[bytes], file: BufferedIOBase) -> bool:
    """Whether a file has the expected content and no more; it is read in blocks, since a wrong one may be endless."""
    while block := expected.read(_SPOOLED):
        if file.read(len(block)) != block:
            return False
    return not file.read(1)
