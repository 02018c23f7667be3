"""The forms in which tagged texts are written: CoNLL, JSON lines, and texts with marked spans."""

import json
from collections.abc import Callable, Mapping
from typing import Literal

from bertfeat.errors import UsageError, parameter
from bertfeat.tagging.tagged_text import TaggedText

PredictionForm = Literal["conll", "jsonl", "text"]
MarkSpan = Callable[[str, str], str]
"""Marks a span: its text and its label → what is written."""


def choose_writer(to: PredictionForm, *, has_spans: bool, mark: MarkSpan) -> Callable[[TaggedText], str]:
    """The function that writes a tagged text in a form.

    Raises:
        UsageError: there is no such form.
    """
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
    """A word and its tag a line, parted by a tab, and an empty line at the end.

    Raises:
        UsageError: there are no words, or one does not fit a line.
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
    """The text on one line with its spans (or words) marked.

    Raises:
        UsageError: the text was not stored.
    """
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
    """The text on one line, with nothing that moves a terminal's cursor."""
    return "".join(sign if sign.isprintable() or sign in "\u200c\u200d" else " " for sign in text)


def _jsonl_remedy() -> str:
    return f"give {parameter('to', 'jsonl')}"
