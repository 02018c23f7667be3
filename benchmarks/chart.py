"""Draw the charts of bars in docs/images/ from results/: python benchmarks/chart.py, with --check to compare only."""

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
WAYS = (
    ("bertfeat, bf16", "ours:bf16"),
    ("OpenVINO, bf16", "openvino:bf16"),
    ("sentence-transformers, bf16", "sentence_transformers:bf16"),
    ("bertfeat, fp32", "ours:fp32"),
    ("OpenVINO, fp32", "openvino:fp32"),
    ("sentence-transformers, fp32", "sentence_transformers:fp32"),
    ("ONNX, fp32", "onnx:fp32"),
    ("transformers pipeline, fp32", "pipeline:fp32"),
)
WIDTH, LEFT, BAR, STEP, TOP = 760, 220, 18, 28, 58
_MOST_DIGITS = 9  # of a cosine that are told apart
OURS, THEIRS, INK = "#1b7f5c", "#9aa5b1", "#3c4650"
Bars = Sequence[tuple[str, float, str, str]]  # name, value, value as written, color


def read_result(name: str) -> Any:
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text("utf-8"))


def draw_speed(corpus: str = "sentences") -> str:
    """Tokens a second by library."""
    speeds = read_result("pooled")["corpora"][corpus]["tokens_per_second"]
    bars = [
        (name, speeds[f"pooled_{key}"], f"{speeds[f'pooled_{key}']:,}", OURS if key.startswith("ours") else THEIRS)
        for name, key in WAYS
    ]
    title = f"Tokens a second, mean vectors of {corpus}"
    note = "2 cores of an Intel Xeon with AMX, medians of 5 runs in turn; more is better"
    return draw(title, f"{title} (all-MiniLM-L6-v2)", note, bars)


def draw_shuffle() -> str:
    """How much batches of a stream of vectors vary, by its memory."""
    result = read_result("vectors")["shuffle"]
    held = result["bytes"]
    bars = []
    for name, measured in result.items():
        if isinstance(measured, dict):
            value = measured["variance_of_batch_means"]
            memory = int(name.split()[0]) * 2**20 if name.endswith("MiB") else 0
            share = f" ({'all' if memory // 2 >= held else f'{memory / 2 / held:.0%}'} in a chunk)" if memory else ""
            bars.append((name + share, value, f"{value:.1f}", OURS if memory else THEIRS))
    title = "Variance of the means of batches, in units of that under a perfect shuffle"
    note = f"{result['vectors']:,} token vectors of novels, batches of {result['batch']:,}, by memory; 1 is best"
    return draw(title, title, note, bars)


def draw_spans() -> str:
    """How well questions find spans that were pooled from their tokens, and the same texts embedded alone."""
    tasks, bars = read_result("spans")["tasks"], []
    for name, task, unit in (
        ("paragraphs", "articles", "paragraphs"),
        ("sentences", "articles", "sentences"),
        ("sentences in novels", "novels", "sentences"),
    ):
        for way, color in (("late", OURS), ("alone", THEIRS)):
            value = tasks[task]["found"][unit]["last"][way]["mrr"][0]
            bars.append((f"{name}, {way}", value, f"{value:.3f}", color))
    title = "Mean reciprocal rank of the passage that a question asks for"
    note = "among those of all texts; late: pooled from the tokens of the whole text; more is better"
    return draw(title, title, note, bars)


def draw_many_vectors() -> str:
    """How many of the best texts by maxsim are found by one vector, by its width."""
    collection, bars = read_result("many_vectors")["collections"]["cranfield"], []
    for layers, told in (("sum4", "sum of four layers"), ("last", "last layer")):
        ways = collection[layers]["ways"]
        for way in ("vector", *(way for way in ways if way.startswith("fde:"))):
            value, label = ways[way]["recall_of_10"], "mean vector" if way == "vector" else way
            bars.append((f"{told}, {label}", value, f"{value:.0%}", THEIRS if way == "vector" else OURS))
    title = "Share of the ten best texts by maxsim among the first 100 hits"
    note = f"{collection['last']['documents']:,} abstracts of Cranfield, the default model; more is better"
    return draw(title, title, note, bars)


def draw_stored_encoder() -> str:
    """Seconds in which texts get their vectors from a model, and from a feature set."""
    result = read_result("stored_encoder")
    bars = [
        (way, found["seconds"], f"{found['seconds']:.1f} s, {found['memory_mib']:,} MiB", color)
        for (way, found), color in zip(result["ways"].items(), (THEIRS, OURS), strict=True)
    ]
    title = f"Seconds in which {result['texts']:,} sentences get their vectors"
    note = "the default model, 2 cores; in processes of their own, with most memory; less is better"
    return draw(title, title, note, bars)


def draw_canary() -> str:
    """How many digits of a canary agree with fp32 under changes of the computation, and whether they are refused."""
    result = read_result("canary")
    bars = []
    for name, found in (result["sound"] | result["defects"]).items():
        digits = min(_MOST_DIGITS, -math.log10(max(1 - found["cosine"], 10**-_MOST_DIGITS)))
        verdict = "refused" if found["refused"] else "passes"
        written = f"{verdict}, {found['same_of_ten']:.1f} of 10"
        bars.append((name, digits, written, THEIRS if found["refused"] else OURS))
    title = "Digits in which the canary agrees with that of fp32, and nearest texts that are still found"
    return draw(title, title, "-log10(1 - least cosine), at most 9; fp32 promises 5.4, bf16 3.2, int8 2.3", bars)


def draw(title: str, heading: str, note: str, bars: Bars) -> str:
    """Draw a chart of bars; the same numbers give the same text."""
    longest = max(len(written) for _, _, written, _ in bars)
    scale = (WIDTH - LEFT - max(70, 8 * longest)) / max(value for _, value, _, _ in bars)
    height = TOP + STEP * len(bars) + 12
    drawn = (
        bar(name, written, color, TOP + STEP * row, value * scale)
        for row, (name, value, written, color) in enumerate(bars)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="sans-serif" font-size="13" role="img" aria-labelledby="title">\n'
        f'<title id="title">{title}</title>\n'
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n'
        f'<text x="12" y="24" font-size="15" fill="{INK}">{heading}</text>\n'
        f'<text x="12" y="43" fill="{INK}">{note}</text>\n'
        f"{''.join(drawn)}</svg>\n"
    )


def bar(name: str, written: str, color: str, top: float, length: float) -> str:
    """A bar between its name and its number."""
    middle = top + BAR / 2 + 4.5
    return (
        f'<text x="{LEFT - 10}" y="{middle}" text-anchor="end" fill="{INK}">{name}</text>'
        f'<rect x="{LEFT}" y="{top}" width="{length:.1f}" height="{BAR}" fill="{color}"/>'
        f'<text x="{LEFT + length + 6:.1f}" y="{middle}" fill="{INK}">{written}</text>\n'
    )


CHARTS = {
    IMAGES / "speed.svg": draw_speed,
    IMAGES / "shuffle.svg": draw_shuffle,
    IMAGES / "spans.svg": draw_spans,
    IMAGES / "many-vectors.svg": draw_many_vectors,
    IMAGES / "stored-encoder.svg": draw_stored_encoder,
    IMAGES / "canary.svg": draw_canary,
}

if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(any(path.read_text("utf-8") != drawn() for path, drawn in CHARTS.items()))
    for path, drawn in CHARTS.items():
        path.write_text(drawn(), "utf-8")
