"""A corpus counted to its end, without a model."""

from dataclasses import dataclass

from bertfeat.arguments import checked
from bertfeat.corpus.document import Corpus, Document, Failure


@dataclass(frozen=True, slots=True)
class CorpusSummary:
    """The counts of a corpus."""

    documents: int
    failed: int  # rows that cannot be read
    blank: int  # blank lines
    characters: int  # of the texts, without second texts of pairs
    words: int  # where the corpus brings its own
    first_failure: Failure | None


@checked
def summarize_corpus(corpus: Corpus) -> CorpusSummary:
    """Read a corpus to its end and count its rows, characters and words.

    Raises:
        CorpusError: the corpus cannot be read.
    """
    documents = failed = blank = characters = words = 0
    first_failure = None
    for row in corpus.rows():
        if isinstance(row, Document):
            documents, characters, words = documents + 1, characters + len(row.text), words + len(row.words or ())
        elif isinstance(row, Failure):
            failed, first_failure = failed + 1, first_failure or row
        else:
            blank += 1
    return CorpusSummary(documents, failed, blank, characters, words, first_failure)
