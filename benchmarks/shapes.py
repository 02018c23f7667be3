"""How near to the hardware's limit are models of bert-base's and bert-large's shape, and what does less work save?

    python benchmarks/shapes.py --data NOVELS

Random weights of these shapes (no pretrained ones are needed for speed), over paragraphs of novels, from text to mean
vectors in Parquet, as `bertfeat bench` measures it. Then, with bert-base's shape, `--layers 1` next to `--layers last`,
and with the default model [CLS] of the last layer next to the mean, in turn.
"""

import argparse
import json
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from _machine import machine
from _models import BERT_BASE, BERT_LARGE, random_model

SHAPES = {"bert-base": BERT_BASE, "bert-large": BERT_LARGE}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with paragraphs.txt")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "shapes.json")
    arguments = parser.parse_args()
    lines = (arguments.data / "paragraphs.txt").read_text("utf-8").splitlines()
    results: dict[str, Any] = {"machine": machine(), "shapes": {}}
    with tempfile.TemporaryDirectory() as work:
        for name, shape in SHAPES.items():
            model = random_model(Path(work) / name, shape)
            for precision, documents in (("bf16", 400), ("fp32", 100)):
                documents //= 1 if name == "bert-base" else 3
                found = speed(str(model), lines, documents, arguments.repeats, precision=precision)
                results["shapes"][f"{name}, {precision}"] = found
                print(name, precision, found["tokens_per_second"], found["share_of_ceiling"], flush=True)
        base = str(Path(work) / "bert-base")
        results["layers 1 to last, bert-base"] = compared(base, lines, 400, arguments.repeats, {"layers": "1"}, {})
        results["cls to mean, default model"] = compared(
            None, lines, 4000, arguments.repeats, {"pooling": "cls"}, {"pooling": "mean"}
        )
    print(json.dumps({name: each for name, each in results.items() if " to " in name}, indent=1))
    arguments.out.write_text(json.dumps(results, indent=1) + "\n")


def speed(model: str | None, lines: list[str], documents: int, repeats: int, **settings: Any) -> dict[str, Any]:
    from dataclasses import asdict

    from bertfeat import Extractor, memory_corpus
    from bertfeat.core.extraction.speed import measure_speed

    extractor = Extractor(model, **{"pooling": "mean", **settings})
    found = asdict(measure_speed(extractor, memory_corpus(lines), documents=documents, repeats=repeats))
    return {**found, "model": Path(found["model"]).name}


def compared(
    model: str | None, lines: list[str], documents: int, repeats: int, less: dict[str, Any], more: dict[str, Any]
) -> dict[str, Any]:
    """Two settings in turn, a run each at a time; the ratio of their speeds is the median over the pairs."""
    pairs = [
        tuple(speed(model, lines, documents, 1, **each)["tokens_per_second"] for each in (less, more))
        for _ in range(repeats)
    ]
    return {
        "less": less,
        "more": more,
        "tokens_per_second": [[round(each) for each in pair] for pair in pairs],
        "ratio": round(median(a / b for a, b in pairs), 2),
    }


if __name__ == "__main__":
    main()
