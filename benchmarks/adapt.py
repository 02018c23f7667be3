"""What does a model gain and lose when it goes on learning from a corpus of masked words?

    python benchmarks/adapt.py --data DATA [--work DIR] [--steps N]

DATA holds novels/dated.csv.gz, cranfield/ in BEIR's layout, wnut17/ and wikigold/. The default model, which was trained
for vectors of sentences, goes on learning from the novels and from Cranfield's documents, with ``--anchor 10`` and
without, two seeds each. Of every model: the masked-word loss on text held out, nDCG@10 on Cranfield (exact cosine of
mean vectors of the last layer), and the span F1 of taggers with default settings on WNUT-17 and Wikigold (split by
documents as in table7.py) with the same seed. What --work holds is not done again.
"""

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from _commands import bertfeat_json, search_score, tagger_score
from _machine import machine
from table7 import split_by_documents

RESULT = Path(__file__).parent / "results" / "adapt.json"
SEEDS = (1, 2)
CORPORA = {
    "novels": ("novels/dated.csv.gz", "--document-column", "title"),
    "cranfield": ("cranfield/corpus.jsonl", "--document-column", "_id"),
}
TAGGED = ("wnut17", "wikigold")
ANCHORS = {"": (), "anchored": ("--anchor", "10")}
MEASURES = ("masked_loss", "ndcg_at_10", "wnut17_f1", "wikigold_f1")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("build/adapt"))
    parser.add_argument("--steps", type=int, default=100, help="batches of 32 sequences of 128 tokens")
    options = parser.parse_args()
    data, work = options.data, options.work
    work.mkdir(parents=True, exist_ok=True)
    tagged = {name: data / name for name in TAGGED}
    if "wikigold" in tagged:
        tagged["wikigold"] = split_by_documents(data / "wikigold" / "wikigold.conll", work)
    rows = [summary("default", [judged(work / f"default-{seed}", None, seed, data, tagged) for seed in SEEDS])]
    for corpus, (file, *reading) in CORPORA.items():
        for anchor, given in ANCHORS.items():
            name = "-".join(filter(None, (corpus, anchor)))
            scores = []
            for seed in SEEDS:
                model = work / f"{name}-{seed}.model"
                steps = ("--steps", str(options.steps), "--seed", str(seed))
                learned = adapted(model, (str(data / file), *reading), (*given, *steps))
                scores.append(judged(work / f"{name}-{seed}", model, seed, data, tagged) | learned)
            rows.append(summary(name, scores))
    told = {"machine": machine(), "steps": options.steps, "tokens": options.steps * 32 * 128, "models": rows}
    RESULT.write_text(json.dumps(told, indent=1) + "\n")


def adapted(model: Path, source: Sequence[str], settings: Sequence[str]) -> dict[str, float]:
    """Train a model further; the losses of masked words before and after, and those of a unigram model."""
    kept = model.with_suffix(".json")
    if not kept.exists():
        started = ("--model", "sentence-transformers/all-MiniLM-L6-v2", "-o", str(model))
        kept.write_text(json.dumps(bertfeat_json("pretrain", *source, *started, *settings)))
    result = json.loads(kept.read_text())
    return {
        "masked_loss": result["after"]["loss"],
        "masked_loss_before": result["before"]["loss"],
        "unigram_loss": result["before"]["unigram_loss"],
        "masked_accuracy": result["after"]["accuracy"],
        "seconds": result["seconds"],
    }


def judged(folder: Path, model: Path | None, seed: int, data: Path, tagged: Mapping[str, Path]) -> dict[str, float]:
    """How a model serves search and tagging."""
    kept = folder.with_suffix(".scores.json")
    if not kept.exists():
        named = () if model is None else ("--model", str(model))
        scores = {"ndcg_at_10": search_score(folder, named, data / "cranfield")}
        for name, place in tagged.items():
            scores[f"{name}_f1"] = tagger_score(folder / name, (*named, "--seed", str(seed)), place)
        kept.write_text(json.dumps(scores))
    stored: dict[str, float] = json.loads(kept.read_text())
    return stored


def summary(name: str, scores: Sequence[Mapping[str, float]]) -> dict[str, object]:
    """The scores of a model's seeds, with mean and spread of what was measured of it."""
    told: dict[str, object] = {"model": name, "seeds": list(scores)}
    for measure in MEASURES:
        if values := [score[measure] for score in scores if measure in score]:
            told[measure] = {
                "mean": statistics.mean(values),
                "spread": statistics.stdev(values) if len(values) > 1 else 0.0,
            }
    return told


if __name__ == "__main__":
    main()
