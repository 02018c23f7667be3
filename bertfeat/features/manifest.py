"""The manifest and the list of failures: derived from the parts and written last, so that a set opens quickly."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bertfeat.corpus import RESERVED_COLUMNS, Failure, KeptColumn
from bertfeat.errors import DamagedError, FeatureSetError
from bertfeat.features.header import FORMAT_VERSION, Counts, ModelIdentity
from bertfeat.features.part import PartFooter
from bertfeat.features.parts import RERUN_REMEDY, PartEntry, check_accounting, list_parts, part_entry, part_footers
from bertfeat.features.schema import KEPT_TYPES
from bertfeat.features.seal import REDO_PART
from bertfeat.features.settings import FeatureSettings
from bertfeat.io import (
    STATE_FOLDER,
    JsonFormat,
    atomic,
    make_state_folder,
    open_regular,
    remove_file,
    to_plain,
    write_json,
)
from bertfeat.recipe import FeatureColumn

MANIFEST_NAME = f"{STATE_FOLDER}/manifest.json"
FAILURES_NAME = f"{STATE_FOLDER}/failures.jsonl"
OLD_MANIFEST_NAME, OLD_FAILURES_NAME = "_manifest.json", "_failures.jsonl"  # of sets from before the state folder

_KEPT_NAMES = {str(kind): name for name, kind in KEPT_TYPES.items()}
_RUN_FIELDS = ("sources", "times", "versions")  # known to the run only, and to no part


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


_MANIFEST_FORMAT = JsonFormat(
    Manifest,
    FORMAT_VERSION,
    error=DamagedError,
    refusal=FeatureSetError,
    remedy="run the same extract command again: it writes a new one",
    digest_from=0,
)
_OLD_MANIFEST_FORMAT = replace(_MANIFEST_FORMAT, digest_from=None)  # which a set keeps until it is changed


def write_manifest(
    folder: Path,
    *,
    sources: tuple[str, ...] | None = None,
    times: Mapping[str, object] | None = None,
    versions: Mapping[str, str] | None = None,
) -> Manifest:
    """Finish a feature set: check the account over all parts, write the failures and, last, the manifest.

    ``sources`` are the names of the corpus's files now (default: those recorded in the parts). ``times`` (seconds,
    dates) and ``versions`` (of bertfeat, torch, …) are stored as given.

    Raises:
        FeatureSetError: there is no part; or two parts were made with different settings.
        DamagedError: a part is missing or damaged, or rows do not add up.
        StorageError: the folder cannot be written.
    """
    manifest = replace(derived_manifest(folder), times=times or {}, versions=versions or {})
    manifest = manifest if sources is None else replace(manifest, sources=sources)
    check_accounting(folder, manifest.parts)
    make_state_folder(folder)
    _write_failures(folder)
    write_json(folder / MANIFEST_NAME, manifest)
    for name in (OLD_MANIFEST_NAME, OLD_FAILURES_NAME):
        remove_file(folder / name)
    return manifest


def read_manifest(folder: Path) -> Manifest | None:
    """Read the manifest; None where the set is not finished.

    Raises:
        FeatureSetError: written by a newer bertfeat.
        DamagedError: cannot be read as a manifest, or was changed after it was written.
    """
    for name, form in ((MANIFEST_NAME, _MANIFEST_FORMAT), (OLD_MANIFEST_NAME, _OLD_MANIFEST_FORMAT)):
        try:
            return form.read(folder / name)
        except FileNotFoundError:
            continue
        except NotADirectoryError as error:
            raise FeatureSetError(
                "this is a file, and a feature set is a folder",
                where=folder,
                remedy="bertfeat extract makes one of a corpus",
            ) from error
    return None


def remove_manifest(folder: Path) -> None:
    """Mark a set as unfinished: called before the first part is written or removed."""
    for name in (MANIFEST_NAME, FAILURES_NAME, OLD_MANIFEST_NAME, OLD_FAILURES_NAME):
        remove_file(folder / name)


def check_derived(folder: Path, manifest: Manifest) -> None:
    """Derive the manifest and the list of failures from the parts again, and compare them with the files.

    Raises:
        DamagedError: one of the two differs from what the parts give.
    """
    # as JSON: two recipes are equal whatever their names, but the manifest has their names too
    written, derived = to_plain(manifest), to_plain(derived_manifest(folder))
    for name in derived:
        if name not in (*_RUN_FIELDS, "format_version") and written[name] != derived[name]:
            raise DamagedError(
                f"the manifest is not that of the parts, from which it is derived: they differ in {name}",
                where=folder,
                remedy=RERUN_REMEDY,
            )
    _check_failures(folder)


def finished_parts(folder: Path, manifest: Manifest) -> tuple[PartEntry, ...]:
    """The parts that the manifest lists, when those and no others are there, in the listed sizes.

    Raises:
        DamagedError: a part is missing, changed in size or not listed, or rows do not add up.
    """
    if not manifest.parts:
        raise DamagedError("the manifest lists no parts", where=folder, remedy=RERUN_REMEDY)
    sizes = {path.name: path.stat().st_size for path in list_parts(folder)}
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


def unfinished_parts(folder: Path, *, allowed: bool) -> tuple[PartEntry, ...]:
    """The parts of a set without manifest, some of which may be missing, if it is ``allowed`` to read them.

    Raises:
        FeatureSetError: it is not, or there are no parts of one feature set.
        DamagedError: a part is damaged, or rows do not add up.
    """
    footers = part_footers(folder)
    if not allowed:
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


def derived_manifest(folder: Path) -> Manifest:
    """Add up the parts, one header in memory at a time; fields that only a run knows stay empty.

    Raises:
        FeatureSetError: there is no part; or two parts were made with different settings.
        DamagedError: a part's footer is damaged.
    """
    entries, sources, counts, splits = [], {}, Counts(), 0
    for footer in part_footers(folder):
        entries.append(part_entry(footer))
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


def _failure_lines(folder: Path) -> Iterator[bytes]:
    for footer in part_footers(folder):
        for failure in footer.header.failures:
            yield _failure_line(failure)


def _failure_line(failure: Failure) -> bytes:
    plain = {name: value for name, value in to_plain(failure).items() if name != "value" or value}
    # a lone surrogate has no UTF-8 form, but its backslash form is JSON
    return json.dumps(plain, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def _write_failures(folder: Path) -> None:
    path = folder / FAILURES_NAME
    with atomic(path) as temporary, temporary.open("wb") as file:
        file.writelines(_failure_lines(folder))
    if not path.stat().st_size:
        remove_file(path)


def _check_failures(folder: Path) -> None:
    new = folder / FAILURES_NAME
    path = new if new.exists() or not (folder / OLD_FAILURES_NAME).exists() else folder / OLD_FAILURES_NAME
    try:
        with open_regular(path) as file:
            # by the lengths of the right lines: a wrong one may be endless
            same = all(file.read(len(line)) == line for line in _failure_lines(folder)) and not file.read(1)
    except FileNotFoundError:
        same = next(_failure_lines(folder), None) is None
    except OSError as error:
        raise FeatureSetError(f"cannot be read: {error.strerror or error}", where=path) from error
    if not same:
        raise DamagedError("this is not the list of failures that the parts hold", where=path, remedy=RERUN_REMEDY)
