"""Standard input as a corpus: copied into a folder first, so that it can be read more than once."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bertfeat.corpus import Corpus, CorpusSettings, open_corpus
from bertfeat.errors import CorpusError
from bertfeat.features import SPOOL_NAME
from bertfeat.io import Address, Location, make_state_folder, storage_errors

STDIN = "-"
_SHOWN = "standard input"


@contextmanager
def spool_stdin(folder: Location, settings: CorpusSettings) -> Iterator[Corpus]:
    """Open standard input as a corpus; its copy in ``folder`` is removed at the end, after an error too.

    For a folder in object storage the copy lies among temporary files.

    Raises:
        FeatureSetError: the folder cannot be written.
        CorpusError: it cannot be read.
    """
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None:
        raise CorpusError("standard input is closed, or no stream of bytes", remedy="give a file, or pipe something in")
    place = Path(tempfile.mkdtemp(prefix="bertfeat-")) if isinstance(folder, Address) else make_state_folder(folder)
    path = place / SPOOL_NAME
    try:
        with storage_errors(place):
            path.unlink(missing_ok=True)
            # "x": not through a link that somebody put there
            with path.open("xb") as file:
                shutil.copyfileobj(stream, file, 1 << 20)
        corpus = open_corpus([path], settings, name=_SHOWN)
        corpus.sources = (STDIN,)  # the folder that the copy lies in decides nothing
        yield corpus
    finally:
        path.unlink(missing_ok=True)
        if isinstance(folder, Address):
            place.rmdir()
