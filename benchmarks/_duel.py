"""Several ways to compute the same features, each in a process of its own, run in turn and never at once."""

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Way:
    """A way of :mod:`_peer`, and the Python that has what it needs."""

    function: str  # pooled_ours:bf16
    python: str = sys.executable
    share: float = 1.0  # of the texts: a slow peer gets fewer
    checkout: Path | None = None  # of another commit, whose code and whose _peer.py it runs

    @property
    def name(self) -> str:
        """What it is called in results."""
        return self.function if self.checkout is None else f"{self.function}@{self.checkout.name}"


def duel(ways: Sequence[Way], texts: Sequence[str], model: Path, length: int, repeats: int) -> dict[str, Any]:
    """Run every way ``repeats`` times in turn. Gives tokens a second: medians, all runs, and what was left out."""
    counts = {way.name: tokens(_of(way, texts), model, length) for way in ways}
    speeds: dict[str, list[float]] = {way.name: [] for way in ways}
    failed: dict[str, str] = {}
    warm_ups: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        running = {}
        for way in ways:
            corpus = Path(folder) / f"{way.share}.json"
            corpus.write_text(json.dumps(_of(way, texts)), "utf-8")
            try:
                running[way.name], warm_ups[way.name] = stack.enter_context(_running(way, corpus, model, length))
            except RuntimeError as error:
                failed[way.name] = str(error)
        in_turn = [*running.items()]
        for _ in range(repeats):
            for name, process in in_turn:
                speeds[name].append(counts[name] / _ask(process))
            in_turn.reverse()  # what runs after a hot way is slower: 1.15 to 1.18 times, int8 after fp32 on AVX-512
    return {
        "texts": len(texts),
        "tokens": tokens(texts, model, length),
        "max_length": length,
        "tokens_per_second": {name: round(median(each)) for name, each in speeds.items() if each},
        "runs": {name: [round(speed) for speed in each] for name, each in speeds.items() if each},
        "warm_up_seconds": {name: round(seconds, 1) for name, seconds in warm_ups.items()},
        "fewer_texts": {way.name: way.share for way in ways if way.share < 1},
        "failed": failed,
    }


def ratio(result: dict[str, Any], ours: str, theirs: str) -> float | None:
    """The median, run by run, of our speed over another's."""
    runs = result["runs"]
    if ours not in runs or theirs not in runs:
        return None
    return round(median(a / b for a, b in zip(runs[ours], runs[theirs], strict=True)), 2)


def tokens(texts: Sequence[str], model: Path, length: int) -> int:
    """Count tokens as the model reads them: cut at ``length``, special tokens included."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return sum(min(length, len(each.ids)) for each in tokenizer.encode_batch(list(texts)))


def corpora(novels: Path, wanted: int) -> dict[str, list[str]]:
    """Distinct texts of about so many tokens each: sentences, paragraphs, and a mix with long tails.

    The mix: of 20 texts 10 sentences, 8 paragraphs, one of 4 and one of 12 paragraphs in a row.
    """
    sentences, paragraphs = (distinct_lines(novels / f"{name}.txt") for name in ("sentences", "paragraphs"))
    mixed: list[str] = []
    short, long = iter(sentences[::3]), iter(paragraphs[::2])
    characters = 0
    while characters < 4 * wanted:
        block = [next(short) for _ in range(10)] + [next(long) for _ in range(8)]
        block += [" ".join(next(long) for _ in range(number)) for number in (4, 12)]
        mixed += block
        characters += sum(map(len, block))
    random.Random(0).shuffle(mixed)
    return {"sentences": _some(sentences, wanted), "paragraphs": _some(paragraphs, wanted), "mix": mixed}


def distinct_lines(path: Path) -> list[str]:
    return list(dict.fromkeys(line for line in path.read_text("utf-8").split("\n") if line.strip()))


def _some(lines: list[str], wanted: int) -> list[str]:
    """Lines at even distances over the whole file."""
    number = round(len(lines) * min(1.0, 4.2 * wanted / sum(map(len, lines))))
    return [lines[at * len(lines) // number] for at in range(number)]


def _of(way: Way, texts: Sequence[str]) -> list[str]:
    return list(texts[:: round(1 / way.share)])


@contextmanager
def _running(way: Way, corpus: Path, model: Path, length: int) -> Iterator[tuple["subprocess.Popen[str]", float]]:
    """Start a way, and give it once it is warm, with the seconds of its first run, over an eighth of the texts."""
    home = way.checkout or HERE.parent
    script = home / "benchmarks" / "_peer.py"
    command = [way.python, str(script), way.function, str(corpus), str(model), str(length)]
    environment, pipe = os.environ | ({"PYTHONPATH": str(home)} if way.checkout else {}), subprocess.PIPE
    with (
        tempfile.TemporaryFile("w+") as told,
        subprocess.Popen(command, text=True, env=environment, stdin=pipe, stdout=pipe, stderr=told) as process,
    ):
        try:
            assert process.stdout
            if not (warm_up := process.stdout.readline()):
                told.seek(0)
                raise RuntimeError((told.read().strip().splitlines() or ["it ended without a word"])[-1])
            yield process, float(warm_up)
        finally:
            assert process.stdin
            process.stdin.close()


def _ask(process: "subprocess.Popen[str]") -> float:
    assert process.stdin
    assert process.stdout
    process.stdin.write("run\n")
    process.stdin.flush()
    return float(process.stdout.readline())
