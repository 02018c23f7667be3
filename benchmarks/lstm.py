"""What does our own LSTM bring, next to torch's? The same tagger trained with both, on WNUT-17 or Wikigold.

    python benchmarks/lstm.py --data DATA [--set wnut17] [--work DIR]

DATA holds wnut17/{train,dev,test}.conll and wikigold/wikigold.conll. Features (concat4) are extracted once. Everything
but ``bertfeat.learning.lstm.RUN_LAYER`` is the same: data, seeds, initial weights, order of the batches, dropout masks.
Speed: single epochs, ours and torch's in turn, the first pair left out; words a second of learning, evaluation
aside. F1: whole trainings with equal seeds, ours and torch's in turn. ``torch`` is what ``torch.nn.LSTM`` calls, in
bfloat16 by autocast where ours computes in it; ``torch:fp32`` is the same in fp32.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

import torch
from _machine import machine
from table7 import split_by_documents

from bertfeat.core.encoder import has_native_bf16
from bertfeat.core.extraction import Extractor
from bertfeat.core.features import FeatureSet
from bertfeat.learning import HeadSettings, evaluate_head, lstm as our_lstm, train_head

CPU = torch.device("cpu")
Sets = dict[str, FeatureSet]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--set", choices=("wnut17", "wikigold"), default="wnut17")
    parser.add_argument("--work", type=Path, default=Path("build/lstm"))
    parser.add_argument("--rounds", type=int, default=5, help="pairs of epochs that are timed")
    parser.add_argument("--seeds", type=int, default=3, help="whole trainings of each; 0 for none")
    parser.add_argument("--epochs", type=int, default=40, help="of a whole training, at most")
    parser.add_argument("--hidden", type=int, default=256)
    options = parser.parse_args()
    measured_on = machine() | {"threads": torch.get_num_threads(), "native_bf16": has_native_bf16(CPU)}
    sets = extract_sets(options.data, options.set, options.work)
    ways = ["ours", "torch", *(["torch:fp32"] if has_native_bf16(CPU) else [])]
    speeds = measure_speeds(sets, ways, options)
    write_result(options, measured_on, speeds, {})  # in case the rest is interrupted
    write_result(options, measured_on, speeds, measure_scores(sets, ways[:2], options))


def write_result(
    options: argparse.Namespace,
    measured_on: dict[str, Any],
    speeds: dict[str, list[int]],
    trainings: dict[str, list[dict[str, Any]]],
) -> None:
    """Print the medians and ratios, and write everything."""
    settings = {name: getattr(options, name) for name in ("set", "rounds", "seeds", "epochs", "hidden")}
    result = {
        "machine": measured_on | {"load_after": [round(load, 1) for load in os.getloadavg()]},
        "settings": settings,
        "words_per_second": {way: round(median(runs)) for way, runs in speeds.items()},
        "ratio": {way: round(median(pairs(speeds["ours"], speeds[way])), 2) for way in list(speeds)[1:]},
        "span_f1": {way: summarize(runs) for way, runs in trainings.items()},
        "training_seconds": {way: [run["seconds"] for run in runs] for way, runs in trainings.items()},
        "runs": {"speed": speeds, "training": trainings},
    }
    print(json.dumps({name: value for name, value in result.items() if name != "runs"}, indent=1))
    target = Path(__file__).parent / "results" / "lstm.json"
    target.write_text(json.dumps(result, indent=1) + "\n")


def extract_sets(data: Path, name: str, work: Path) -> Sets:
    """The features of the three sets, extracted unless ``work`` holds them."""
    source = data / name if name == "wnut17" else split_by_documents(data / name / f"{name}.conll", work / "split")
    extractor = Extractor(layers="concat4", pooling="word", device="cpu")
    sets = {}
    for part in ("train", "dev", "test"):
        folder = work / name / f"{part}.features"
        extractor.extract(source / f"{part}.conll", folder)
        sets[part] = FeatureSet(folder)
    return sets


@contextmanager
def used(way: str) -> Iterator[None]:
    """Let taggers compute their LSTM layers in that way."""
    run_layer, bf16 = our_lstm.RUN_LAYER["cpu"], our_lstm.has_native_bf16
    try:
        if way != "ours":
            our_lstm.RUN_LAYER["cpu"] = our_lstm.run_by_torch
        if way == "torch:fp32":
            our_lstm.has_native_bf16 = lambda _device: False
        yield
    finally:
        our_lstm.RUN_LAYER["cpu"], our_lstm.has_native_bf16 = run_layer, bf16


def train_once(way: str, sets: Sets, settings: HeadSettings) -> dict[str, Any]:
    """One training: its epochs, and the scores on both sets."""
    with used(way), tempfile.TemporaryDirectory() as folder:
        report = train_head("tag", sets["train"], sets["dev"], folder, settings=settings, picture=False, device="cpu")
        history = report.record.history
        return {
            "seed": settings.seed,
            "dev": report.record.score,
            "test": evaluate_head(folder, sets["test"], device="cpu").scores.value if settings.epochs > 1 else None,
            "best_epoch": report.record.best_epoch,
            "epochs": len(history),
            "seconds": round(sum(epoch["seconds"] for epoch in history), 1),
            "words_per_second": round(median(epoch["words"] / epoch["seconds"] for epoch in history)),
        }


def measure_speeds(sets: Sets, ways: list[str], options: argparse.Namespace) -> dict[str, list[int]]:
    """Words a second of single epochs, in turn; the order changes from round to round."""
    speeds: dict[str, list[int]] = {way: [] for way in ways}
    for number in range(options.rounds + 1):
        for way in ways if number % 2 else ways[::-1]:
            run = train_once(way, sets, HeadSettings(hidden=options.hidden, epochs=1, seed=number + 1))
            if number:
                speeds[way].append(run["words_per_second"])
        print("round", number, {way: runs[-1:] for way, runs in speeds.items()}, flush=True)
    return speeds


def measure_scores(sets: Sets, ways: list[str], options: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    """Whole trainings with equal seeds, in turn."""
    trainings: dict[str, list[dict[str, Any]]] = {way: [] for way in ways if options.seeds}
    for seed in range(1, options.seeds + 1):
        for way in ways if seed % 2 else ways[::-1]:
            settings = HeadSettings(hidden=options.hidden, epochs=options.epochs, seed=seed)
            trainings[way].append(train_once(way, sets, settings))
            print(way, trainings[way][-1], flush=True)
    return trainings


def pairs(ours: list[int], theirs: list[int]) -> list[float]:
    """Our speed over the other, round by round."""
    return [one / other for one, other in zip(ours, theirs, strict=True)]


def summarize(runs: list[dict[str, Any]]) -> dict[str, str]:
    """Mean and standard deviation over the seeds, in percent."""
    summary = {}
    for part in ("dev", "test"):
        values = [100 * run[part] for run in runs if run[part] is not None]
        if values:
            summary[part] = f"{fmean(values):.1f}" + (f" ± {stdev(values):.1f}" if len(values) > 1 else "")
    return summary


if __name__ == "__main__":
    main()
