"""Mark the numbers in README.md and docs/ that were measured before the code they measure changed.

    python benchmarks/provenance.py [--check]

A result says at which commit it was measured, and what the code of each room was (``machine`` in ``_machine.py``).
Where a room that it measures (``MEASURES``) has changed since, comments and docstrings aside, the rows that quote it
bear a ``†``, until it is measured again. docs/measurements.md ends with a table of all results, their commits and
processors. ``--check`` changes nothing; the exit code is 1 where a mark is missing or too many.
"""

import functools
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks._machine import digest_of_room
from benchmarks.quoted import RESULTS, SOURCES, TABLES, result

_ENCODING = ("encoder", "tokens", "extraction")
_STORING = (*_ENCODING, "features")
_LEARNING = ("learning",)
MEASURES: dict[str, tuple[str, ...]] = {
    "ablation": ("pretraining",),
    "adapt": ("pretraining",),
    "architectures": ("encoder", "models"),
    "attention": ("encoder",),
    "canary": _ENCODING,
    "change": ("study", "usages"),
    "compiled": _ENCODING,
    "families": _ENCODING,
    "chosen_words": _STORING,
    "small_sets": (*_STORING, "learning", "search", "usages"),
    "families-backends": _ENCODING,
    "families-backends-esm2": _ENCODING,
    "families-esm2": _ENCODING,
    "families-qwen3": _ENCODING,
    "concat4": _STORING,
    "concurrent_updates": ("extraction", "io", "search"),
    "exact_flair": _ENCODING,
    "exact_sentence_transformers": _ENCODING,
    "exact_transformers": _ENCODING,
    "factory_strings": ("search",),
    "from_scratch": ("pretraining",),
    "gpu": _STORING,
    "guard": _ENCODING,
    "growth": (*_STORING, "corpus"),
    "heads": _LEARNING,
    "heads_page": _LEARNING,
    "index_million": ("search",),
    "index_recipes": ("search",),
    "int8_quality": _ENCODING,
    "kill_and_resume": ("extraction", "features", "io"),
    "layers_by_task": ("usages", "study", "search", *_LEARNING),
    "layers_by_task-all-mpnet-base-v2": ("usages", "study", "search", *_LEARNING),
    "korean_words": ("tokens", "usages"),
    "lookups": ("features", "usages"),
    "lstm": _LEARNING,
    "many_vectors": ("search",),
    "maps": ("plots", "server", "usages"),
    "page_lines": ("server", "usages"),
    "page_million": ("server",),
    "plan_size": ("corpus", "extraction"),
    "pool_tokens": ("search",),
    "pooled": _ENCODING,
    "precision": _ENCODING,
    "processors": _ENCODING,
    "recall": ("search",),
    "rerank": ("search",),
    "rerank_route": (*_ENCODING, "search", "server"),
    "serve": (*_ENCODING, "server"),
    "serve_models": (*_ENCODING, "server"),
    "shapes": _ENCODING,
    "stored_encoder": _STORING,
    "storing": _STORING,
    "spans": _STORING,
    "subword": _STORING,
    "table7": _LEARNING,
    "tagger_flair": _LEARNING,
    "tagger_memory": _LEARNING,
    "torture": ("distributed", "extraction", "io"),
    "vectors": ("features",),
    "vectors_in_torch": ("features", "adapters"),
    "ways": ("distributed", "extraction"),
    "whitening": ("search",),
}
"""The rooms that a benchmark measures; its results are called after it, with what they are of after a dash."""
MARK = " †"
BEGIN, END = "<!-- results: benchmarks/provenance.py -->\n", "<!-- end of results -->\n"
digest = functools.cache(digest_of_room)


def machines(told: Any) -> Iterator[dict[str, Any]]:
    """Every record of a machine in a result; one that was measured in several steps has several."""
    if isinstance(told, dict):
        if "commit" in told and "code" in told:
            yield told
        else:
            for each in told.values():
                yield from machines(each)


def changed_rooms(name: str) -> list[str]:
    """The rooms whose code is no longer what a result measured."""
    rooms = MEASURES[name.partition("-")[0]]
    records = list(machines(result(name)))
    return [room for room in rooms if any(record["code"].get(room) != digest(room) for record in records)]


def marked(text: str, section: str) -> str:
    """A page whose table rows bear marks where their results are of other code; of a section, or all of it."""
    before, heading, after = text.partition(f"## {section}\n") if section else ("", "", text)
    following = re.search(r"^## ", after, re.MULTILINE) if section else None
    end = following.start() if following else len(after)
    lines = [_marked_row(line) for line in after[:end].splitlines(keepends=True)]
    return before + heading + "".join(lines) + after[end:]


def _marked_row(line: str) -> str:
    first, bar, rest = line.removeprefix("|").partition(" |")
    label = first.strip().removesuffix(MARK)
    if not line.startswith("|") or label not in SOURCES:
        return line
    stale = any(changed_rooms(name) for name in SOURCES[label])
    return f"| {label}{MARK if stale else ''}{bar}{rest}"


def with_results(text: str) -> str:
    """docs/measurements.md with its table of results."""
    rows = ["| result | measured at | processor | changed since |", "|---|---|---|---|"]
    for path in sorted(RESULTS.glob("*.json")):
        records = list(machines(result(path.stem)))
        said = (
            ", ".join(dict.fromkeys(str(record.get(key, "")) for record in records)) for key in ("commit", "processor")
        )
        rows.append(f"| {path.stem} | {' | '.join(said)} | {', '.join(changed_rooms(path.stem))} |")
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + "\n" + "\n".join(rows) + "\n\n" + END + rest.partition(END)[2]


def pages() -> dict[Path, str]:
    """Every page that quotes results, as it should be."""
    texts: dict[Path, str] = {}
    for page, section in TABLES:
        path = ROOT / page
        texts[path] = marked(texts.get(path) or path.read_text("utf-8"), section)
    measurements = ROOT / "docs" / "measurements.md"
    return texts | {measurements: with_results(texts[measurements])}


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(any(path.read_text("utf-8") != text for path, text in pages().items()))
    for path, text in pages().items():
        path.write_text(text, "utf-8")
