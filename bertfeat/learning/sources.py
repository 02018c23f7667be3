"""The sources of examples: corpora and feature sets, opened, and the errors of those that lack what is predicted."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

from bertfeat.core import CorpusSettings, FeatureSet, FileCorpus, list_parts, open_corpus
from bertfeat.errors import CorpusError, HeadError, UsageError, did_you_mean, parameter, quote_names
from bertfeat.io import Address, ResultKind, as_location, result_kind
from bertfeat.learning.example_store import describe_source
from bertfeat.learning.kinds import PairForm
from bertfeat.learning.tag_files import stdin_copy

HeadSource = str | Path | Address | FeatureSet | tuple[FeatureSet, FeatureSet]
"""Examples: a corpus file, a feature set or its folder, or two sets of the first and the second texts."""

OpenSource = tuple[FeatureSet, ...] | Path
"""An opened source: its feature sets, or the path of a corpus."""

STDIN = "-"
_SEPARATOR = ","  # separates the folders of two feature sets in one string


class GoldUse(Enum):
    """The use that is made of the gold values of a source, which are to be predicted."""

    IGNORED = "they are not read"
    READ = "they are read where there are any"
    NEEDED = "a source without them is refused"


@dataclass(frozen=True, slots=True)
class SourceReading:
    """The way in which a source is read: its columns, the form of its pairs, and the use of its gold values."""

    corpus: CorpusSettings = field(default_factory=CorpusSettings)
    label: str | None = None  # column that holds what is to be predicted; several are separated by commas
    choices: tuple[str, ...] = ()  # columns of the choices
    pairs: PairForm | None = None  # None: apart, where there are pairs
    gold: GoldUse = GoldUse.NEEDED
    head: Path | None = None  # a saved head whose record names the columns that are not given
    name: str | None = None  # of a corpus in messages, if its file is a copy
    document_context: bool | None = None  # whether the head's features were made with it; None: as the corpus is read


def open_head_source(source: HeadSource) -> OpenSource:
    """Open the feature sets that a source names; any other path stays a path."""
    if isinstance(source, tuple):
        return source
    if isinstance(source, str) and _SEPARATOR in source and not Path(source).exists():
        folders = source.split(_SEPARATOR)
        if len(folders) == 2 and all(map(_is_feature_set, folders)):
            return tuple(FeatureSet(folder) for folder in folders)
    if isinstance(source, FeatureSet):
        return (source,)
    place = as_location(source)
    if _is_feature_set(place):
        return (FeatureSet(place),)
    if isinstance(place, Address):
        remedy = "extract the corpus to an address, or give a file of this machine"
        raise UsageError("there is no feature set at this address", where=place, remedy=remedy)
    return place


def _is_feature_set(source: str | Path | Address) -> bool:
    """Whether a folder holds a feature set, finished or not."""
    place = as_location(source)
    return result_kind(place) is ResultKind.FEATURES and bool(list_parts(place))


@contextmanager
def file_source(corpus: Path) -> Iterator[Path]:
    """Yield a corpus file; standard input (``-``) is copied to a file first, since it may be read twice."""
    if str(corpus) != STDIN:
        yield corpus
        return
    with stdin_copy("stdin.txt") as path:
        yield path


def check_file(corpus: Path) -> None:
    """Refuse a path that is not a file."""
    if corpus.is_dir():
        remedy = "give a corpus file or what bertfeat extract wrote"
        raise UsageError("a folder that is no feature set", where=corpus, remedy=remedy)
    if not corpus.is_file():
        raise CorpusError("no such file or feature set", where=corpus, remedy="check the path")


def open_with_columns(
    corpus: Path,
    how: SourceReading,
    find: Callable[[Collection[str]], tuple[str, ...]],
    *,
    noun: str,
    form: str = "",
    as_text: bool = False,
) -> FileCorpus:
    """Open a corpus that keeps the columns of gold values, which ``find`` picks from those that there are.

    They may be missing if they are not needed. ``noun`` is the word for gold values in messages, and ``form`` says how
    they are written, where not every value will do; they are read ``as_text``, or as the format has them.

    Raises:
        HeadError: a column is missing that is needed.
    """
    check_file(corpus)
    plain = open_corpus([corpus], how.corpus, name=how.name)
    columns = find(plain.columns)
    if lacking := [
        each for each in columns if each not in plain.columns and not is_inner_field(each, corpus, how.corpus, how.name)
    ]:
        if how.gold is GoldUse.NEEDED:
            raise _no_column_error(corpus, plain, lacking[0], how, form)
        return plain
    if not columns:
        if how.gold is GoldUse.NEEDED:
            raise unnamed_error(how, noun)
        return plain
    # labels are compared as text: 1.1 and 1.10 are different ones
    kind = ":string" if as_text or plain.files[0].source.format.cells else ""
    keep = (*how.corpus.keep, *(f"{column}{kind}" for column in columns))
    return open_corpus([corpus], replace(how.corpus, keep=keep), name=how.name)


def is_inner_field(column: str, corpus: Path, reading: CorpusSettings, name: str | None = None) -> bool:
    """Whether a column is a field within objects of a corpus: ``labels.label``."""
    if "." not in column:
        return False
    try:
        open_corpus([corpus], replace(reading, keep=(*reading.keep, column)), name=name)
    except UsageError:
        return False
    return True


def check_columns(features: FeatureSet, needed: Collection[str]) -> None:
    """Refuse a feature set that did not keep the columns of the gold values."""
    kept = tuple(each.name for each in features.kept)
    for column in needed:
        if column not in kept:
            remedy = f"{did_you_mean(column, kept)}give the corpus, or extract it with {parameter('keep', needed)}"
            problem = f"there is no column {column!r}; kept are {quote_names(kept)}"
            raise HeadError(problem, where=describe_source(features), remedy=remedy)


def unnamed_error(how: SourceReading, noun: str) -> HeadError:
    """The error where nothing says which column holds the gold values."""
    problem = f"which column holds the {noun} is not said"
    if how.head:
        problem += f", nor does the head {how.head} say it"
    return HeadError(problem, remedy=f"name it with {parameter('label')}")


def _no_column_error(corpus: Path, opened: FileCorpus, column: str, how: SourceReading, form: str) -> HeadError:
    file_format = opened.files[0].source.format
    if not file_format.records:
        problem, remedy = f"a {file_format.name} file has no column {column!r}", "give JSON, CSV or Parquet"
        return HeadError(problem, where=corpus, remedy=remedy)
    remedy = form or f"{did_you_mean(column, opened.columns)}name it with {parameter('label')}"
    named = f", from which the head {how.head} learned" if how.head else ""
    problem = f"there is no column {column!r}{named}; there are {quote_names(opened.columns)}"
    return HeadError(problem, where=corpus, remedy=remedy)
