"""The records of a run: the settings and the identity by which others know it, and the manifest at its end."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime

import torch

from bertfeat.corpus import Corpus, CorpusSettings, FileCorpus, KeptColumn
from bertfeat.encoder import kernels_in_use
from bertfeat.errors import CorpusError, DamagedError
from bertfeat.extraction.embedder import Embedder
from bertfeat.extraction.plan import PLAN_VERSION
from bertfeat.extraction.sharing import RunFacts
from bertfeat.extraction.source import STDIN
from bertfeat.features import (
    FeatureSettings,
    Manifest,
    ModelIdentity,
    PartHeader,
    check_derived,
    describe_column,
    finished_parts,
    list_parts,
    read_header,
    read_manifest,
    remove_manifest,
    vector_bytes,
    write_manifest,
)
from bertfeat.io import ContextPool, Location, canonical_json, file_stamp, installed_versions, to_plain
from bertfeat.recipe import FeatureColumn, Unit
from bertfeat.tokens import TokenSettings

NUMERICS_VERSION = 4
"""Raised whenever the same settings would give other numbers than before."""

INT8_VERSION = 1
"""Raised whenever int8 would give other integers: by another method, or another text for its calibration."""

_RERUN = "run the same command again: it redoes the parts concerned"


def record_settings(
    model: ModelIdentity,
    columns: Sequence[FeatureColumn],
    tokens: TokenSettings,
    precision: str,
    *,
    document_context: bool,
    keep: Sequence[KeptColumn] = (),
    keep_text: bool = True,
    batch_tokens: int | None = None,
    part_rows: int | None = None,
) -> FeatureSettings:
    """The settings that a feature set records: everything that decides what a run writes."""
    return FeatureSettings(
        model=model.fingerprint,
        layers=tuple(map(describe_column, columns)),
        precision=precision,
        dtype=next((column.dtype for column in columns if not column.pooling.per_document), "float32"),
        long=str(tokens.long),
        max_length=tokens.max_length,
        prompt=tokens.prompt,
        document_context=document_context,
        subword=str(tokens.subword) if tokens.with_words else None,
        special_tokens=tokens.special_tokens,
        keep=tuple(f"{column.name}:{column.type}" for column in keep),
        text=keep_text,
        batch_tokens=batch_tokens,
        part_rows=part_rows,
        numerics=NUMERICS_VERSION,
        quantization=INT8_VERSION if precision == "int8" else None,
        only=() if tokens.only is None or not tokens.with_words else tokens.only.entries,
        words=tokens.words.record,
        context=None if tokens.left_words is None else f"left:{tokens.left_words}",
        plan=PLAN_VERSION,
    )


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


def run_facts(embedder: Embedder, seconds: float) -> RunFacts:
    """Return the facts of a finished run: when it ended, how long it took, where, and with which versions."""
    versions = installed_versions("bertfeat", "torch", "transformers", "tokenizers", "pyarrow", "numpy")
    versions["threads"] = str(torch.get_num_threads())
    versions["kernels"] = kernels_in_use(embedder.device, embedder.precision)
    finished = datetime.now(UTC).isoformat(timespec="seconds")
    return RunFacts(
        times={"finished": finished, "seconds": round(seconds, 3), "device": str(embedder.device)}, versions=versions
    )


def write_run_manifest(folder: Location, facts: RunFacts, corpus: Corpus, identity: str, plan: str) -> None:
    """Write the manifest and the list of failures, which are derived from the parts.

    ``plan`` is the sha256 of the digests of all planned parts. If a file has changed since the run began, the identity
    is left out, because it is not that of the rows that were read.

    Raises:
        DamagedError: the parts in the folder are not those of the plan.
    """
    run = "" if _changed_file(corpus) else identity
    manifest = write_manifest(folder, sources=corpus.sources, times=facts.times, versions=facts.versions, run=run)
    if hashlib.sha256("".join(part.digest for part in manifest.parts).encode()).hexdigest() != plan:
        remove_manifest(folder)
        problem = "another run wrote parts of another corpus, or of another state of this one, meanwhile"
        raise DamagedError(problem, where=folder, remedy=_RERUN)


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
