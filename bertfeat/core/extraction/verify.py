"""Verify a feature set: its checksums, its account of rows, and a sample of its features, computed again in fp32."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bertfeat.arguments import checked, require_at_least
from bertfeat.core.corpus import Corpus, CorpusSettings, Document, stands_for_ids
from bertfeat.core.extraction.source import CorpusSource, open_files
from bertfeat.core.features import (
    INT8_COSINE,
    PRECISION_COSINES,
    DocumentFeatures,
    DocumentPieces,
    FeatureSet,
    FeatureSettings,
    combine_cosines,
    content_documents,
    cosine_between,
)
from bertfeat.core.words import WordList, split_words
from bertfeat.display import displayed
from bertfeat.errors import BertfeatError, FeatureSetError, UsageError
from bertfeat.io import Address

if TYPE_CHECKING:
    from bertfeat.core.extraction.sentence_transformers.extractor import Extractor

SAMPLE = 100


@dataclass(frozen=True, slots=True)
class Deviation:
    """The difference between the stored features of a column and the same features computed again in fp32."""

    column: str
    max_absolute: float
    mean_absolute: float
    min_cosine: float  # of a document's vector; of all its token or word vectors as one, where it has several
    mean_cosine: float
    vectors: int  # compared one by one: of documents, tokens or words
    least_of_one: float  # least cosine of a single vector
    below: int  # vectors that are far from exact; docs/numerics.md tells how many of tokens' are

    FAR: ClassVar[float] = 0.99  # a vector whose cosine is below it


@displayed
@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The result of a verification: the checks, and the deviation of a sample."""

    parts: int
    documents: int
    sampled: int  # documents that were computed again; 0 where the set holds no texts and no corpus was given
    bound: float  # smallest cosine that is accepted
    deviations: tuple[Deviation, ...]

    @property
    def holds(self) -> bool:
        """Whether every deviation is within the bound."""
        return all(deviation.min_cosine >= self.bound for deviation in self.deviations)


@checked
def verify_features(
    folder: str | Path | Address,
    *,
    corpus: CorpusSource | None = None,
    corpus_settings: CorpusSettings | None = None,
    sample: int = SAMPLE,
    bound: float | None = None,
    model: str | Path | None = None,
    device: str | None = None,
    seed: int = 0,
) -> VerifyReport:
    """Check every byte of a feature set, its account of rows, and a random sample of its numbers.

    The sample is computed again in fp32 from the texts in the set, or from ``corpus`` where it holds none.

    Raises:
        UsageError: a sample below 0.
        DamagedError: a checksum or the account of rows does not hold.
        ModelError: the recorded model cannot be found.
        FeatureSetError: the corpus is not the one that the set was made from, or a row of the sample fails now.
    """
    require_at_least(0, sample=sample)
    features = FeatureSet(folder)
    parts = sum(1 for _ in features.check())
    if bound is None:
        bound = _least_cosine(features.header.settings)
    has_texts = "text" in features.names and not features.header.settings.document_context
    if not sample or not len(features) or (corpus is None and not has_texts):
        return VerifyReport(parts, len(features), 0, bound, ())
    from bertfeat.core.extraction.sentence_transformers.extractor import (
        Extractor,  # here, because it imports torch, and checksums need none
    )

    digests = _sample_rows(features, sample, seed)
    stored = {row: features[row] for row in digests}
    if corpus is None:
        settings = features.header.settings
        documents = [_document_of(each, settings, digests[row]) for row, each in stored.items()]
    else:
        reading = replace(corpus_settings or CorpusSettings(), split=features.header.settings.split)
        documents = _find_documents(open_files(corpus, reading, reader="verify"), stored)
    header = features.header
    header.settings.check_words(where=features.folder)
    unrounded = [replace(column, dtype="float32") for column in header.columns]
    extractor = Extractor.from_record(
        replace(header.model, canary=None),  # the report says how far apart its vectors are
        replace(header.settings, dtype="float32"),
        unrounded,
        name=model,
        precision="fp32",
        device=device,
        only=header.settings.only,
        where=features.folder,
    )
    again = {document.row: document for document in _compute_again(extractor, documents, FeatureSetError)}
    deviations = tuple(_deviation(column.name, stored, again) for column in header.columns)
    return VerifyReport(parts, len(features), len(again), bound, deviations)


def _least_cosine(settings: FeatureSettings) -> float:
    """The least cosine that the precision allows and, where tokens or words are stored in int8, their rounding."""
    bound = PRECISION_COSINES[settings.precision]
    return combine_cosines(bound, INT8_COSINE) if settings.dtype == "int8" else bound


def _sample_rows(features: FeatureSet, sample: int, seed: int) -> dict[int, str]:
    """Rows of documents, drawn at random from all parts, each with the digest of its text; "" where it has none."""
    draw = random.Random(seed)
    numbers = sorted(draw.sample(range(len(features)), min(sample, len(features))))
    rows, before = dict[int, str](), 0
    names = [name for name in ("row", "text_digest") if name in features.names]
    drawn = iter(numbers)
    number = next(drawn, None)
    for batch in features.stream(names, batch_rows=65_536):
        while number is not None and number < before + len(batch):
            row, *digest = (batch.column(name)[number - before].as_py() for name in names)
            rows[row] = "".join(digest)
            number = next(drawn, None)
        before += len(batch)
    return rows


def _document_of(features: DocumentFeatures, settings: FeatureSettings, digest: str) -> Document:
    text, words = features.text or "", None
    if stands_for_ids(text, digest):
        return Document(features.row, features.id, text, ids=tuple(map(int, text.split(" "))))
    if features.words is not None and features.pair is None:
        # words that give the text when joined by spaces came with the corpus; others were split from the text
        given = text.split(" ") if settings.only else features.words.strings or ()
        if " ".join(given) == text and not (settings.only and _chooses(settings, text, features.words)):
            words = tuple(given)
    return Document(features.row, features.id, text, features.pair, words)


def _chooses(settings: FeatureSettings, text: str, stored: DocumentPieces) -> bool:
    """Whether the list of words chooses, among the words of a text as it is split, those that are stored."""
    spans = split_words(text, settings.word_rule)
    places = WordList(settings.only).places(text, spans, settings.word_rule)
    return np.array_equal(spans.start[places], stored.start) and np.array_equal(spans.end[places], stored.end)


def _find_documents(corpus: Corpus, stored: Mapping[int, DocumentFeatures]) -> list[Document]:
    documents = [row for row in corpus.rows() if isinstance(row, Document) and row.row in stored]
    if len(documents) < len(stored) or any(document.id != stored[document.row].id for document in documents):
        raise FeatureSetError(
            f"the corpus {', '.join(corpus.sources)} is not the one that the set was made from: "
            f"its rows have other ids, or there are fewer"
        )
    return documents


def compare_extractors(one: "Extractor", other: "Extractor", documents: Sequence[Document]) -> tuple[Deviation, ...]:
    """Compute documents by two extractors of the same columns, and return how far apart each column's features are.

    Raises:
        UsageError: one of the documents cannot be computed.
    """
    theirs, ours = (
        {document.row: document for document in _compute_again(extractor, documents, UsageError)}
        for extractor in (other, one)
    )
    return tuple(_deviation(column.name, theirs, ours) for column in one.columns)


def _compute_again(
    extractor: "Extractor", documents: Sequence[Document], error: type[BertfeatError]
) -> Iterator[DocumentFeatures]:
    """Compute the features of documents.

    Raises:
        error: one of them fails, and cannot be compared.
    """
    pairs = any(document.pair is not None for document in documents)
    content = extractor.compute_rows(extractor.tokenize_rows(documents), pairs=pairs)
    if content.failures:
        first = content.failures[0]
        raise error(
            f"{len(content.failures)} of {len(documents)} rows cannot be computed in {extractor.precision.value} with "
            f"this model; row {first.row}: {first.reason}"
        )
    return content_documents(content, extractor.columns, extractor.model.num_layers)


def _deviation(column: str, stored: Mapping[int, DocumentFeatures], again: Mapping[int, DocumentFeatures]) -> Deviation:
    largest, total, number, cosines, singles = 0.0, 0.0, 0, [], []
    for row, document in again.items():
        before, now = (np.atleast_2d(each.stored[column]).astype(np.float64) for each in (stored[row], document))
        if before.shape != now.shape:
            raise FeatureSetError(f"row {row}: {column} has {before.size} values, but the text gives {now.size}")
        difference = np.abs(before - now)
        largest = max(largest, float(difference.max(initial=0.0)))
        total, number = total + float(difference.sum()), number + difference.size
        cosines.append(cosine_between(before.ravel(), now.ravel()))
        singles += [cosine_between(*pair) for pair in zip(before, now, strict=True)]
    return Deviation(
        column,
        max_absolute=largest,
        mean_absolute=total / max(1, number),
        min_cosine=min(cosines),
        mean_cosine=float(np.mean(cosines)),
        vectors=len(singles),
        least_of_one=min(singles, default=1.0),
        below=sum(each < Deviation.FAR for each in singles),
    )
