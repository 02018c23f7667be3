"""The manifest and the list of failures: derived from the parts, written last, for people and for a quick start."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

from bertfeat.corpus import Failure, KeptColumn
from bertfeat.errors import Damaged, FeatureSetError
from bertfeat.features.files import atomic, remove
from bertfeat.features.folder import PartEntry, check_accounting, list_parts, part_entry, part_footers
from bertfeat.features.header import (
    FORMAT_VERSION,
    Counts,
    ModelIdentity,
    decode_column,
    plain,
    refuse_newer,
)
from bertfeat.features.part import PartFooter
from bertfeat.features.schema import RESERVED
from bertfeat.recipe import FeatureColumn

MANIFEST_NAME = "_manifest.json"
FAILURES_NAME = "_failures.jsonl"

_KEPT_TYPES = {"string": "string", "int64": "int64", "double": "float64", "bool": "bool"}


@dataclass(frozen=True, slots=True)
class Manifest:
    """A finished feature set at a glance."""

    format_version: int
    settings: Mapping[str, Any]
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
    times: Mapping[str, Any]
    versions: Mapping[str, str]
    parts: tuple[PartEntry, ...]


def write_manifest(
    folder: Path, *, times: Mapping[str, Any] | None = None, versions: Mapping[str, str] | None = None
) -> Manifest:
    """Finish a feature set: check the account over all parts, write the failures and, last, the manifest.

    ``times`` (seconds, dates) and ``versions`` (of bertfeat, torch, …) are stored as given.

    Raises:
        FeatureSetError: there is no part; or two parts were made with different settings.
        Damaged: a part is missing or damaged, or rows do not add up.
    """
    manifest = replace(_sum_up(folder), times=times or {}, versions=versions or {})
    check_accounting(folder, manifest.parts)
    with atomic(folder / MANIFEST_NAME) as temporary, _open(temporary) as file:
        json.dump(manifest, file, default=plain, indent=1, ensure_ascii=False)
        file.write("\n")
    return manifest


def read_manifest(folder: Path) -> Manifest | None:
    """Read the manifest; None where the set is not finished.

    Raises:
        FeatureSetError: written by a newer bertfeat.
        Damaged: cannot be read as a manifest.
    """
    path = folder / MANIFEST_NAME
    try:
        raw = json.loads(path.read_bytes())
        refuse_newer(int(raw["format_version"]), path)
        return Manifest(
            **{
                **raw,
                "model": ModelIdentity(**raw["model"]),
                "columns": tuple(decode_column(column) for column in raw["columns"]),
                "kept": tuple(KeptColumn(**column) for column in raw["kept"]),
                "sources": tuple(raw["sources"]),
                "counts": Counts(**raw["counts"]),
                "parts": tuple(PartEntry(**part) for part in raw["parts"]),
            }
        )
    except FileNotFoundError:
        return None
    except NotADirectoryError as error:
        raise FeatureSetError(
            f"{folder} is a file, and a feature set is a folder; bertfeat extract makes one of a corpus"
        ) from error
    except OSError as error:
        raise FeatureSetError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise Damaged(
            f"{path}: cannot be read ({error!r}); run the same extract command again: it writes a new one"
        ) from error


def remove_manifest(folder: Path) -> None:
    """Mark a set as unfinished, before the first part of it is written or removed."""
    remove(folder / MANIFEST_NAME)
    remove(folder / FAILURES_NAME)


def finished_parts(folder: Path, manifest: Manifest) -> tuple[PartEntry, ...]:
    """The parts that the manifest lists, when those and no others are there, in the listed sizes.

    Raises:
        Damaged: a part is missing, changed in size or not listed, or rows do not add up.
    """
    found = {path.name: path.stat().st_size for path in list_parts(folder)}
    for entry in manifest.parts:
        if found.pop(entry.name, None) != entry.bytes:
            raise Damaged(
                f"{folder / entry.name}: missing or changed in size since the set was finished; "
                f"run the same extract command again: it redoes this part"
            )
    if found:
        raise Damaged(f"{folder / min(found)}: not one of the parts that the manifest lists; move it elsewhere")
    check_accounting(folder, manifest.parts)
    return manifest.parts


def unfinished_parts(folder: Path, *, allowed: bool) -> tuple[PartEntry, ...]:
    """The parts of a set without manifest, some of which may be missing, if it is ``allowed`` to read them.

    Raises:
        FeatureSetError: it is not, or there are no parts of one feature set.
        Damaged: a part is damaged, or rows do not add up.
    """
    footers = part_footers(folder)
    if not allowed:
        first, *more = next(footers).header.sources or ("CORPUS",)
        sources = f"{first} …" if more else first
        raise FeatureSetError(
            f"{folder}: this feature set is not finished (it has no {MANIFEST_NAME}); the same command again "
            f"finishes it: bertfeat extract {sources} -o {folder} … "
            f"(or read what there is so far: FeatureSet(folder, allow_unfinished=True))"
        )
    entries = tuple(part_entry(footer) for footer in footers)
    check_accounting(folder, entries, gaps=True)
    return entries


def kept_columns(footer: PartFooter) -> tuple[KeptColumn, ...]:
    """The corpus's own columns in a part."""
    known = {*RESERVED, *(column.name for column in footer.header.columns)}
    return tuple(
        KeptColumn(field.name, _KEPT_TYPES[str(field.type)]) for field in footer.schema if field.name not in known
    )


def _sum_up(folder: Path) -> Manifest:
    """Add up the parts, one header in memory at a time; the failures are written on the way."""
    entries, sources, counts, splits = [], {}, Counts(), 0
    with _failure_list(folder) as write:
        for footer in part_footers(folder):
            entries.append(part_entry(footer))
            sources.update(dict.fromkeys(footer.header.sources))
            counts += footer.header.counts
            splits += footer.header.split_batches
            write(footer.header.failures)
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


@contextmanager
def _failure_list(folder: Path) -> Iterator[Callable[[Iterable[Failure]], None]]:
    path = folder / FAILURES_NAME
    with atomic(path) as temporary, _open(temporary) as file:

        def write(failures: Iterable[Failure]) -> None:
            for failure in failures:
                line = {key: value for key, value in plain(failure).items() if key != "value" or value}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")

        yield write
    if not path.stat().st_size:
        remove(path)


def _open(path: Path) -> TextIO:
    # a lone surrogate has no UTF-8 form, but its backslash form is JSON
    return path.open("w", encoding="utf-8", errors="backslashreplace")
