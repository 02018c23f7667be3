"""The input of a run: a corpus, files, folders or patterns, or standard input."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bertfeat.corpus import Corpus, CorpusSettings, FileCorpus, open_corpus
from bertfeat.errors import CorpusError, UsageError, parameter
from bertfeat.extraction.spool import STDIN, spool_stdin
from bertfeat.io import Address, Location, as_location, real_path

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
    """Open a corpus for another use than a run; ``reader`` names the use in the error.

    Raises:
        CorpusError: it cannot be read.
        UsageError: it is standard input, which can be read only once.
    """
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
