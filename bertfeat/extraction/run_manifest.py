"""The manifest at the end of a run: when, on what, and with which versions it was made."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime

import torch

from bertfeat.corpus import Corpus, CorpusSettings, FileCorpus
from bertfeat.encoder import kernels_in_use
from bertfeat.errors import CorpusError, DamagedError
from bertfeat.extraction.embedder import Embedder
from bertfeat.extraction.sharing import RunFacts
from bertfeat.extraction.spool import STDIN
from bertfeat.features import (
    FeatureSettings,
    Manifest,
    check_derived,
    finished_parts,
    list_parts,
    read_header,
    read_manifest,
    remove_manifest,
    write_manifest,
)
from bertfeat.io import ContextPool, Location, canonical_json, file_stamp, installed_versions, to_plain

_THREADS = 16  # that ask object storage for the stamps of files
_RERUN = "run the same command again: it redoes the parts concerned"
_PACKAGES = ("bertfeat", "torch", "transformers", "tokenizers", "pyarrow", "numpy")


def run_identity(settings: FeatureSettings, corpus: Corpus, corpus_settings: CorpusSettings) -> str:
    """A digest that is equal for runs of the same settings over the same files, by their sizes and stamps.

    Empty for a corpus that is not made of files.
    """
    if not isinstance(corpus, FileCorpus) or tuple(corpus.sources) == (STDIN,):
        return ""
    files = [[file.source.name, file.source.stamp.size, file.source.stamp.tag] for file in corpus.files]
    said = [settings.fingerprint, to_plain(corpus_settings), files]
    return hashlib.sha256(canonical_json(said)).hexdigest()


def recorded_settings(folder: Location) -> FeatureSettings | None:
    """The settings of earlier runs, by the first sound part; None where there is none."""
    for path in list_parts(folder):
        try:
            return read_header(path).settings
        except DamagedError:
            continue
    return None


def finished_as(folder: Location, identity: str) -> Manifest | None:
    """The manifest of a set that a run of this identity has finished, if all of its parts are there by a listing."""
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


def run_facts(embedder: Embedder, seconds: float) -> RunFacts:
    """Return the facts of a finished run: when it ended, how long it took, where, and with which versions."""
    versions = installed_versions(*_PACKAGES)
    versions["threads"] = str(torch.get_num_threads())
    versions["kernels"] = kernels_in_use(embedder.device, embedder.precision)
    finished = datetime.now(UTC).isoformat(timespec="seconds")
    return RunFacts(
        times={"finished": finished, "seconds": round(seconds, 3), "device": str(embedder.device)}, versions=versions
    )


def write_run_manifest(folder: Location, facts: RunFacts, corpus: Corpus, identity: str, plan: str) -> None:
    """Write the manifest and the list of failures, which are derived from the parts.

    ``plan`` is the sha256 of the digests of all planned parts. An identity that is not that of what was read, since
    a file has changed, is left out.

    Raises:
        DamagedError: the parts are not those of the plan.
    """
    run = "" if _changed_file(corpus) else identity
    manifest = write_manifest(folder, sources=corpus.sources, times=facts.times, versions=facts.versions, run=run)
    if hashlib.sha256("".join(part.digest for part in manifest.parts).encode()).hexdigest() != plan:
        remove_manifest(folder)
        problem = "another run wrote parts of another corpus, or of another state of this one, meanwhile"
        raise DamagedError(problem, where=folder, remedy=_RERUN)


def refuse_changed_files(corpus: Corpus) -> None:
    """Refuse files that are not those that were found when the run began: others take its word for what they are.

    Raises:
        CorpusError: names the first one.
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
    with ContextPool(_THREADS, "bertfeat-stamps") as pool:
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
