"""Every benchmark runs to its end at toy size: none rots between one measurement and the next."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.benchmark_data import write_benchmark_data

ROOT = Path(__file__).resolve().parent.parent
NO_QUESTION = {"quoted.py", "chart.py", "provenance.py"}
"""Scripts that measure nothing: the quoted numbers, their marks, and the charts."""


@dataclass(frozen=True)
class Toy:
    """A small run of a benchmark: its command line, and other values of constants of its module.

    ``{data}`` and ``{work}`` stand for the folder with data and a fresh folder. A benchmark whose result is None prints
    only.
    """

    arguments: str = "--data {data}"
    constants: Mapping[str, object] = field(default_factory=dict)
    result: str | None = ""  # default: the name of the script


TINY_SHAPE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
NEEDS_FLAIR = "Flair stands in an environment of its own (make peers)"

TOYS: dict[str, Toy | str] = {
    "ablation": "it judges models on 4,000 examples of each task, which a toy does not have",
    "adapt": Toy(
        "--data {data} --work {work} --steps 2",
        {
            "SEEDS": (1,),
            "ANCHORS": {"": ()},
            "CORPORA": {"cranfield": ("cranfield/corpus.jsonl", "--document-column", "_id")},
            "TAGGED": ("wikigold",),
        },
    ),
    "architectures": Toy("--only bert gpt2", result=None),
    "attention": Toy("--repeats 1"),
    "block": Toy("--repeats 1"),
    "change": Toy("--data {data} --work {work}", {"PLANTED": 1, "USAGES": 24, "OFTEN": (60, 10_000)}),
    "compiled": "torch.compile takes minutes for each way and corpus",
    "concat4": Toy("--data {data} --tokens 300 --repeats 1"),
    "concurrent_updates": Toy("--cases index,extract --pairs 2 --kills 1 --work {work}"),
    "exact_flair": NEEDS_FLAIR,
    "exact_sentence_transformers": Toy("--data {data}/paragraphs.txt --paragraphs 8"),
    "exact_transformers": Toy("--data {data}/paragraphs.txt --paragraphs 2"),
    "factory_strings": Toy("--count 3"),
    "families": Toy("--data {data} --tokens 300 --repeats 1", {"SHAPES": {"tiny": ["modernbert", TINY_SHAPE]}}),
    "from_scratch": Toy("--data {data} --minutes 0.05 --work {work}"),
    "gpu": Toy("--data {data} --device cpu --shape tiny --texts 40 --repeats 1", result="gpu-tiny"),
    "guard": "it builds another commit, of a history that a copy of the sources lacks",
    "growth": Toy("--sizes 100 --tiny-sizes 100 --shapes= --work {work}"),
    "heads": Toy("--data {data} --work {work} --no-fine-tune banking77", result="heads-banking77"),
    "heads_page": Toy("--data {data} --work {work} --tasks banking77,restaurant8k-slots,xquad --seeds 1"),
    "index_million": Toy(
        "--data {data} --work {work} --count 2000 --rounds 1 --only builds,auto,search,exact,shell", {"SHELL_RUNS": 1}
    ),
    "index_recipes": Toy("--data {data} --work {work}"),
    "int8_quality": Toy("--data {data} --paragraphs 20 --seeds 1"),
    "kill_and_resume": Toy("--kills 1 --rows 200 --work {work}"),
    "lstm": Toy("--data {data} --work {work} --rounds 1 --seeds 1 --epochs 1 --hidden 8"),
    "page_million": Toy("--data {data} --work {work} --count 500"),
    "plan_size": Toy("--files 20 --documents 10000 --scanned 200 --work {work}"),
    "pooled": Toy("--data {data} --tokens 300 --repeats 1"),
    "processors": Toy("--data {data} --tokens 300 --repeats 1"),
    "recall": Toy("--data {data} --work {work} --only banking77"),
    "rerank": Toy("--data {data} --work {work}"),
    "serve": Toy("--data {data} --seconds 1 --requests 50", {"TEXTS": 100, "ROUNDS": 1, "WARM_UP": 0.5}),
    "shapes": Toy("--data {data} --repeats 1", {"SHAPES": {"bert-base": TINY_SHAPE}}),
    "storing": Toy("--data {data} --documents 40 --repeats 1"),
    "table7": Toy(
        "--data {data} --work {work} wikigold",
        {"TABLES": {"wikigold": ("--rows", "last", "--seeds", "1", "--epochs", "1")}},
    ),
    "tagger_flair": NEEDS_FLAIR,
    "tagger_memory": Toy("--work {work}", {"SENTENCES": (50, 100)}),
    "torture": Toy("--trials 3 --lanes 1 --ways plain-local --faults kill,term,corrupt --work {work}"),
    "vectors": Toy("--parts 1 --work {work}"),
    "ways": Toy("--data {data} --rows 200 --rounds 1 --parts 20 --work {work}", {"MEMORY_ROWS": (400, 800)}),
    "whitening": Toy("--data {data} --work {work}"),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_benchmark_data(tmp_path_factory.mktemp("data"))


def test_every_script_has_a_toy() -> None:
    scripts = {path.name for path in (ROOT / "benchmarks").glob("[!_]*.py")} - NO_QUESTION
    assert {f"{name}.py" for name in TOYS} == scripts


@pytest.mark.slow
@pytest.mark.parametrize("name", TOYS)
def test_runs_at_toy_size(name: str, data: Path, tmp_path: Path) -> None:
    toy = TOYS[name]
    if isinstance(toy, str):
        pytest.skip(toy)
    copied = tmp_path / "checkout" / "benchmarks"  # results and pages are written beside the script
    shutil.copytree(ROOT / "benchmarks", copied, ignore=shutil.ignore_patterns("results", "__pycache__"))
    (copied / "results").mkdir()
    for beside in ("tests", "bertfeat", "cli", "docs"):
        (copied.parent / beside).symlink_to(ROOT / beside)
    work = tmp_path / "work"
    work.mkdir()
    arguments = toy.arguments.format(data=data, work=work).split()
    command = [sys.executable, "-m", "tests.support.toy_run", str(copied), name, json.dumps(toy.constants), *arguments]
    ended = subprocess.run(
        command, cwd=copied.parent, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True
    )
    if "this CPU has no" in ended.stderr or "there is no Chromium" in ended.stderr:
        pytest.skip(ended.stderr.strip())
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    if toy.result is not None:
        (written,) = (copied / "results").glob(f"{toy.result or name}*.json")
        assert commits(json.loads(written.read_text("utf-8"))), "a result says at which commit it was measured"


def commits(told: Any) -> list[str]:
    """Every commit that a result names."""
    if isinstance(told, list):
        return [commit for each in told for commit in commits(each)]
    if not isinstance(told, dict):
        return []
    own = [told["commit"]] if isinstance(told.get("commit"), str) else []
    return own + [commit for each in told.values() for commit in commits(each)]
