"""``bertfeat tag predict``: texts, words or features with a tag for each word."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Any

import click

from bertfeat.errors import ROWS_FAILED

from ..app import Command, option
from ..bundles import leave_out
from ..console import Console, pluralize
from ..options import output_options, reading_options
from ..paths import STDIN
from ..terminal import has_colour
from .sets import PAIRS, refuse_unused, tagger_options

if TYPE_CHECKING:
    from bertfeat.corpus import Corpus, CorpusSettings, Failure
    from bertfeat.tagging import TaggedText, Tagger

COLOURS = ("red", "green", "yellow", "blue", "magenta", "cyan")
SHOWN_FAILURES = 5


@click.command(cls=Command, name="predict")
@click.argument("folder", metavar="TAGGER", type=click.Path(path_type=Path))
@click.argument("source", metavar="INPUT")
@option(
    "--to",
    "form",
    type=click.Choice(["conll", "jsonl", "text"]),
    show_default="text on a terminal, else conll",
    help="A word and its tag a line, JSON a text, or texts with marks.",
)
@option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    show_default="standard output",
    help="Where the tags go.",
)
@tagger_options
@reading_options
@output_options
def command(
    folder: Path,
    source: str,
    form: str | None,
    output: Path | None,
    model: str | None,
    device: str | None,
    reading: "CorpusSettings",
    console: Console,
) -> None:
    """Tag a file of texts or words, or a feature set; - is stdin.

    Texts go through the very model and recipe that the tagger was trained on; features of another model are refused.
    Spans are written as BIO tags, or by jsonl (and --json) as character offsets.

    \b
    bertfeat tag predict ner.tagger news.txt
    bertfeat tag predict ner.tagger test.conll > predicted.conll
    echo "Ada Lovelace was born in London." | bertfeat tag predict ner.tagger - --to jsonl
    """
    if console.as_json and form not in (None, "jsonl"):
        raise click.UsageError(f"--json is --to jsonl; leave it or --to {form} out")
    refuse_unused(source, model, reading)
    to_stdout = output is None or str(output) == STDIN
    from bertfeat.tagging import Tagger

    tagger = Tagger(folder, model=model, device=device)
    chosen = "jsonl" if console.as_json else form or ("text" if to_stdout and sys.stdout.isatty() else "conll")
    if to_stdout:
        colour = has_colour()
        done = _write(tagger, source, reading, chosen, colour, lambda line: click.echo(line, color=colour))
    else:
        assert output is not None
        refuse_own_input(output, source)
        with _output(output) as file:
            done = _write(tagger, source, reading, chosen, False, lambda line: file.write(f"{line}\n"))
    _tell(done, chosen, console)


leave_out(command, "keep", "tag_column", *PAIRS)


@dataclass(slots=True)
class _Written:
    """What became of the texts."""

    failures: list["Failure"]
    empty: int = 0  # texts without words


def _write(
    tagger: "Tagger", source: str, reading: "CorpusSettings", form: str, colour: bool, put: Callable[[str], Any]
) -> _Written:
    """Tag everything and put it out, text by text."""
    from bertfeat.corpus import Failure

    done = _Written([])
    write = _FORMS[form]
    with tagged_source(tagger, source, reading) as found:
        for each in found:
            if isinstance(each, Failure):
                done.failures.append(each)
                continue
            done.empty += not each.tags
            if text := write(each, tagger.labels.has_spans, colour):
                put(text)
    return done


def _tell(done: _Written, form: str, console: Console) -> None:
    if done.empty and form == "conll":
        console.say(f"{pluralize(done.empty, 'text')} without words left out")
    if done.failures:
        reasons = "".join(f"\n  {failure.reason}" for failure in done.failures[:SHOWN_FAILURES])
        console.warn(f"{pluralize(len(done.failures), 'row')} failed and could not be tagged; the first are:{reasons}")
        raise click.exceptions.Exit(ROWS_FAILED)


def refuse_own_input(output: Path, source: str) -> None:
    """Refuse to write over the file that is read."""
    from bertfeat.io import real_path

    if source != STDIN and real_path(output) == real_path(source):
        raise click.UsageError(f"{output} is what is to be tagged, and would be lost; name another file with -o")


@contextmanager
def _output(path: Path) -> Iterator[IO[str]]:
    """A file that appears whole or not at all; a device or a pipe is written to as it is."""
    from bertfeat.io import atomic, writing

    # a lone surrogate has no UTF-8 form; its backslash form is JSON's
    form: dict[str, Any] = {"encoding": "utf-8", "errors": "backslashreplace"}
    if path.exists() and not path.is_file() and not path.is_dir():
        with writing(path.parent), path.open("w", **form) as file:
            yield file
        return
    with atomic(path) as temporary, temporary.open("w", **form) as file:
        yield file


@contextmanager
def tagged_source(
    tagger: "Tagger", source: str, reading: "CorpusSettings", *, gold: bool = False
) -> Iterator[Iterator["TaggedText | Failure"]]:
    """Tag a feature set, a file or standard input; the tags in it are read only if ``gold``."""
    from bertfeat.corpus import check_readable
    from bertfeat.features import FeatureSet
    from bertfeat.tagging import is_feature_set

    if is_feature_set(Path(source)):
        yield iter(tagger.tag_features(FeatureSet(source)))
        return
    with _opened(source, _reading(tagger, source, reading, gold)) as corpus:
        next(check_readable(corpus.rows(), corpus), None)  # wrong columns are told before anything is computed
        yield tagger.tag_corpus(corpus)


@contextmanager
def _opened(source: str, reading: "CorpusSettings") -> Iterator["Corpus"]:
    from bertfeat.corpus import open_corpus
    from bertfeat.errors import CorpusError
    from bertfeat.extraction import spool_stdin
    from bertfeat.features.parts import SPOOL_NAME
    from bertfeat.io import STATE_FOLDER

    if source != STDIN:
        yield open_corpus([source], reading)
        return
    with TemporaryDirectory() as folder:
        try:
            with spool_stdin(Path(folder), reading) as corpus:
                yield corpus
        except CorpusError as error:  # which names the copy
            told = str(error).replace(f"{folder}/{STATE_FOLDER}/{SPOOL_NAME}", "standard input")
            raise type(error)(told) from error


def _reading(tagger: "Tagger", source: str, reading: "CorpusSettings", gold: bool) -> "CorpusSettings":
    """How to read the input: with document context if the tagger was trained so; CoNLL may lack tags."""
    from bertfeat.corpus import format_of

    context = bool(tagger.settings.extraction.document_context)
    sentences = "document_context" in format_of(Path(source).name, reading.format).options
    if reading.document_context and not context:
        raise click.UsageError("the tagger was trained without --document-context; leave it out")
    if context and not sentences:
        raise click.UsageError(
            "the tagger was trained with document context, so its input has to be CoNLL with -DOCSTART- lines"
        )
    if sentences and not gold and reading.tag_column is None:
        reading = replace(reading, tag_column="1")  # there always is a first column, and what it says is not used
    return replace(reading, document_context=context)


# ── forms ───────────────────────────────────────────────────────────────────────────────────────────────────


def _conll(tagged: "TaggedText", _has_spans: bool, _colour: bool) -> str:
    if tagged.words is None:
        raise click.UsageError("the features were made with --no-text, so there are no words to write; give --to jsonl")
    for cell in (*tagged.words, *tagged.tags):
        if not cell or any(sign in cell for sign in "\t\r\n"):
            raise click.UsageError(
                f"text {tagged.id}: {cell!r} does not fit a line of CoNLL, which parts columns by tabs; give --to jsonl"
            )
    return "".join(f"{word}\t{tag}\n" for word, tag in zip(tagged.words, tagged.tags, strict=True))


def _jsonl(tagged: "TaggedText", has_spans: bool, _colour: bool) -> str:
    found: dict[str, object] = {"id": tagged.id, "text": tagged.text}
    if has_spans:
        spans = [(span.label, span.start, span.end, span.text) for span in tagged.spans]
        found["spans"] = [dict(zip(("label", "start", "end", "text"), span, strict=True)) for span in spans]
    else:
        words = tagged.words or [None] * len(tagged.tags)
        places = zip(words, tagged.start, tagged.end, tagged.tags, strict=True)
        found["words"] = [dict(zip(("text", "start", "end", "tag"), place, strict=True)) for place in places]
    return json.dumps(found, ensure_ascii=False)


def _text(tagged: "TaggedText", has_spans: bool, colour: bool) -> str:
    """The text with its spans (or words) marked: in colours on a terminal, else in brackets."""
    if tagged.text is None:
        raise click.UsageError("the features were made with --no-text, so there is no text to show; give --to jsonl")
    marks = (
        [(span.start, span.end, span.label) for span in tagged.spans]
        if has_spans
        else list(zip(tagged.start, tagged.end, tagged.tags, strict=True))
    )
    shown, at = [], 0
    for start, end, label in marks:
        shown += [_line(tagged.text[at:start]), _mark(_line(tagged.text[start:end]), _line(label), colour)]
        at = end
    return "".join([*shown, _line(tagged.text[at:])])


def _mark(text: str, label: str, colour: bool) -> str:
    if not colour:
        return f"[{text} {label}]"
    chosen = COLOURS[sum(map(ord, label)) % len(COLOURS)]
    return click.style(text, fg=chosen, bold=True) + click.style(f" {label}", fg=chosen, dim=True)


def _line(text: str) -> str:
    """The text on one line, with nothing that moves a terminal's cursor."""
    return "".join(sign if sign.isprintable() or sign in "\u200c\u200d" else " " for sign in text)


_FORMS: dict[str, Callable[["TaggedText", bool, bool], str]] = {"conll": _conll, "jsonl": _jsonl, "text": _text}
