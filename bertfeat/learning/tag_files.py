"""Tagged texts, the forms in which they are written, and the scoring of files of predicted tags. It needs no torch."""

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from bertfeat.arguments import checked
from bertfeat.core import CorpusSettings, Document, Failure, open_corpus
from bertfeat.display import displayed
from bertfeat.errors import CorpusError, UsageError, errors_within, parameter
from bertfeat.learning.spans import OUTSIDE, TagScores, detect_scheme, read_spans, score_tags

# ── tagged texts ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A labeled span of a text."""

    label: str
    start: int  # characters
    end: int
    text: str | None  # None where the features were made without texts


@displayed
@dataclass(frozen=True, slots=True)
class TaggedText:
    """A text with a tag for each of its words."""

    row: int
    id: str
    text: str | None
    words: tuple[str, ...] | None  # None where the features were made without texts
    start: tuple[int, ...]  # character offsets of the words
    end: tuple[int, ...]
    tags: tuple[str, ...]  # BIO, or plain ones
    gold: tuple[str, ...] | None  # tags that the input brought

    @property
    def spans(self) -> tuple[TextSpan, ...]:
        """The spans that BIO tags stand for.

        Raises:
            CorpusError: the tags are plain ones.
        """
        bounds = [(span.label, self.start[span.start], self.end[span.stop - 1]) for span in read_spans(self.tags)]
        text = self.text
        return tuple(
            TextSpan(name, begin, end, None if text is None else text[begin:end]) for name, begin, end in bounds
        )


# ── forms ─────────────────────────────────────────────────────────────────────────────────────────────────


PredictionForm = Literal["conll", "jsonl", "text"]
MarkSpan = Callable[[str, str], str]
"""A function that marks a span: its text and its label → the marked text."""


def choose_writer(to: PredictionForm, *, has_spans: bool, mark: MarkSpan) -> Callable[[TaggedText], str]:
    """The function that writes a tagged text in a form."""
    writers: Mapping[str, Callable[[TaggedText], str]] = {
        "conll": format_conll,
        "jsonl": lambda tagged: format_jsonl(tagged, has_spans=has_spans),
        "text": lambda tagged: format_marked_text(tagged, has_spans=has_spans, mark=mark),
    }
    if to not in writers:
        raise UsageError(f"tags are written to {', '.join(writers)}, not to {to!r}")
    return writers[to]


def bracket_span(text: str, label: str) -> str:
    """A span in brackets: ``[Ada Lovelace PER]``."""
    return f"[{text} {label}]"


def format_conll(tagged: TaggedText) -> str:
    """One word and its tag per line, separated by a tab, each line with its line end.

    The line end that is written after each text makes an empty line.
    """
    if tagged.words is None:
        raise UsageError(
            "the features were made without their texts, so there are no words to write", remedy=_jsonl_remedy()
        )
    for cell in (*tagged.words, *tagged.tags):
        if not cell or any(sign in cell for sign in "\t\r\n"):
            raise UsageError(
                f"text {tagged.id}: {cell!r} does not fit a line of CoNLL, which parts columns by tabs",
                remedy=_jsonl_remedy(),
            )
    return "".join(f"{word}\t{tag}\n" for word, tag in zip(tagged.words, tagged.tags, strict=True))


def format_jsonl(tagged: TaggedText, *, has_spans: bool) -> str:
    """A JSON object: id, text, and spans (or words with their tags) by character offsets."""
    fields: dict[str, object] = {"id": tagged.id, "text": tagged.text}
    if has_spans:
        spans = [(span.label, span.start, span.end, span.text) for span in tagged.spans]
        fields["spans"] = [dict(zip(("label", "start", "end", "text"), span, strict=True)) for span in spans]
    else:
        words = tagged.words or [None] * len(tagged.tags)
        places = zip(words, tagged.start, tagged.end, tagged.tags, strict=True)
        fields["words"] = [dict(zip(("text", "start", "end", "tag"), place, strict=True)) for place in places]
    return json.dumps(fields, ensure_ascii=False)


def format_marked_text(tagged: TaggedText, *, has_spans: bool, mark: MarkSpan) -> str:
    """The text on one line with its spans (or words) marked."""
    if tagged.text is None:
        raise UsageError(
            "the features were made without their texts, so there is no text to show", remedy=_jsonl_remedy()
        )
    if has_spans:
        marks = [(span.start, span.end, span.label) for span in tagged.spans]
    else:
        marks = list(zip(tagged.start, tagged.end, tagged.tags, strict=True))
    pieces, at = [], 0
    for start, end, label in marks:
        pieces += [
            _without_controls(tagged.text[at:start]),
            mark(_without_controls(tagged.text[start:end]), _without_controls(label)),
        ]
        at = end
    return "".join([*pieces, _without_controls(tagged.text[at:])])


def _without_controls(text: str) -> str:
    """The text with a space for each unprintable character, so that it is one line and moves no terminal's cursor."""
    return "".join(sign if sign.isprintable() or sign in "\u200c\u200d" else " " for sign in text)


def _jsonl_remedy() -> str:
    return f"give {parameter('to', 'jsonl')}"


# ── files ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class TagPredictions:
    """The tags of each sentence: gold ones and those that a tagger predicted."""

    gold: tuple[tuple[str, ...], ...]
    predicted: tuple[tuple[str, ...], ...]


@checked
def read_predictions(path: str | Path, *, encoding: str | None = None, name: str | None = None) -> TagPredictions:
    """Read a file with one word per line, its gold tag in the last column but one, its predicted tag in the last.

    ``name`` is the name of the file in messages, where ``path`` is a copy.

    Raises:
        CorpusError: a sentence that cannot be read, no sentences, or columns that are not both tags of one kind.
    """
    where = name or str(path)
    words, gold, predicted = (tuple(_read_column(path, column, encoding, where)) for column in ("-3", "-2", "-1"))
    if not words:
        raise CorpusError("there are no sentences in it", where=where)
    for side, sentences in (("gold", gold), ("predicted", predicted)):
        try:
            detect_scheme(sentences)
        except CorpusError as error:
            raise error.within(f"{where}, {side} tags") from error
    return TagPredictions(gold, predicted)


def _read_column(path: str | Path, column: str, encoding: str | None, name: str) -> Iterator[tuple[str, ...]]:
    settings = CorpusSettings(format="conll", encoding=encoding, word_column="-3", tag_column=column)
    for row in open_corpus([path], settings, name=name).rows():
        if isinstance(row, Failure):
            missing, needed = "no column -3 for its words", "there must be three columns at least"
            problem = row.reason.partition(";")[0].replace(missing, needed)
            remedy = "a line is a word and, in its last two columns, gold and predicted tag"
            raise CorpusError(problem, remedy=remedy)
        if isinstance(row, Document):
            yield row.tags or ()


# ── evaluation ────────────────────────────────────────────────────────────────────────────────────────────


STDIN = "-"


@displayed
@dataclass(frozen=True, slots=True)
class TagEvaluation:
    """The agreement of the predicted tags in a file with the gold ones beside them."""

    scores: TagScores
    warnings: tuple[str, ...] = ()


@checked
def evaluate_predictions(path: str | Path, *, encoding: str | None = None) -> TagEvaluation:
    """Score a file of any tagger: one word per line, gold and predicted tags in the last two columns; ``"-"`` is stdin.

    Raises:
        CorpusError: a sentence that cannot be read, no sentences, or columns that are not both tags of one kind.
    """
    if str(path) == STDIN:
        with stdin_copy() as copy:
            predictions = read_predictions(copy, name="standard input", encoding=encoding)
    else:
        predictions = read_predictions(path, encoding=encoding)
    with errors_within(path):
        scores = score_tags(predictions.gold, predictions.predicted)
    return TagEvaluation(scores, (*_warn_of_labels(predictions), *_warn_of_schemes(predictions)))


def _warn_of_labels(predictions: TagPredictions) -> tuple[str, ...]:
    """Warn if the two columns have no label in common, and so may be the wrong ones."""
    gold, predicted = _labels_in(predictions.gold), _labels_in(predictions.predicted)
    if not gold or not predicted or set(gold) & set(predicted):
        return ()
    return (
        f"the gold and the predicted tags, which are the last two columns, have no label in common, such as "
        f"{gold[0]!r} and {predicted[0]!r}",
    )


def _labels_in(sentences: Iterable[Sequence[str]]) -> list[str]:
    """The labels of tags, without their prefixes, sorted."""
    return sorted({tag.partition("-")[2] or tag for tags in sentences for tag in tags} - {OUTSIDE})


def _warn_of_schemes(predictions: TagPredictions) -> tuple[str, ...]:
    """Warn that accuracy compares tags as written, where the columns are in different schemes."""
    gold, predicted = detect_scheme(predictions.gold), detect_scheme(predictions.predicted)
    if not (gold.has_spans and predicted.has_spans and gold is not predicted):
        return ()
    return (
        f"the gold tags are {gold} and the predicted ones {predicted}: spans are compared all the same, but accuracy, "
        f"as conlleval has it, counts a tag as right only where both are written alike",
    )


@contextmanager
def stdin_copy(name: str = "stdin") -> Iterator[Path]:
    """Standard input as a file of that name, for as long as it is read."""
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None:
        raise CorpusError("standard input is closed, or no stream of bytes", remedy="give a file, or pipe something in")
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        with path.open("xb") as file:
            shutil.copyfileobj(stream, file, 1 << 20)
        yield path
