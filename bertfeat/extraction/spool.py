"""Standard input as a corpus: copied into the feature set's folder first, so that it can be read as often as a file."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bertfeat.corpus import Corpus, CorpusSettings, Failure, KeptColumn, Row, open_corpus
from bertfeat.errors import CorpusError
from bertfeat.features.folder import SPOOL_NAME
from bertfeat.io import make_state_folder, writing

STDIN = "-"
_SHOWN = "standard input"


@contextmanager
def spool_stdin(folder: Path, settings: CorpusSettings) -> Iterator[Corpus]:
    """Give standard input as a corpus; its copy is removed at the end, however that comes.

    Raises:
        FeatureSetError: the folder cannot be written.
        CorpusError: what came in cannot be read.
    """
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None:
        raise CorpusError("standard input is closed, or no stream of bytes; give a file, or pipe something in")
    path = make_state_folder(folder) / SPOOL_NAME
    try:
        with writing(folder):
            path.unlink(missing_ok=True)
            # "x": not through a link that somebody put there
            with path.open("xb") as file:
                shutil.copyfileobj(stream, file, 1 << 20)
        yield SpooledCorpus(open_corpus([path], settings), str(path))
    finally:
        path.unlink(missing_ok=True)


class SpooledCorpus:
    """A corpus of one file that is not named in what it says: the folder it lies in decides nothing."""

    sources = (STDIN,)

    def __init__(self, corpus: Corpus, name: str) -> None:
        self._corpus, self._name = corpus, name

    @property
    def kept(self) -> tuple[KeptColumn, ...]:
        """As of the file."""
        return self._corpus.kept

    @property
    def columns(self) -> tuple[str, ...]:
        """As of the file."""
        return self._corpus.columns

    @property
    def has_pairs(self) -> bool:
        """As of the file."""
        return self._corpus.has_pairs

    @property
    def has_words(self) -> bool:
        """As of the file."""
        return self._corpus.has_words

    @property
    def has_tags(self) -> bool:
        """As of the file."""
        return self._corpus.has_tags

    @property
    def fraction(self) -> float:
        """As of the file."""
        return self._corpus.fraction

    def rows(self) -> Iterator[Row]:
        """Give the rows of the file, its name left out of what is said of failures."""
        for row in self._corpus.rows():
            yield replace(row, reason=row.reason.replace(self._name, _SHOWN)) if isinstance(row, Failure) else row
