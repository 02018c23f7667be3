"""Texts, words or feature sets with a tag for each word, as objects or as a file."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from bertfeat.corpus import Corpus, CorpusSettings, Failure, check_readable, format_of, open_corpus
from bertfeat.errors import UsageError, parameter
from bertfeat.extraction import spool_stdin
from bertfeat.features import FeatureSet
from bertfeat.io import atomic, real_path, storage_errors
from bertfeat.tagging.datasets import OpenSource, SentenceSource, open_source, refuse_corpus_settings
from bertfeat.tagging.prediction_forms import MarkSpan, PredictionForm, bracket_span, choose_writer
from bertfeat.tagging.tagger import TaggedText, Tagger

STDIN = "-"


@dataclass(frozen=True, slots=True)
class PredictionReport:
    """The counts of tagged texts, and the failures."""

    texts: int
    empty: int  # of them without words
    failures: tuple[Failure, ...]  # rows that could not be tagged


def predict_tags(
    tagger: str | Path | Tagger,
    source: SentenceSource,
    *,
    corpus_settings: CorpusSettings | None = None,
    with_gold: bool = False,
    model: str | Path | None = None,
    device: str | None = None,
) -> Iterator[TaggedText | Failure]:
    """Tag a corpus file, a feature set, or standard input (``"-"``), row by row; rows that fail are given as such.

    Texts go through the model and recipe that the tagger was trained on. The tags of CoNLL files are read only
    ``with_gold``. ``model`` says where a tagger's model is now, if not where it was.

    Raises:
        TaggerError: the folder holds no sound tagger, or the features are not those that it reads.
        UsageError: settings that say how a corpus is read, beside a feature set.
        CorpusError: the corpus cannot be read.
    """
    opened = open_source(source)
    _refuse_unused_settings(opened, model, corpus_settings or CorpusSettings())
    tagger = open_tagger(tagger, model=model, device=device)
    return _predict_rows(tagger, opened, corpus_settings or CorpusSettings(), with_gold)


def tag_corpus(
    tagger: str | Path | Tagger,
    source: SentenceSource,
    out: str | Path | Callable[[str], object],
    *,
    to: PredictionForm = "conll",
    mark: MarkSpan | None = None,
    corpus_settings: CorpusSettings | None = None,
    model: str | Path | None = None,
    device: str | None = None,
) -> PredictionReport:
    """Tag what :func:`predict_tags` reads and write it to ``out``: a file, or a function that is called with each text.

    ``to`` is ``conll`` (a word and its tag a line), ``jsonl`` (an object a text, spans by character offsets) or
    ``text`` (each text on a line, its spans marked by ``mark``, by default in brackets). A file appears whole or
    not at all.

    Raises:
        UsageError: ``out`` is the source; the form cannot hold a text.
        StorageError: the file cannot be written.
        TaggerError, CorpusError: see :func:`predict_tags`.
    """
    opened = open_source(source)
    _refuse_unused_settings(opened, model, corpus_settings or CorpusSettings())
    tagger = open_tagger(tagger, model=model, device=device)
    if not callable(out):
        _refuse_own_input(Path(out), opened)
    write = choose_writer(to, has_spans=tagger.labels.has_spans, mark=mark or bracket_span)
    texts = empty = 0
    failures: list[Failure] = []
    with _open_output(out) as put:
        for row in _predict_rows(tagger, opened, corpus_settings or CorpusSettings(), with_gold=False):
            if isinstance(row, Failure):
                failures.append(row)
                continue
            texts, empty = texts + 1, empty + (not row.tags)
            if text := write(row):
                put(text)
    return PredictionReport(texts, empty, tuple(failures))


def open_tagger(tagger: str | Path | Tagger, *, model: str | Path | None, device: str | None) -> Tagger:
    """Load a tagger from its folder, unless it is loaded already."""
    return tagger if isinstance(tagger, Tagger) else Tagger(tagger, model=model, device=device)


def _predict_rows(
    tagger: Tagger, source: OpenSource, settings: CorpusSettings, with_gold: bool
) -> Iterator[TaggedText | Failure]:
    if isinstance(source, FeatureSet):
        yield from tagger.tag_features(source)
        return
    with _open_corpus_source(source, _choose_reading(tagger, source, settings, with_gold)) as corpus:
        next(check_readable(corpus.rows(), corpus), None)  # wrong columns are reported before anything is computed
        yield from tagger.tag_corpus(corpus)


@contextmanager
def _open_corpus_source(source: Path, settings: CorpusSettings) -> Iterator[Corpus]:
    if str(source) != STDIN:
        yield open_corpus([source], settings)
        return
    with TemporaryDirectory() as folder, spool_stdin(Path(folder), settings) as corpus:
        yield corpus


def _choose_reading(tagger: Tagger, source: Path, settings: CorpusSettings, with_gold: bool) -> CorpusSettings:
    """How to read the input: with document context if the tagger was trained so; CoNLL may lack tags."""
    with_context = bool(tagger.settings.extraction.document_context)
    has_sentences = format_of(str(source), settings.format).brings_tags
    if settings.document_context and not with_context:
        raise UsageError(f"the tagger was trained without {parameter('document_context')}", remedy="leave it out")
    if with_context and not has_sentences:
        raise UsageError(
            "the tagger was trained with document context, so its input has to be CoNLL with -DOCSTART- lines"
        )
    if has_sentences and not with_gold and settings.tag_column is None:
        settings = replace(settings, tag_column="1")  # there always is a first column; its content is not used
    return replace(settings, document_context=with_context)


def _refuse_unused_settings(source: OpenSource, model: str | Path | None, settings: CorpusSettings) -> None:
    """Refuse options that have no effect where the input is a feature set."""
    if isinstance(source, FeatureSet):
        refuse_corpus_settings(settings, f"{source.folder} is a feature set")
        if model is not None:
            raise UsageError(
                f"{parameter('model')}: for texts, and {source.folder} is a feature set", remedy="leave it out"
            )


def _refuse_own_input(out: Path, source: OpenSource) -> None:
    if not isinstance(source, FeatureSet) and str(source) != STDIN and real_path(out) == real_path(source):
        remedy = f"name another file with {parameter('out')}"
        raise UsageError(f"{out} is what is to be tagged, and would be lost", remedy=remedy)


@contextmanager
def _open_output(out: str | Path | Callable[[str], object]) -> Iterator[Callable[[str], object]]:
    """A function that writes a text and a line end."""
    if callable(out):
        yield out
        return
    with _open_whole_file(Path(out)) as file:
        yield lambda text: file.write(f"{text}\n")


@contextmanager
def _open_whole_file(path: Path) -> Iterator[IO[str]]:
    """A file that appears whole or not at all; a device or a pipe is written to as it is."""
    if path.exists() and not path.is_file() and not path.is_dir():
        with storage_errors(path.parent), _open_for_text(path) as file:
            yield file
        return
    with atomic(path) as temporary, _open_for_text(temporary) as file:
        yield file


def _open_for_text(path: Path) -> IO[str]:
    # a lone surrogate has no UTF-8 form; its backslash form is JSON's
    return path.open("w", encoding="utf-8", errors="backslashreplace")
