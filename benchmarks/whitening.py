"""When does whitening help? Search on Cranfield and likeness of sentences on SICK, by layer and transform.

    python benchmarks/whitening.py --data DATA [--work DIR]

DATA holds cranfield/ in BEIR's layout and sick/test.tsv. The default model, which was trained for sentences. Cranfield:
`bertfeat evaluate FEATURES`. SICK: correlation (Spearman's and Pearson's) of cosines with the relatedness that
people gave, over the 4,927 pairs of the test set; whitening is fitted on their sentences, without the judgments. Draws
docs/images/whitening.svg.
"""

import argparse
import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
from _machine import machine
from scipy.stats import pearsonr, spearmanr

from bertfeat import Extractor, FeatureSet, draw_retrieval, evaluate_layers
from bertfeat.core.corpus import CorpusSettings
from bertfeat.search import as_whitening
from bertfeat.search.vectors.faiss_transforms import fit_whitening, measure_spectrum

HERE = Path(__file__).parent
LAYERS = ("all", "concat4", "sum4")
COLUMNS = (*(f"layer{layer}" for layer in range(7)), "concat4", "sum4")
TRANSFORMS = ("none", "half-whiten", "whiten", "half-whiten:128", "whiten:128", "half-whiten:64", "whiten:64")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--work", type=Path, default=Path("build/whitening"))
    options = parser.parse_args()
    told = {"machine": machine("faiss-cpu", "scipy")}
    told["cranfield"] = search_scores(options.data / "cranfield", options.work)
    told["sick"] = likeness_scores(options.data / "sick" / "test.tsv", options.work)
    (HERE / "results" / "whitening.json").write_text(json.dumps(told, indent=1) + "\n")


def search_scores(beir: Path, work: Path) -> list[dict[str, Any]]:
    extractor = Extractor(layers="all", pooling="mean,cls,max", precision="fp32", long="truncate", max_length=512)
    settings = CorpusSettings(text_columns=("title", "text"))
    extractor.extract(beir / "corpus.jsonl", work / "cranfield.features", corpus_settings=settings)
    table = evaluate_layers(work / "cranfield.features", beir, layers=LAYERS, transforms=TRANSFORMS)
    shown = evaluate_layers(work / "cranfield.features", beir, layers=LAYERS, pooling="mean", transforms=TRANSFORMS[:3])
    draw_retrieval(shown, HERE.parent / "docs" / "images" / "whitening.svg")
    rows = []
    for row in table.rows:
        scores = {key: [each.value, each.low, each.high] for key, each in row.scores.items()}
        rows.append({"column": row.column, "transform": row.transform, "width": row.width, **scores})
        print(f"| {row.column} | {row.transform} | {row.width} | {row.scores['ndcg_at_10'].value:.3f} |", flush=True)
    return rows


def likeness_scores(path: Path, work: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8", newline="") as file:
        pairs = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    sentences = list(dict.fromkeys(pair[side] for pair in pairs for side in ("sentence_A", "sentence_B")))
    work.mkdir(parents=True, exist_ok=True)
    (work / "sick.txt").write_text("\n".join(sentences) + "\n", encoding="utf-8")
    extractor = Extractor(layers="all", pooling="mean,cls,max", precision="fp32")
    extractor.extract(work / "sick.txt", work / "sick.features")
    numbers = {sentence: at for at, sentence in enumerate(sentences)}
    first, second = (np.array([numbers[pair[side]] for pair in pairs]) for side in ("sentence_A", "sentence_B"))
    people = [float(pair["relatedness_score"]) for pair in pairs]
    features, rows = FeatureSet(work / "sick.features"), []
    for pooling in ("mean", "cls", "max"):
        for recipe in COLUMNS:
            if pooling == "max" and recipe == "sum4":
                continue
            vectors = features.matrix(recipe, pooling)
            spectrum = measure_spectrum([vectors], vectors.shape[1])
            for name in TRANSFORMS:
                whitening = as_whitening(name)
                if whitening is not None and len(spectrum.variances) < (whitening.width or 1):
                    continue  # the first tokens of layer 0 are all equal
                made = fit_whitening(whitening, spectrum).matrix().apply(vectors) if whitening else vectors
                units = made / np.linalg.norm(made, axis=1, keepdims=True)
                cosines = (units[first] * units[second]).sum(axis=1)
                likeness = {
                    "spearman": round(float(spearmanr(cosines, people).statistic), 5),
                    "pearson": round(float(pearsonr(cosines, people).statistic), 5),
                }
                row = {"column": f"{recipe}_{pooling}", "transform": name, "width": made.shape[1], **likeness}
                rows.append(row)
                print("|", " | ".join(map(str, row.values())), "|", flush=True)
    return rows


if __name__ == "__main__":
    main()
