"""``bertfeat tag predict``: texts, words or features with a tag for each word."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING

import click

from bertfeat.errors import ROWS_FAILED

from .frame import Command, option
from .kwic import has_colour
from .options import reading_options, talk_options
from .sources import STDIN
from .talk import Talk, counted

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
    help="A word and its tag a line, JSON a text, or texts with marks. Default: text on a terminal, else conll.",
)
@option("-o", "--output", type=click.File("w", encoding="utf-8", atomic=True), metavar="FILE", help="Default: stdout.")
@option("--model", metavar="DIR", further=True, help="Where the tagger's model is now, if not where it was.")
@option("--device", metavar="DEVICE", further=True, help="cpu, cuda, cuda:1; default: a GPU if there is one.")
@reading_options
@talk_options
def command(
    folder: Path,
    source: str,
    form: str | None,
    output: IO[str] | None,
    model: str | None,
    device: str | None,
    reading: "CorpusSettings",
    talk: Talk,
) -> None:
    """Tag a file of texts or words, or a feature set; - is stdin.

    Texts go through the very model and recipe that the tagger was trained on; features of another model are refused.
    Spans are written as BIO tags, or by jsonl (and --json) as character offsets.

    \b
    bertfeat tag predict ner.tagger news.txt
    bertfeat tag predict ner.tagger test.conll > predicted.conll
    echo "Ada Lovelace was born in London." | bertfeat tag predict ner.tagger - --to jsonl
    """
    from bertfeat.corpus import Failure
    from bertfeat.tagging import Tagger

    tagger = Tagger(folder, model=model, device=device)
    chosen = "jsonl" if talk.as_json else form or ("text" if output is None and sys.stdout.isatty() else "conll")
    write = _FORMS[chosen]
    failures: list[Failure] = []
    empty = 0
    with tagged_source(tagger, source, reading) as found:
        for each in found:
            if isinstance(each, Failure):
                failures.append(each)
                continue
            empty += not each.tags
            if text := write(each, tagger.labels.has_spans):
                click.echo(text, file=output, color=has_colour() and output is None)
    if empty and chosen == "conll":
        talk.say(f"{counted(empty, 'text')} without words left out")
    if failures:
        reasons = "".join(f"\n  {failure.reason}" for failure in failures[:SHOWN_FAILURES])
        talk.warn(f"{counted(len(failures), 'row')} failed and could not be tagged; the first are:{reasons}")
        raise click.exceptions.Exit(ROWS_FAILED)


@contextmanager
def tagged_source(
    tagger: "Tagger", source: str, reading: "CorpusSettings", *, gold: bool = False
) -> Iterator[Iterator["TaggedText | Failure"]]:
    """Tag a feature set, a file or standard input; the tags in it are read only if ``gold``."""
    from bertfeat.corpus import refuse_hopeless
    from bertfeat.features import FeatureSet
    from bertfeat.tagging import is_feature_set

    if is_feature_set(Path(source)):
        yield iter(tagger.tag_features(FeatureSet(source)))
        return
    with _opened(source, _reading(tagger, source, reading, gold)) as corpus:
        next(refuse_hopeless(corpus.rows(), corpus), None)  # wrong columns are told before anything is computed
        yield tagger.tag_corpus(corpus)


@contextmanager
def _opened(source: str, reading: "CorpusSettings") -> Iterator["Corpus"]:
    from bertfeat.corpus import open_corpus
    from bertfeat.extraction.spool import spooled

    if source != STDIN:
        yield open_corpus([source], reading)
        return
    with TemporaryDirectory() as folder, spooled(Path(folder), reading) as corpus:
        yield corpus


def _reading(tagger: "Tagger", source: str, reading: "CorpusSettings", gold: bool) -> "CorpusSettings":
    """How to read the input: with document context if the tagger was trained so; CoNLL may lack tags."""
    from bertfeat.corpus import ENDINGS

    context = bool(tagger.settings.extraction["document_context"])
    suffixes = [suffix for suffix in Path(source).suffixes if suffix in ENDINGS]
    sentences = (reading.format or ENDINGS.get(suffixes[-1] if suffixes else "", "text")) in ("conll", "conllu")
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


def _conll(tagged: "TaggedText", _has_spans: bool) -> str:
    if tagged.words is None:
        raise click.UsageError("the features were made with --no-text, so there are no words to write; give --to jsonl")
    return "".join(f"{word}\t{tag}\n" for word, tag in zip(tagged.words, tagged.tags, strict=True))


def _jsonl(tagged: "TaggedText", has_spans: bool) -> str:
    found: dict[str, object] = {"id": tagged.id, "text": tagged.text}
    if has_spans:
        spans = [(span.label, span.start, span.end, span.text) for span in tagged.spans]
        found["spans"] = [dict(zip(("label", "start", "end", "text"), span, strict=True)) for span in spans]
    else:
        words = tagged.words or [None] * len(tagged.tags)
        places = zip(words, tagged.start, tagged.end, tagged.tags, strict=True)
        found["words"] = [dict(zip(("text", "start", "end", "tag"), place, strict=True)) for place in places]
    return json.dumps(found, ensure_ascii=False)


def _text(tagged: "TaggedText", has_spans: bool) -> str:
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
        shown += [_line(tagged.text[at:start]), _mark(_line(tagged.text[start:end]), label)]
        at = end
    return "".join([*shown, _line(tagged.text[at:])])


def _mark(text: str, label: str) -> str:
    if not has_colour():
        return f"[{text} {label}]"
    colour = COLOURS[sum(map(ord, label)) % len(COLOURS)]
    return click.style(text, fg=colour, bold=True) + click.style(f" {label}", fg=colour, dim=True)


def _line(text: str) -> str:
    """The text on one line, with nothing that moves a terminal's cursor."""
    return "".join(sign if sign.isprintable() or sign in "\u200c\u200d" else " " for sign in text)


_FORMS: dict[str, Callable[["TaggedText", bool], str]] = {"conll": _conll, "jsonl": _jsonl, "text": _text}
