"""What of BERT's pre-training helps, at a size that two cores can pay? The paper's Tables 5, 6 and 8, in small.

    python benchmarks/ablation.py --data DATA [--work DIR] [--steps N] [--seeds N]

DATA holds novels/dated.csv.gz, wikigold/, sick/ and restaurant8k/. Models of a few layers are pre-trained on the novels
by ``pretrain_model``, each setting with as many steps of 8 sequences of 128 tokens and some seeds, and judged on
tagging (Wikigold, span F1), pairs (SICK, accuracy of entailment) and spans (restaurant8k, exact match, learned from
4,000 questions): by the frozen features of the last layer under a linear layer, and fine-tuned (see _judge.py).

- objectives (Table 5): tiny models with next sentences and without, left to right, and one of a single step, to show
  what the tasks teach by themselves; the last three under a BiLSTM, too.
- sizes (Table 6): as many steps for each.
- masks (Table 8): how many in 100 predicted pieces are masked, replaced and kept.

It takes hours, and goes on where it was stopped: the result holds the scores of every model that has been judged, and
--work the models that are being trained.
"""

import argparse
import json
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from _judge import judge, tasks_for
from _machine import machine
from table7 import split_by_documents

from bertfeat import PretrainingSettings, pretrain_model

RESULT = Path(__file__).parent / "results" / "ablation.json"
COMMON: dict[str, Any] = {"vocabulary": 8000, "batch_size": 8, "learning_rate": 1e-3}


@dataclass(frozen=True)
class Setting:
    """A way of pre-training, in one of the tables."""

    table: str
    name: str
    changed: Mapping[str, str | int] = field(default_factory=dict)  # of the settings of pre-training
    bilstm: bool = False

    @property
    def model(self) -> str:
        """The name of the model's folder: equal ways are trained once."""
        names = (f"{name}_{value}".replace(",", "-").replace(":", "-") for name, value in self.changed.items())
        return "_".join(names) or "tiny"

    @property
    def judged(self) -> str:
        """The name of its scores: one model is judged with a BiLSTM and without."""
        return f"{self.model}-bilstm" if self.bilstm else self.model


SETTINGS = (
    Setting("objectives", "masked words, next sentences"),
    Setting("objectives", "masked words", {"objective": "mlm"}),
    Setting("objectives", "left to right", {"objective": "ltr"}),
    Setting("objectives", "nothing", {"steps": 1}),
    Setting("objectives", "left to right, BiLSTM on top", {"objective": "ltr"}, bilstm=True),
    Setting("objectives", "masked words, BiLSTM on top", {"objective": "mlm"}, bilstm=True),
    Setting("objectives", "nothing, BiLSTM on top", {"steps": 1}, bilstm=True),
    Setting("sizes", "L=2, H=128, A=2"),
    Setting("sizes", "L=4, H=128, A=2", {"shape": "L=4,H=128,A=2"}),
    Setting("sizes", "L=4, H=256, A=4", {"shape": "mini"}),
    Setting("masks", "80:10:10"),
    Setting("masks", "100:0:0", {"mask": "100:0:0"}),
    Setting("masks", "80:0:20", {"mask": "80:0:20"}),
    Setting("masks", "80:20:0", {"mask": "80:20:0"}),
    Setting("masks", "0:20:80", {"mask": "0:20:80"}),
    Setting("masks", "0:0:100", {"mask": "0:0:100"}),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("build/ablation"))
    parser.add_argument("--steps", type=int, default=3000, help="batches of 8 sequences of 128 tokens")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", help="words of the names of models that are trained and judged")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    split_by_documents(options.data / "wikigold" / "wikigold.conll", options.work)
    for seed in range(1, options.seeds + 1):
        for setting in SETTINGS:
            asked = options.only is None or any(word in setting.judged for word in options.only.split(","))
            if asked and f"{setting.judged}-{seed}" not in stored(options):
                scores = measured(setting, seed, options)
                write({f"{setting.judged}-{seed}": scores}, options)


def stored(options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """The scores of every model that was judged after as many steps."""
    if not RESULT.exists():
        return {}
    result = json.loads(RESULT.read_text())
    models: dict[str, dict[str, float]] = result["models"] if result["steps"] == options.steps else {}
    return models


def write(judged: dict[str, dict[str, float]], options: argparse.Namespace) -> None:
    """Add a model's scores to the result, whose rows are the settings that all seeds have been measured of."""
    models = dict(sorted((stored(options) | judged).items()))
    rows = []
    for setting in SETTINGS:
        names = [f"{setting.judged}-{seed}" for seed in range(1, options.seeds + 1)]
        if all(name in models for name in names):
            scores = [models[name] for name in names]
            rows.append({"table": setting.table, "setting": setting.name} | summary(scores))
    sizes = {"steps": options.steps, "tokens": options.steps * 8 * 128, "seeds": options.seeds}
    RESULT.write_text(json.dumps({"machine": machine(), **sizes, "rows": rows, "models": models}, indent=1) + "\n")


def measured(setting: Setting, seed: int, options: argparse.Namespace) -> dict[str, float]:
    """Pre-train and judge one model."""
    folder = options.work / f"{setting.model}-{seed}.model"
    asked = {**COMMON, "shape": "tiny", "steps": options.steps, "seed": seed, **setting.changed}
    torch.set_num_threads(len(os.sched_getaffinity(0)))  # judging takes one
    corpus = options.data / "novels" / "dated.csv.gz"
    pretrain_model([corpus], folder, settings=PretrainingSettings(**asked), document_column="title")
    held_out = json.loads((folder / "pretraining.json").read_text())["after"]
    scores = dict(judged(folder, setting, seed, options)) | {"held_out_loss": held_out["loss"]}
    if held_out.get("next_accuracy") is not None:
        scores["next_accuracy"] = held_out["next_accuracy"]
    return scores


def judged(folder: Path, setting: Setting, seed: int, options: argparse.Namespace) -> Iterator[tuple[str, float]]:
    """The scores of a model on each task, frozen and fine-tuned."""
    torch.set_num_threads(1)
    for task in tasks_for(folder, options.data, options.work):
        for approach in ("frozen", "fine-tuned"):
            yield f"{task.name}, {approach}", judge(folder, task, approach, seed, bilstm=setting.bilstm)


def summary(scores: Sequence[dict[str, float]]) -> dict[str, object]:
    """Mean and spread of every measure over the seeds."""
    told: dict[str, object] = {}
    for name in scores[0]:
        values = [each[name] for each in scores]
        told[name] = {
            "mean": round(statistics.mean(values), 4),
            "spread": round(statistics.stdev(values), 4) if len(values) > 1 else None,
        }
    return told


if __name__ == "__main__":
    main()
