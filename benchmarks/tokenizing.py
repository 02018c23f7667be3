"""How fast are texts split into pieces, ids and character offsets, next to tokenizers and nanotoken?

    python benchmarks/tokenizing.py --data NOVELS [--tokens 1000000] [--repeats 7]
                                    [--nanotoken-python .venv-peers/bin/python]

NOVELS holds sentences.txt and paragraphs.txt. The default model's tokenizer splits about so many tokens of each. In
turn, on one core, from texts to arrays: `ours` (by our kernel, as `extract` is given them), `tokenizers`
(encode_batch_fast, or encode_batch where offsets are wanted, with their objects turned into arrays), and, with a Python
that has it, `nanotoken`, which gives ids alone, and keeps the words that it has met. Ids and offsets of all texts are
compared first.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

os.environ["RAYON_NUM_THREADS"] = "1"  # before tokenizers is imported

import numpy as np
from _duel import corpora
from _machine import machine
from tokenizers import Encoding, Tokenizer as FastTokenizer

from bertfeat import Extractor
from bertfeat.core.tokens import Tokenizer
from bertfeat.core.tokens.wordpiece import WordPiece

RESULT = Path(__file__).parent / "results" / "tokenizing.json"
NANOTOKEN = """
import json, sys, time
import nanotoken
texts = json.load(open(sys.argv[1]))
tokenizer = nanotoken.Tokenizer(sys.argv[2])
seconds = []
for _ in range(int(sys.argv[3])):
    began = time.perf_counter()
    tokenizer.encode_batch(texts, add_special_tokens=False, parallel=False)
    seconds.append(time.perf_counter() - began)
print(json.dumps(seconds))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tokens", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--nanotoken-python", type=Path, help="a Python with nanotoken")
    given = parser.parse_args()
    file = Extractor().model.folder / "tokenizer.json"
    tokenizer, library = Extractor().tokenizer, FastTokenizer.from_file(str(file))
    library.no_truncation()
    library.no_padding()
    found: dict[str, Any] = {"machine": machine()}
    for name, texts in corpora(given.data, given.tokens).items():
        found[name] = measure(texts, tokenizer, library, given.repeats)
        if given.nanotoken_python is not None:
            seconds = nanotoken(given.nanotoken_python, texts, file, given.repeats)
            found[name]["million_tokens_a_second"]["nanotoken"] = rate(found[name]["tokens"], seconds)
        print(name, json.dumps(found[name]), flush=True)
    RESULT.write_text(json.dumps(found, indent=1) + "\n")


def measure(texts: list[str], tokenizer: Tokenizer, library: FastTokenizer, repeats: int) -> dict[str, Any]:
    """Compare what all ways give, and measure them in turn."""
    kernel = WordPiece.of(library)
    if kernel is None:
        raise SystemExit("the kernel was not built: there is no C compiler")
    pieces = tokenizer.pieces(texts, offsets=True)
    encodings = library.encode_batch(texts, add_special_tokens=False)
    for own, theirs in zip(pieces, encodings, strict=True):
        assert own.spans is not None
        spans = list(zip(own.spans.start.tolist(), own.spans.end.tolist(), strict=True))
        assert (own.ids.tolist(), spans) == (theirs.ids, theirs.offsets)
    ways: dict[str, Callable[[], object]] = {
        "ours": lambda: tokenizer.pieces(texts, offsets=False),
        "ours, offsets": lambda: tokenizer.pieces(texts, offsets=True),
        "tokenizers": lambda: [ids_of(each) for each in library.encode_batch_fast(texts, add_special_tokens=False)],
        "tokenizers, offsets": lambda: [
            (ids_of(each), np.array(each.offsets, np.int32))
            for each in library.encode_batch(texts, add_special_tokens=False)
        ],
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            seconds[name].append(time.perf_counter() - began)
    tokens = len(pieces.ids)

    def faster(ours: str, theirs: str) -> float:
        return round(median(b / a for a, b in zip(seconds[ours], seconds[theirs], strict=True)), 1)

    return {
        "texts": len(texts),
        "tokens": tokens,
        "left_to_tokenizers": len(kernel.split(texts, offsets=False)[1]),
        "million_tokens_a_second": {name: rate(tokens, each) for name, each in seconds.items()},
        "microseconds_a_text": {name: round(1e6 * median(each) / len(texts), 2) for name, each in seconds.items()},
        "ours_to_tokenizers": faster("ours", "tokenizers"),
        "ours_to_tokenizers_with_offsets": faster("ours, offsets", "tokenizers, offsets"),
    }


def ids_of(encoding: Encoding) -> object:
    return np.array(encoding.ids, np.int32)


def rate(tokens: int, seconds: list[float]) -> float:
    """Million tokens a second, at the median of the seconds."""
    return round(tokens / median(seconds) / 1e6, 2)


def nanotoken(python: Path, texts: list[str], file: Path, repeats: int) -> list[float]:
    """The seconds of nanotoken over the same texts, in its own environment."""
    with TemporaryDirectory() as folder:
        listed = Path(folder) / "texts.json"
        listed.write_text(json.dumps(texts))
        command = [str(python), "-c", NANOTOKEN, str(listed), str(file), str(repeats)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    seconds: list[float] = json.loads(done.stdout)
    return seconds


if __name__ == "__main__":
    sys.exit(main())
