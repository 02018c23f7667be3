"""What a run would take, before anything is spent: rows, tokens, bytes on disk, minutes."""

import random
import time
from dataclasses import dataclass

from bertfeat.corpus import BlankLine, Corpus, Document, Failure, check_readable
from bertfeat.extraction.embedder import Embedder
from bertfeat.extraction.settings import TOKEN_ITEM_BYTES
from bertfeat.recipe import Pooling

SAMPLE = 2000
_TIMED_TOKENS = 65_536  # what the timing runs through the model, after a warm-up
_ROW_BYTES = 60  # row, id, counts and what Parquet adds, without the text
_TEXT_SHARE = 0.45  # of the text's size that is left after compression
_PIECE_BYTES = 6  # string and offsets of a token or word, compressed


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run would read, compute and write."""

    rows: int
    documents: int
    failed: int
    blank: int
    tokens: int
    bytes: int
    seconds: float
    tokens_per_second: float


def estimate_extraction(embedder: Embedder, corpus: Corpus, *, keep_text: bool = True) -> Estimate:
    """Count a corpus's rows, tokenize a random sample of 2,000 of its documents, and time the model on some of them.

    Raises:
        CorpusError: the corpus cannot be read.
    """
    counts = {Document: 0, Failure: 0, BlankLine: 0}
    characters, sample, draw = 0, list[Document](), random.Random(0)
    for row in check_readable(corpus.rows(), corpus):
        counts[type(row)] += 1
        if isinstance(row, Document):
            characters += len(row.text) + len(row.pair or "")
            at = draw.randrange(counts[Document])
            if len(sample) < SAMPLE:
                sample.append(row)
            elif at < SAMPLE:
                sample[at] = row
    if not sample:
        return Estimate(sum(counts.values()), 0, counts[Failure], counts[BlankLine], 0, 0, 0.0, 0.0)
    tokenized = embedder.tokenize_rows(sample)
    of = tokenized.rows.of
    tokens = float(tokenized.tokens.n_tokens[of].mean()) * counts[Document]
    words = tokenized.tokens.words
    word_count = 0.0 if words is None else float((words.offsets[1:] - words.offsets[:-1])[of].mean())
    speed = _measure_rate(embedder, sample, pairs=corpus.has_pairs)
    computed = tokenized.token_count / max(1, len(tokenized.rows.unique)) * counts[Document]
    return Estimate(
        rows=sum(counts.values()),
        documents=counts[Document],
        failed=counts[Failure],
        blank=counts[BlankLine],
        tokens=round(tokens),
        bytes=_estimate_bytes(
            embedder, counts[Document], tokens, word_count * counts[Document], characters * keep_text
        ),
        seconds=computed / speed,
        tokens_per_second=speed,
    )


def _estimate_bytes(embedder: Embedder, documents: int, tokens: float, words: float, characters: int) -> int:
    vectors = {Pooling.TOKEN: tokens, Pooling.WORD: words}
    total = documents * _ROW_BYTES + characters * _TEXT_SHARE
    for column in embedder.columns:
        total += vectors.get(column.pooling, documents) * column.width * TOKEN_ITEM_BYTES[column.dtype]
    pieces = {column.pooling for column in embedder.columns} & set(vectors)
    return round(total + _PIECE_BYTES * sum(vectors[pooling] for pooling in pieces))


def _measure_rate(embedder: Embedder, sample: list[Document], *, pairs: bool) -> float:
    """Tokens a second, from text to feature matrices."""
    per_document = max(1, sum(len(document.text) for document in sample) // len(sample) // 4)
    timed = sample[: max(1, _TIMED_TOKENS // per_document)]
    embedder.compute_rows(embedder.tokenize_rows(timed[: max(1, len(timed) // 8)]), pairs=pairs)  # warm-up
    begin = time.perf_counter()
    result = embedder.compute_rows(embedder.tokenize_rows(timed), pairs=pairs)
    return max(1, result.computed_tokens) / (time.perf_counter() - begin)
