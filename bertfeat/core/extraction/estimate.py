"""An estimate of an extraction: rows, tokens, bytes on disk, seconds."""

import time
from dataclasses import dataclass, replace
from pathlib import Path

from bertfeat.arguments import checked, require_at_least
from bertfeat.core.corpus import BlankLine, Corpus, CorpusSettings, Document, Failure, check_readable
from bertfeat.core.extraction.bases import check_width, take_bases
from bertfeat.core.extraction.change import CorpusChange, find_change
from bertfeat.core.extraction.cores import held_to_threads, threads_in_use
from bertfeat.core.extraction.run_options import ExtractionOptions
from bertfeat.core.extraction.sample import Reservoir
from bertfeat.core.extraction.sentence_transformers.extractor import Extractor
from bertfeat.core.extraction.source import CorpusSource, open_files
from bertfeat.core.features import FeatureSet, list_parts, vector_bytes
from bertfeat.core.recipe import Basis, Unit
from bertfeat.display import displayed
from bertfeat.io import Address, Location, as_location

SAMPLE = 2000
_TIMED_TOKENS = 65_536  # about the tokens that the timing runs through the model, after a warm-up
_ROW_BYTES = 60  # row, id, counts and what Parquet adds, without the text
_TEXT_SHARE = 0.45  # of the text's size that is left after compression
_PIECE_BYTES = 6  # string and offsets of a token or word, compressed


@displayed
@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimate: what a run would read, compute and write."""

    rows: int
    documents: int
    failed: int
    blank: int
    tokens: int
    bytes: int
    seconds: float
    tokens_per_second: float  # of all workers together
    workers: int = 1
    change: CorpusChange | None = None  # of the set that is brought up to date: only new texts count as seconds


@checked
def estimate_extraction(
    extractor: Extractor,
    corpus: CorpusSource,
    *,
    corpus_settings: CorpusSettings | None = None,
    options: ExtractionOptions | None = None,
    workers: int = 1,
    share_cores: bool = True,
    folder: str | Path | Address | None = None,
) -> Estimate:
    """Estimate what :meth:`bertfeat.Extractor.extract` would read, compute and write; nothing is written.

    The rows of the corpus are counted, a random sample of 2,000 documents is tokenized, and the model is timed on some
    of them. ``options`` are those of the run. Of several ``workers`` one is timed, with its share of the cores if they
    ``share_cores``, and all are assumed to be as fast. With the option ``update`` the texts of the corpus are compared
    with those of the set in ``folder``, with ``reuse`` with those of other sets.

    Raises:
        CorpusError: the corpus cannot be read.
        FeatureSetError: the set in ``folder`` holds no texts, or a part of it cannot be read.
        UsageError: it is standard input, which can be read only once; or there are no workers.
    """
    require_at_least(1, workers=workers)
    options = options or ExtractionOptions()
    extractor = _with_planned_bases(extractor, options)
    opened = open_files(corpus, corpus_settings or CorpusSettings(), reader="an estimate")
    with held_to_threads(max(1, threads_in_use() // workers) if share_cores else threads_in_use()):
        estimate = _estimate(extractor, opened, options.keep_text, workers)
        if parts := _compared_parts(options, folder):
            change = find_change(parts, opened, extractor)
            estimate = replace(estimate, change=change, seconds=change.tokens / max(1.0, estimate.tokens_per_second))
    return estimate


def _compared_parts(options: ExtractionOptions, folder: str | Path | Address | None) -> list[Location]:
    """The parts whose texts a run would not compute."""
    sets = [*options.reuse, *([folder] if options.update and folder is not None else [])]
    return [part for each in sets for part in list_parts(as_location(each))]


def _with_planned_bases(extractor: Extractor, options: ExtractionOptions) -> Extractor:
    """The extractor of columns that are stored as a run would store them, without bases that it would have to learn."""
    if options.basis is not None:
        return extractor.with_bases(take_bases(extractor, FeatureSet(as_location(options.basis)), options.width))
    if options.width is None:
        return extractor
    check_width(extractor.columns, options.width)
    planned = Basis(options.width, 1.0, b"")
    return extractor.with_bases(
        [column if column.pooling.per_document else replace(column, basis=planned) for column in extractor.columns]
    )


def _estimate(extractor: Extractor, corpus: Corpus, keep_text: bool, workers: int) -> Estimate:
    counts = {Document: 0, Failure: 0, BlankLine: 0}
    characters, drawn = 0, Reservoir[Document](SAMPLE)
    for row in check_readable(corpus.rows(), corpus):
        counts[type(row)] += 1
        if isinstance(row, Document):
            characters += len(row.text) + len(row.pair or "")
            drawn.add(row)
    sample = drawn.items
    if not sample:
        return Estimate(sum(counts.values()), 0, counts[Failure], counts[BlankLine], 0, 0, 0.0, 0.0, workers)
    tokenized = extractor.tokenize_rows(sample)
    numbers = tokenized.unique_numbers
    tokens = float(tokenized.tokens.n_tokens[numbers].mean()) * counts[Document]
    words = tokenized.tokens.words
    word_count = 0.0 if words is None else float((words.offsets[1:] - words.offsets[:-1])[numbers].mean())
    speed = _measure_rate(extractor, sample, pairs=corpus.has_pairs) * workers
    computed = tokenized.token_count / max(1, len(tokenized.unique)) * counts[Document]
    return Estimate(
        rows=sum(counts.values()),
        documents=counts[Document],
        failed=counts[Failure],
        blank=counts[BlankLine],
        tokens=round(tokens),
        bytes=_estimate_bytes(
            extractor, counts[Document], tokens, word_count * counts[Document], characters * keep_text
        ),
        seconds=computed / speed,
        tokens_per_second=speed,
        workers=workers,
    )


def _estimate_bytes(extractor: Extractor, documents: int, tokens: float, words: float, characters: int) -> int:
    vectors = {Unit.DOCUMENT: documents, Unit.TOKEN: tokens, Unit.WORD: words}
    total = documents * _ROW_BYTES + characters * _TEXT_SHARE
    for column in extractor.columns:
        total += vectors[column.pooling.unit] * vector_bytes(column)
    units = {column.pooling.unit for column in extractor.columns} - {Unit.DOCUMENT}
    return round(total + _PIECE_BYTES * sum(vectors[unit] for unit in units))


def _measure_rate(extractor: Extractor, sample: list[Document], *, pairs: bool) -> float:
    """Measure the tokens per second, from text to feature matrices."""
    # about four characters per token
    per_document = max(1, sum(len(row.text) + len(row.pair or "") for row in sample) // len(sample) // 4)
    timed = sample[: max(1, _TIMED_TOKENS // per_document)]
    extractor.compute_rows(extractor.tokenize_rows(timed[: max(1, len(timed) // 8)]), pairs=pairs)  # warm-up
    begin = time.perf_counter()
    tokenized = extractor.tokenize_rows(timed)
    extractor.compute_rows(tokenized, pairs=pairs)
    return max(1, tokenized.token_count) / (time.perf_counter() - begin)
