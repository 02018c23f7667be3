"""Draw docs/images/speed.svg from results/pooled.json: python benchmarks/chart.py, with --check to compare only."""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "docs" / "images" / "speed.svg"
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
OURS, THEIRS, INK = "#1b7f5c", "#9aa5b1", "#3c4650"


def draw(corpus: str = "sentences") -> str:
    """Draw tokens a second by library as a chart of bars; the same results give the same text."""
    results = json.loads((ROOT / "benchmarks" / "results" / "pooled.json").read_text("utf-8"))
    speeds = results["corpora"][corpus]["tokens_per_second"]
    values = [(name, speeds[f"pooled_{key}"], OURS if key.startswith("ours") else THEIRS) for name, key in WAYS]
    scale = (WIDTH - LEFT - 70) / max(value for _, value, _ in values)
    height = TOP + STEP * len(values) + 12
    rows = enumerate(values)
    bars = (bar(name, value, color, TOP + STEP * row, value * scale) for row, (name, value, color) in rows)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="sans-serif" font-size="13" role="img" aria-labelledby="title">\n'
        f'<title id="title">Tokens a second, mean vectors of {corpus}</title>\n'
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n'
        f'<text x="12" y="24" font-size="15" fill="{INK}">Tokens a second, mean vectors of {corpus} '
        f"(all-MiniLM-L6-v2)</text>\n"
        f'<text x="12" y="43" fill="{INK}">2 cores of an Intel Xeon with AMX, medians of 5 runs in turn; '
        f"more is better</text>\n"
        f"{''.join(bars)}</svg>\n"
    )


def bar(name: str, value: int, color: str, top: float, length: float) -> str:
    """A bar between its name and its number."""
    middle = top + BAR / 2 + 4.5
    return (
        f'<text x="{LEFT - 10}" y="{middle}" text-anchor="end" fill="{INK}">{name}</text>'
        f'<rect x="{LEFT}" y="{top}" width="{length:.1f}" height="{BAR}" fill="{color}"/>'
        f'<text x="{LEFT + length + 6:.1f}" y="{middle}" fill="{INK}">{value:,}</text>\n'
    )


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(CHART.read_text("utf-8") != draw())
    CHART.parent.mkdir(parents=True, exist_ok=True)
    CHART.write_text(draw(), "utf-8")
