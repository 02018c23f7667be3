"""The input of a run, opened as a corpus: a corpus itself, files, folders or patterns, or standard input.

Standard input is copied into a folder first, so that it can be read more than once.
"""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from bertfeat.core.corpus import Corpus, CorpusSettings, FileCorpus, open_corpus
from bertfeat.core.features import SPOOL_NAME
from bertfeat.errors import CorpusError, UsageError, parameter
from bertfeat.io import Address, Location, as_location, make_state_folder, real_path, storage_errors

STDIN = "-"
CorpusSource = Corpus | str | Path | Address | Sequence[str | Path | Address]


@contextmanager
def open_run_source(source: CorpusSource, folder: Location, settings: CorpusSettings) -> Iterator[Corpus]:
    """Open the input; standard input is copied into ``folder`` first.

    Raises:
        CorpusError: it cannot be read.
        UsageError: ``folder`` holds the input.
    """
    if isinstance(source, str | Path | Address):
        source = [source]
    if not isinstance(source, Sequence):
        corpus = source
    elif [str(path) for path in source] == [STDIN]:
        with spool_stdin(folder, settings) as corpus:
            yield corpus
        return
    elif STDIN in map(str, source):
        raise CorpusError("- (standard input) cannot be mixed with files", remedy="give it alone")
    else:
        corpus = open_corpus(source, settings)
    _refuse_folder_of_corpus(corpus, folder)
    yield corpus


def is_of_files(source: CorpusSource) -> bool:
    """Whether an input is made of files, which other processes can read too."""
    if isinstance(source, str | Path | Address):
        source = [source]
    return STDIN not in map(str, source) if isinstance(source, Sequence) else isinstance(source, FileCorpus)


def open_files(source: CorpusSource, settings: CorpusSettings, *, reader: str) -> Corpus:
    """Open a corpus for a use other than a run; ``reader`` names the use in the error."""
    if isinstance(source, str | Path | Address):
        source = [source]
    if not isinstance(source, Sequence):
        return source
    if STDIN in map(str, source):
        raise UsageError(f"{reader} reads the corpus, which standard input gives only once", remedy="give it a file")
    return open_corpus(source, settings)


def _refuse_folder_of_corpus(corpus: Corpus, folder: Location) -> None:
    """Refuse to write into a folder that holds the corpus: results and input would get mixed."""
    for name in corpus.sources:
        if name != STDIN and _holds(folder, as_location(name)):
            raise UsageError(
                f"{folder} holds {name}, which is to be read", remedy=f"name another folder with {parameter('folder')}"
            )


def _holds(folder: Location, file: Location) -> bool:
    if isinstance(folder, Address) or isinstance(file, Address):
        return str(file).startswith(f"{folder}/")
    return real_path(folder) in real_path(file).parents


def _read_block(stream: BinaryIO) -> bytes:
    try:
        return stream.read(1 << 20)
    except OSError as error:
        raise CorpusError(f"standard input cannot be read: {error.strerror}", remedy="give a file") from error


@contextmanager
def spool_stdin(folder: Location, settings: CorpusSettings) -> Iterator[Corpus]:
    """Open standard input as a corpus; its copy in ``folder`` is removed at the end, after an error too.

    For a folder in object storage the copy is a temporary file on this machine.

    Raises:
        StorageError: the folder cannot be written.
        CorpusError: standard input cannot be read.
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
                while block := _read_block(stream):
                    file.write(block)
        corpus = open_corpus([path], settings, name="standard input")
        corpus.sources = (STDIN,)  # not the path of the copy, on which no result depends
        yield corpus
    finally:
        path.unlink(missing_ok=True)
        if isinstance(folder, Address):
            place.rmdir()
