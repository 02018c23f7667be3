"""Names with line feeds, escape sequences, turned directions, 5,000 characters: of files, columns, labels, tags."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile.judge import _CONTROL, Rule
from tests.hostile.process import Command, words
from tests.hostile.yard import Result, Tell, Use, Yard

_TINY = ("--model", "model", "--device", "cpu", "--precision", "fp32")
NAMES = {
    "a line feed": "a\nerror: b",
    "escape sequences": "\x1b[31mred\x1b]0;title\x07",
    "another direction": "a\u202eb\u2066c",
    "no UTF-8": "a\udcffb",
    "200 characters": "n" * 200,
    "a dash first": "-dash",
    "patterns": "a[bc]*?{d}",
    "quotes and backslashes": "a'b\"c\\d`e$f",
    "blanks": " a  b ",
    "format signs": "%s{0}%d{x!r}",
    "characters of two cells": "은행 🙂👩‍👩‍👧",
    "a byte order mark": "\ufeffa",
    "a lone surrogate": "\ud800x",
    "a percent sign": "100%",
    "markup": "<script>alert(1)</script>[bold]x[/bold]",
    "an equals sign": "=1+1",
}
FILES = {name: text.replace("/", "|") for name, text in NAMES.items() if name != "a lone surrogate"}
TEXT = "The bank of the river.\nThe old mill.\nHe went north.\n"


def _place(folder: Path, name: str) -> str:
    """A name as an argument: one that begins with a dash needs a folder before it."""
    return f"./{name}" if name.startswith("-") else name


@pytest.mark.hostile
@pytest.mark.parametrize("kind", FILES)
def test_names_of_files(yard: Yard, tell: Tell, kind: str) -> None:
    tell(_files(yard, kind, FILES[kind]))


def _files(yard: Yard, kind: str, name: str) -> Iterator[Result]:
    """One name for a corpus, its features, their index, a picture, and folders around them."""
    place = yard.fresh(("model", "queries.txt", "plain.tagger"))
    corpus, case = f"{name}.txt", f"files with {kind} in their names"
    (place / corpus).write_text(TEXT)
    (place / f"{name}.conll").write_text("The O\nbank O\n")
    given = [
        ("extract", _place(place, corpus), "-o", _place(place, f"{name}.features"), *_TINY, "--pooling", "mean,word"),
        ("info", _place(place, f"{name}.features")),
        ("verify", _place(place, f"{name}.features"), "--model", "model", "--device", "cpu"),
        ("index", _place(place, f"{name}.features"), "-o", _place(place, f"{name}.index"), "--column", "last_mean"),
        ("info", _place(place, f"{name}.index")),
        ("verify", _place(place, f"{name}.index")),
        ("search", _place(place, f"{name}.index"), "old", "--model", "model"),
        ("usages", _place(place, f"{name}.features"), "bank"),
        ("plot", "map", _place(place, f"{name}.features"), "-o", _place(place, f"{name}.png")),
        ("plot", "map", _place(place, f"{name}.features"), "-o", _place(place, f"{name}.html")),
        (
            "export",
            _place(place, f"{name}.features"),
            "--to",
            "npy",
            "--column",
            "last_mean",
            "-o",
            _place(place, f"{name}.npy"),
        ),
        (
            "contexts",
            _place(place, corpus),
            "--model",
            "model",
            "--size",
            "4",
            "-o",
            _place(place, f"{name}.parquet"),
        ),
        (
            "extract",
            _place(place, f"{name}.parquet"),
            "--pretokenized",
            "--text-column",
            "token_ids",
            "-o",
            _place(place, f"{name}.ids"),
            *_TINY,
            "--pooling",
            "token",
        ),
        *(
            ("export", _place(place, f"{name}.ids"), "--to", "saelens", "-o", _place(place, f"{name}.saelens"), *more)
            for more in ((), ("--overwrite",))
        ),
        (
            "tag",
            "predict",
            "plain.tagger",
            _place(place, f"{name}.conll"),
            "--model",
            "model",
            "-o",
            _place(place, f"{name}.out"),
        ),
        ("extract", _place(place, f"{name}.gone"), "-o", "x.features", *_TINY),
        ("search", _place(place, f"{name}.gone"), "x"),
        ("verify", _place(place, f"{name}.gone")),
        ("plot", "layers", _place(place, f"{name}.gone"), "-o", "x.png"),
        ("tag", "evaluate", "--predictions", _place(place, f"{name}.gone")),
    ]
    for arguments in given:
        missing = any(each.endswith(".gone") for each in arguments)
        indexed = any(each.endswith(".index") for each in arguments)
        use = Use("names", Command(arguments), (), (_pattern(name), "x.features", "x.png"))
        result = yard.again(
            use,
            f"{case}: {' '.join(arguments[:2])[:20]}",
            "names",
            Rule(codes=(1, 2) if missing or (indexed and kind == "no UTF-8") else (0,)),
        )
        yield _shown(result)


def _pattern(name: str) -> str:
    """For fnmatch: the name, its signs that mean something put in brackets."""
    return "".join(f"[{each}]" if each in "[*?" else each for each in name) + "*"


def _shown(result: Result) -> Result:
    """What is printed for people must not steer their terminal."""
    match = _CONTROL.search(result.ended.stdout)
    return result.but(f"writes the control character {match[0]!r} to stdout") if match else result


@pytest.mark.hostile
@pytest.mark.parametrize("kind", [*NAMES, "5,000 characters"])
def test_names_in_a_corpus(yard: Yard, tell: Tell, kind: str) -> None:
    tell(_columns(yard, kind, NAMES.get(kind, "n" * 5000)))


def _columns(yard: Yard, kind: str, name: str) -> Iterator[Result]:
    """One text as an id, as a kept column's name and its values, and in what is asked of them."""
    place = yard.fresh(("model",))
    escaped = json.dumps(name)
    lines = [
        f'{{"id": {escaped}, "text": "The bank {at}.", {escaped}: {escaped}, '
        f'"label": {json.dumps(name + str(at % 2))}}}'
        for at in range(8)
    ]
    (place / "c.jsonl").write_text("\n".join(lines) + "\n")
    (place / "ids.txt").write_bytes(f"{name}\n".encode("utf-8", "surrogatepass"))
    column = name.encode("utf-8", "replace").decode()
    given: list[tuple[str, ...]] = [
        ("extract", "c.jsonl", "-o", "c.features", *_TINY, "--pooling", "mean,word", "--keep", "all"),
        ("info", "c.features"),
        ("verify", "c.features", "--sample", "0"),
        ("export", "c.features", "--to", "csv", "--column", "last_mean", "-o", "c.csv"),
        ("index", "c.features", "-o", "c.index", "--column", "last_mean"),
        ("search", "c.index", "bank", "--model", "model", "--show", "all"),
        ("search", "c.index", "bank", "--model", "model", "--json"),
        ("search", "c.index", "bank", "--model", "model", "--show", column),
        ("search", "c.index", "bank", "--model", "model", "--where", f"label = '{column}'"),
        ("search", "c.index", "bank", "--model", "model", "--where", f"{column} = 1"),
        ("search", "c.index", column, "--model", "model"),
        ("usages", "c.features", "bank", "--show", "all"),
        ("usages", "c.features", "bank", "--csv"),
        ("usages", "c.features", column),
        ("probe", "c.features", "--label", "label", "--pooling", "mean", "--folds", "2"),
        ("probe", "c.features", "--label", column, "--pooling", "mean", "--folds", "2"),
        ("change", "c.features", "bank", "--by", "label", "--least", "2", "--senses", "2"),
        ("change", "c.features", "--by", column),
        ("plot", "map", "c.features", "--color", "label", "-o", "c.png"),
        ("plot", "map", "c.features", "--color", column, "-o", "d.png"),
        ("plot", "map", "c.features", "--color", "label", "-o", "c.html"),
        ("index", "-o", "c.index", "--remove", "ids.txt"),
    ]
    for arguments in given:
        use = Use("names", Command(tuple(map(_given, arguments))), (), ("c.*", "d.*"))
        result = yard.again(use, f"values with {kind}: {' '.join(arguments[:2])[:20]}", "names", Rule(codes=(0, 1, 2)))
        yield _shown(result) if "--json" not in arguments and "--csv" not in arguments else result


def _given(argument: str) -> str:
    """An argument without NUL, which no command line can hold."""
    return os.fsdecode(os.fsencode(argument.replace("\0", "")))


@pytest.mark.hostile
@pytest.mark.parametrize(
    "kind", [kind for kind in NAMES if kind not in ("a line feed", "blanks", "no UTF-8", "a lone surrogate")]
)
def test_names_of_tags(yard: Yard, tell: Tell, kind: str) -> None:
    tell(_tags(yard, NAMES[kind].replace(" ", "_"), kind))


def _tags(yard: Yard, name: str, kind: str) -> Iterator[Result]:
    place = yard.fresh(("model",))
    for file, number in (("train.conll", 12), ("dev.conll", 6)):
        sentence = f"The\tO\nbank\tB-{name}\n{name}\tI-{name}\n"
        (place / file).write_text("\n".join([sentence] * number), "utf-8")
    (place / "p.tsv").write_text(f"a\tB-{name}\tO\nb\t{name}\tB-{name}\n", "utf-8")
    given: list[tuple[str, ...]] = [
        words(
            "tag train --train train.conll --dev dev.conll -o t.tagger --layers last --hidden 4 --epochs 1 "
            "--model model --device cpu"
        ),
        words("info t.tagger"),
        words("verify t.tagger"),
        words("tag predict t.tagger dev.conll --model model --to text"),
        words("tag predict t.tagger dev.conll --model model --to jsonl"),
        words("tag evaluate t.tagger dev.conll --model model"),
        words("tag evaluate --predictions p.tsv"),
        words("probe train.features --label tags --folds 2 --layers last"),
    ]
    for arguments in given:
        result = yard.again(
            Use("names", Command(arguments), (), ("t.tagger",)),
            f"tags with {kind}: {' '.join(arguments[:2])}",
            "names",
            Rule(codes=(0, 1, 2)),
        )
        yield _shown(result) if arguments[-1] not in ("jsonl", "text") else result
