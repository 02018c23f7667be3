"""Corpora of every format and compression, damaged and crafted: every row is told of, and nothing takes the machine."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.hostile import corpora
from tests.hostile.corpora import Corpus, crafted
from tests.hostile.damage import Damage, damages
from tests.hostile.judge import Rule
from tests.hostile.process import Command, words
from tests.hostile.yard import Result, Tell, Use, Yard
from tests.support.corpus_writers import (
    COMPRESS,
    write_csv,
    write_jsonl,
    write_parquet,
    write_squad,
    write_text,
    write_tsv,
)

TEXTS = [f"The bank, number {at}, and the old mill of the river." for at in range(40)]
_CONLL = "\n".join("".join(f"{word} O\n" for word in text.split()) for text in TEXTS).encode()
_CONLLU = "\n".join(
    "".join(f"{at}\t{word}\t_\tNOUN\t_\t_\t0\t_\t_\t_\n" for at, word in enumerate(text.split(), 1)) for text in TEXTS
).encode()
FORMATS = {
    "txt": write_text(TEXTS),
    "jsonl": write_jsonl(TEXTS),
    "csv": write_csv(TEXTS),
    "tsv": write_tsv(TEXTS),
    "parquet": write_parquet(TEXTS),
    "conll": _CONLL,
    "conllu": _CONLLU,
    "json": write_squad(TEXTS),
    "fasta": "".join(f">p{at} number {at}\n{'MVLSPADKTN' * 7}\nKVKAAW*\n" for at in range(40)).encode(),
}
FILES = [
    (f"c.{kind}{ending}", data)
    for kind, data in FORMATS.items()
    for ending in COMPRESS
    if kind != "parquet" or not ending
]
_TINY = "--model model --device cpu --precision fp32"
CRAFTED = list(crafted())
LIGHT = [corpus for corpus in CRAFTED if not corpus.heavy]


def _info(file: str, *options: str) -> Use:
    return Use(f"info {file}", Command(words("info --json", (file, *options))), ())


def _extract(file: str, *options: str) -> Use:
    given = words(f"extract -o out.features {_TINY} --quiet", (file, *options))
    return Use(f"extract {file}", Command(given), ("model",), ("out.features",))


def _others(file: str) -> list[Use]:
    tagger = ("plain.tagger", "model")
    return [
        _extract(file, "--pooling", "word", "--context", "left:2"),
        Use("dry run", Command(words(f"extract {file} --dry-run -o out.features {_TINY}")), ("model",)),
        Use("bench", Command(words(f"bench {file} {_TINY} --repeats 1")), ("model",)),
        Use(
            "predict",
            Command(words(f"tag predict plain.tagger {file} --model model -o out.conll")),
            tagger,
            ("out.conll",),
        ),
        Use("score", Command(words(f"tag evaluate plain.tagger {file} --model model")), tagger),
        Use(
            "check",
            Command(words(f"verify docs.features --corpus {file} --model model --device cpu")),
            ("docs.features", "model"),
        ),
        Use(
            "train",
            Command(
                words(
                    f"tag train --train {file} --dev dev.features -o out.tagger --layers last --hidden 4 "
                    "--epochs 1 --device cpu"
                )
            ),
            ("dev.features", "model"),
            ("out.tagger",),
        ),
        Use(
            "table",
            Command(
                words(
                    f"tag table7 --train {file} --dev dev.features -o out.table7 --rows last --seeds 1 --hidden 4 "
                    "--epochs 1 --device cpu"
                )
            ),
            ("dev.features", "model"),
            ("out.table7",),
        ),
    ]


# ── damaged ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.hostile
@pytest.mark.parametrize("file", FILES, ids=lambda file: file[0])
def test_a_damaged_corpus(yard: Yard, tell: Tell, file: tuple[str, bytes]) -> None:
    tell(
        result for damage in damages(file[0], flips=10, cuts=7, other=False) for result in _damaged(yard, *file, damage)
    )


@pytest.mark.sampled(0, 16)
@pytest.mark.parametrize("number", range(len(FILES)))
def test_some_damaged_corpora(yard: Yard, tell: Tell, number: int) -> None:
    name, data = FILES[number]
    found = list(damages(name, flips=10, cuts=7, other=False))
    tell(_damaged(yard, name, data, found[(number * 5) % len(found)]))


def _damaged(yard: Yard, name: str, data: bytes, damage: Damage) -> Iterator[Result]:
    def write(place: Path) -> None:
        (place / name).write_bytes(COMPRESS[_compression(name)](data))

    def prepare(place: Path) -> None:
        write(place)
        damage.apply(place / name, None)

    sound = yard.run(_info(name), "undamaged", name, prepare=write)
    assert json.loads(sound.ended.stdout)["documents"] == len(TEXTS)
    case = f"{name} is {damage.name}"
    told = yard.run(_info(name), case, f"corpus: {name}", prepare=prepare, rule=Rule(names=(name,)))
    packed = bool(_compression(name)) or name.endswith("parquet")
    packed &= damage.name != "twice over"  # archives may follow one another
    silent = packed and told.told.code == 0 and told.told.stdout != sound.told.stdout and not damage.harmless
    checksummed = not name.endswith((".zst", ".parquet")) or "flipped" not in damage.name  # those have none by default
    if silent and checksummed:
        yield told.but("takes a damaged file for a whole one")
    elif damage.harmless and told.told != sound.told:
        yield told.but("gives another result")
    else:
        yield told
    others = _others(name)
    for use in (_extract(name), others[sum(map(ord, case)) % len(others)]):
        yield yard.run(
            use, case, f"corpus: {name}", prepare=prepare, rule=Rule(codes=(0, 1, 2, 3), names=(name, "dev.features"))
        )
        yield from _verified_if_made(yard, use, case, f"corpus: {name}")


def _compression(name: str) -> str:
    return next((ending for ending in COMPRESS if ending and name.endswith(ending)), "")


# ── crafted ─────────────────────────────────────────────────────────────────────────────────────────────────


def _id(corpus: Corpus) -> str:
    return f"{corpus.file} {corpus.name}"


@pytest.mark.hostile
@pytest.mark.parametrize("corpus", CRAFTED, ids=_id)
def test_a_crafted_corpus(yard: Yard, tell: Tell, corpus: Corpus) -> None:
    others = [] if corpus.heavy else _others(corpus.file)
    tell(_crafted(yard, corpus, others))


@pytest.mark.parametrize("corpus", LIGHT[::12], ids=_id)
def test_some_crafted_corpora(yard: Yard, tell: Tell, corpus: Corpus) -> None:
    tell(_crafted(yard, corpus, []))


def _crafted(yard: Yard, corpus: Corpus, others: list[Use]) -> Iterator[Result]:
    case, reader = f"{corpus.file}: {corpus.name}", f"crafted: {corpus.file}"

    def prepare(place: Path) -> None:
        corpora.write(corpus, place)

    rule = Rule(codes=(0, 1, 2), names=(corpus.file, "--", "dev.features"), processor=120.0 if corpus.heavy else 30.0)
    told = yard.run(_info(corpus.file, *corpus.options), case, reader, prepare=prepare, rule=rule)
    wrong = _wrong_count(told, corpus)
    yield told.but(wrong) if wrong else told
    rule = replace(rule, codes=corpus.codes)
    extracted = yard.run(_extract(corpus.file, *corpus.options), case, reader, prepare=prepare, rule=rule)
    yield extracted
    if extracted.told.code in (0, 3):
        yield _verified(yard, case, reader)
    for use in others:
        use = replace(use, command=replace(use.command, arguments=(*use.command.arguments, *_fitting(use, corpus))))
        yield yard.run(use, case, reader, prepare=prepare, rule=replace(rule, codes=(0, 1, 2, 3)))
        yield from _verified_if_made(yard, use, case, reader)


def _fitting(use: Use, corpus: Corpus) -> tuple[str, ...]:
    """The corpus's own options, of those that the verb has."""
    lacks = {"tag predict": ("--keep", "--tag-column", "--pairs"), "tag evaluate": ("--keep", "--pairs")}
    lacking = lacks.get(use.verb, ("--pairs",) if use.verb.startswith("tag") else ())
    return () if corpus.options[:1] and corpus.options[0] in lacking else corpus.options


def _wrong_count(told: Result, corpus: Corpus) -> str | None:
    if told.told.code or corpus.documents is None:
        return None
    found = json.loads(told.ended.stdout)["documents"]
    return None if found == corpus.documents else f"finds {found} documents of {corpus.documents}"


def _verified_if_made(yard: Yard, use: Use, case: str, reader: str) -> Iterator[Result]:
    if use.verb == "extract" and (yard.place / "out.features").exists():
        yield _verified(yard, case, reader)


def _verified(yard: Yard, case: str, reader: str) -> Result:
    """What was extracted is sound, unless it says that it is not finished."""
    use = Use("verify", Command(words("verify out.features --sample 0")), ())
    finished = (yard.place / "out.features" / ".bertfeat" / "manifest.json").exists()
    return yard.again(use, f"{case}, then", reader, Rule(codes=(0,) if finished else (1,)))
