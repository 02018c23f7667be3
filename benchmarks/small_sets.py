"""What do smaller vectors of tokens and words cost in each task, and how many bytes do they save?

    python benchmarks/small_sets.py --data DATA [--work DIR] [--ways "float16;int8"] [--tasks size,usages]

DATA holds novels/, cranfield/ and wikigold/. Each way of storing is measured on the same texts:

- bytes: those of a feature set of words of the last layer for each word, without texts, of 3,000 paragraphs of novels.
- cosine: the least and the mean one between vectors of those words and the same ones in float32.
- senses, usages: adjusted Rand index of two groups, and average precision, over 24 words whose usages are labeled
  (layers_by_task.py).
- tags: span F1 of the default tagger on Wikigold's test part, concat of the last four layers, three seeds.
- maxsim: nDCG@10 on Cranfield of ``--rerank maxsim`` with tokens of the last layer.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from _commands import bertfeat
from _duel import distinct_lines
from _machine import machine
from layers_by_task import LABELS, Run, extract_usages, over_seeds, rand_index, resample_mean, usage_precision
from table7 import split_by_documents

from bertfeat import Extractor, FeatureSet
from bertfeat.core.corpus import CorpusSettings
from bertfeat.search import BuildOptions, build_index, evaluate_beir

HERE = Path(__file__).parent
RESULT = HERE / "results" / "small_sets.json"
PARAGRAPHS = 3000


@dataclass(frozen=True)
class Way:
    """A way of storing: the number type, and the number of principal components."""

    dtype: str
    width: int | None = None


WAYS: dict[str, tuple[str, int | None]] = {
    "float32": ("float32", None),
    "float16": ("float16", None),
    "int8": ("int8", None),
    **{f"int8, width {width}": ("int8", width) for width in (256, 128, 64)},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--work", type=Path, default=Path("build/small_sets"))
    parser.add_argument("--senses", type=Path, default=LABELS, help="another table of labeled usages")
    parser.add_argument("--seeds", type=int, default=3, help="trainings of a tagger")
    parser.add_argument("--ways", default=";".join(WAYS), help="those that are measured anew, with semicolons between")
    parser.add_argument("--tasks", default=",".join(TASKS))
    options = parser.parse_args()
    for name in options.ways.split(";"):
        work = options.work / name
        work.mkdir(parents=True, exist_ok=True)
        for task in options.tasks.split(","):
            before = machine("faiss-cpu", "scikit-learn")
            value = TASKS[task](options, work, Way(*WAYS[name]))
            found = json.loads(RESULT.read_text()) if RESULT.exists() else {}
            found.setdefault(name, {})[task] = {"machine": before, "found": value}
            print(name, task, json.dumps(value), flush=True)
            RESULT.write_text(json.dumps({way: found[way] for way in WAYS if way in found}, indent=1) + "\n")


def measure_size(options: argparse.Namespace, work: Path, way: Way) -> dict[str, float]:
    """Bytes of a word, and the least and the mean cosine with float32."""
    (work / "paragraphs.txt").write_text(
        "\n".join(distinct_lines(options.data / "novels" / "paragraphs.txt")[:PARAGRAPHS])
    )
    for folder, stored in (("small", way), ("exact", Way("float32"))):
        extractor = Extractor(layers="last", pooling="word", dtype=stored.dtype)
        extractor.extract(work / "paragraphs.txt", work / folder, keep_text=False, width=stored.width)
    small, exact = FeatureSet(work / "small"), FeatureSet(work / "exact")
    size = sum(path.stat().st_size for path in (work / "small").glob("*.parquet"))
    cosines = list[float]()
    streams = (features.vectors("last_word", shuffle=False, dtype="float32") for features in (small, exact))
    for one, other in zip(*streams, strict=True):
        lengths = np.linalg.norm(one.matrix, axis=1) * np.linalg.norm(other.matrix, axis=1)
        cosines.extend(((one.matrix * other.matrix).sum(1) / lengths).tolist())
    words = len(small.vectors("last_word", unaligned=True).blocks)
    return {
        "words": words,
        "bytes_per_word": round(size / words, 1),
        "least_cosine": round(min(cosines), 6),
        "mean_cosine": round(fmean(cosines), 6),
        "kept": 1.0 if (basis := small.columns[0].basis) is None else basis.kept,
    }


def measure_usages(options: argparse.Namespace, work: Path, way: Way) -> dict[str, list[float]]:
    features = extract_usages(Run(options.data, work, options.senses), layers="last", dtype=way.dtype, width=way.width)
    words = dict.fromkeys(str(document.values["word"]) for document in features)
    rand = resample_mean([rand_index(features, word, "last") for word in words])
    return {"senses": [*rand], "usages": [*usage_precision(features, ["last"])["last"]]}


def measure_tags(options: argparse.Namespace, work: Path, way: Way) -> list[float]:
    folder = split_by_documents(options.data / "wikigold" / "wikigold.conll", work)
    given = []
    for part in ("train", "dev", "test"):
        extractor = Extractor(layers="concat4", pooling="word", dtype=way.dtype)
        width, basis = way.width, None if way.width is None or part == "train" else work / "train.features"
        extractor.extract(folder / f"{part}.conll", work / f"{part}.features", width=width, basis=basis)
        given.append(f"--{part}={work / part}.features")
    table = work / "table"
    bertfeat("tag", "table7", *given, "-o", str(table), "--rows", "concat4", "--seeds", str(options.seeds), "--quiet")
    (row,) = json.loads((table / "table7.json").read_text())["rows"]
    return [*over_seeds(row["test"])]


def measure_maxsim(options: argparse.Namespace, work: Path, way: Way) -> float:
    features, index = work / "cranfield.features", work / "cranfield.index"
    extractor = Extractor(layers="last", pooling=["mean", "token"], long="truncate", max_length=512, dtype=way.dtype)
    settings = CorpusSettings(text_columns=("title", "text"), id_column="_id")
    extractor.extract(options.data / "cranfield" / "corpus.jsonl", features, corpus_settings=settings, width=way.width)
    build_index(features, index, "last_mean", options=BuildOptions(evaluate=False))
    return float(evaluate_beir(index, options.data / "cranfield", rerank="maxsim").scores["ndcg_at_10"])


TASKS: dict[str, Callable[[argparse.Namespace, Path, Way], Any]] = {
    "size": measure_size,
    "usages": measure_usages,
    "tags": measure_tags,
    "maxsim": measure_maxsim,
}


if __name__ == "__main__":
    main()
