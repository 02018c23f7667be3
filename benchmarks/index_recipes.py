"""Which layers make the best search vectors? nDCG@10 of exact cosine search on Cranfield, recipe by recipe.

    python benchmarks/index_recipes.py --data DATA [--work DIR]

DATA holds cranfield/ in BEIR's layout. One extraction of all layers; every recipe is derived from it.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from _machine import machine

from bertfeat.core.corpus import CorpusSettings
from bertfeat.core.extraction import Extractor
from bertfeat.search import BuildOptions, Index, build_index, evaluate_beir

HERE = Path(__file__).parent
LAYERS = "concat=0..6,last,cls"
RECIPES = ("last", "second-to-last", "concat4", "sum4", "mean4", "sum-all", "concat-all", "embeddings", *"12345")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--work", type=Path, default=Path("build/index_recipes"))
    options = parser.parse_args()
    beir = options.data / "cranfield"
    if not (beir / "corpus.jsonl").exists():
        raise SystemExit(f"no {beir}/corpus.jsonl: give --data; see benchmarks/README.md")
    features = options.work / "cranfield.features"
    settings = CorpusSettings(text_columns=("title", "text"))
    extractor = Extractor(layers=LAYERS, pooling="mean", precision="fp32", long="truncate", max_length=512)
    extractor.extract(beir / "corpus.jsonl", features, corpus_settings=settings)
    rows: list[dict[str, Any]] = []
    result = {"machine": machine("faiss-cpu", "ir_measures"), "rows": rows}
    for recipe, pooling in [*((recipe, "mean") for recipe in RECIPES), ("last", "cls")]:
        folder = options.work / "cranfield.index"
        column = f"{recipe.replace('-', '_')}_{pooling}" if not recipe.isdigit() else f"layer{recipe}_{pooling}"
        build_index(features, folder, column, options=BuildOptions(evaluate=False))
        scores = evaluate_beir(Index(folder), beir)
        rows.append({"column": column, **scores.to_json()})
        print(f"| {column} | {' | '.join(f'{score:.4f}' for _, score in scores.rows())} |")
    target = HERE / "results" / "index_recipes.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
