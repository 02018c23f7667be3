"""The records of a run: the settings and the identity by which others know it, and the manifest at its end."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import torch

from bertfeat.core.corpus import Corpus, CorpusSettings, FileCorpus
from bertfeat.core.encoder import kernels_in_use
from bertfeat.core.extraction.source import STDIN
from bertfeat.core.features import (
    FeatureSettings,
    Manifest,
    PartHeader,
    check_derived,
    drop_successor,
    finished_parts,
    list_parts,
    read_header,
    read_manifest,
    remove_manifest,
    settle_successor,
    vector_bytes,
    write_manifest,
)
from bertfeat.core.recipe import FeatureColumn, Unit
from bertfeat.errors import CorpusError, DamagedError
from bertfeat.io import (
    ContextPool,
    Location,
    canonical_json,
    file_stamp,
    installed_versions,
    to_plain,
)

if TYPE_CHECKING:
    from bertfeat.core.extraction.sentence_transformers.extractor import Extractor

_RERUN = "run the same command again: it redoes the parts concerned"


def bytes_per_row(columns: Sequence[FeatureColumn], *, special_tokens: bool) -> float:
    """Estimated bytes of a document's features that do not depend on its length."""
    special = 2 if special_tokens else 0
    return sum(float(vector_bytes(column) * (1 if column.pooling.per_document else special)) for column in columns)


def bytes_per_character(columns: Sequence[FeatureColumn]) -> float:
    """Estimated bytes of a document's features for each character of its text."""
    characters = {Unit.TOKEN: 4, Unit.WORD: 5}  # of running text, per token or word
    return sum(
        vector_bytes(column) / characters[column.pooling.unit]
        for column in columns
        if column.pooling.unit in characters
    )


def run_identity(settings: FeatureSettings, corpus: Corpus, corpus_settings: CorpusSettings) -> str:
    """A digest that is equal for runs of the same settings over the same files, by their names, sizes and stamps.

    Empty for a corpus that is not made of files.
    """
    if not isinstance(corpus, FileCorpus) or tuple(corpus.sources) == (STDIN,):
        return ""
    files = [[file.name, file.source.stamp.size, file.source.stamp.tag, file.metadata] for file in corpus.files]
    said = [settings.fingerprint, to_plain(corpus_settings), files]
    return hashlib.sha256(canonical_json(said)).hexdigest()


def recorded_header(folder: Location) -> PartHeader | None:
    """The header of the first sound part of earlier runs; None where there is none."""
    for path in list_parts(folder):
        try:
            return read_header(path)
        except DamagedError:
            continue
    return None


def finished_as(folder: Location, identity: str) -> Manifest | None:
    """The manifest of a set that a run of this identity has finished, if a listing shows all of its parts."""
    if not identity:
        return None
    try:
        manifest = read_manifest(folder)
        if manifest is not None and manifest.run == identity:
            finished_parts(folder, manifest)
            return manifest
    except DamagedError:
        pass
    return None


def facts_of_run(extractor: "Extractor", seconds: float, copied: int) -> tuple[dict[str, object], dict[str, str]]:
    """Return what a manifest says of the run that finished the set, and versions.

    Of the run: when it ended, how long it took, where, and of how many documents it copied the features.
    """
    versions = installed_versions("bertfeat", "torch", "transformers", "tokenizers", "pyarrow", "numpy")
    versions["threads"] = str(torch.get_num_threads())
    versions["kernels"] = kernels_in_use(extractor.device, extractor.precision)
    finished = datetime.now(UTC).isoformat(timespec="seconds")
    run = {"finished": finished, "seconds": round(seconds, 3), "device": str(extractor.device), "copied": copied}
    return run, versions


def write_run_manifest(
    folder: Location,
    corpus: Corpus,
    identity: str,
    plan: str,
    times: Mapping[str, object],
    versions: Mapping[str, str],
    successor: Sequence[Location],
) -> None:
    """Write the manifest and the list of failures, which are derived from the parts, or from those of a successor.

    The successor takes the place of the set then. ``plan`` is the sha256 of the digests of all planned parts. If a
    file has changed since the run began, the identity is left out, because it is not that of the rows that were read.

    Raises:
        DamagedError: the parts in the folder are not those of the plan.
    """
    run = "" if _changed_file(corpus) else identity
    manifest = write_manifest(
        folder, sources=corpus.sources, times=times, versions=versions, run=run, successor=successor
    )
    if hashlib.sha256("".join(part.digest for part in manifest.parts).encode()).hexdigest() != plan:
        if successor:
            drop_successor(folder)
        else:
            remove_manifest(folder)
        problem = "another run wrote parts of another corpus, or of another state of this one, meanwhile"
        raise DamagedError(problem, where=folder, remedy=_RERUN)
    if successor:
        settle_successor(folder)
    else:
        drop_successor(folder)


def refuse_changed_files(corpus: Corpus) -> None:
    """Refuse files that have changed since the run began: other runs rely on what this one found.

    Raises:
        CorpusError: a file has changed.
    """
    if name := _changed_file(corpus):
        raise CorpusError(
            "the file has changed since the run began",
            where=name,
            remedy=_RERUN,
        )


def _changed_file(corpus: Corpus) -> str:
    """The name of the first file that has changed since the corpus was opened; empty if none has."""
    if not isinstance(corpus, FileCorpus):
        return ""
    sources = [file.source for file in corpus.files]
    with ContextPool(16, "bertfeat-stamps") as pool:
        stamps = pool.map(lambda source: file_stamp(source.path), sources)
        return next((source.name for source, stamp in zip(sources, stamps, strict=True) if stamp != source.stamp), "")


def is_finished(folder: Location, sources: Sequence[str]) -> bool:
    """Whether the manifest and the list of failures are there, and agree with the parts."""
    try:
        manifest = read_manifest(folder)
        if manifest is None or manifest.sources != tuple(sources):
            return False
        check_derived(folder, manifest)
    except DamagedError:
        return False
    return True
