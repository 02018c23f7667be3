"""Every benchmark runs to its end at toy size: none rots between one measurement and the next."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.benchmark_data import write_benchmark_data
from tests.support.tiny_models import Tiny

ROOT = Path(__file__).resolve().parent.parent
NO_QUESTION = {"quoted.py", "chart.py", "tables.py", "mpnet.py"}
"""Scripts that measure nothing: the quoted numbers, their tables, the charts, and a model that is fetched."""


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
    "attention": Toy("--repeats 1", {"TOKENS": 512, "LENGTHS": (8, 512)}),
    "canary": Toy("--data {data} --work {work} --queries 2", {"REPEATS": 1}),
    "change": Toy("--data {data} --work {work}", {"PLANTED": 1, "USAGES": 24, "OFTEN": (60, 10_000)}),
    "chosen_layers": Toy(
        "--data {data} --work {work} --senses {data}/senses.csv",
        {
            "MODELS": {"all-MiniLM-L6-v2": "sentence-transformers/all-MiniLM-L6-v2"},
            "TRAINING": ("--seeds", "1", "--epochs", "1"),
        },
    ),
    "chosen_words": Toy("--data {data} --work {work} --paragraphs 8 --repeats 1"),
    "compiled": "torch.compile takes minutes for each way and corpus",
    "concat4": Toy("--data {data} --tokens 100 --repeats 1"),
    "concurrent_updates": Toy("--cases index,extract --pairs 1 --kills 1 --work {work}"),
    "contexts": Toy("--data {data} --work {work}", {"TOKENS": 1_500, "REPEATS": 1}),
    "exact_flair": NEEDS_FLAIR,
    "exact_sentence_transformers": Toy("--data {data}/paragraphs.txt --paragraphs 8"),
    "exact_transformers": Toy("--data {data}/paragraphs.txt --paragraphs 2", {"SHAPES": {"tiny": TINY_SHAPE}}),
    "factory_strings": Toy("--count 3"),
    "families": Toy("--data {data} --tokens 300 --repeats 1", {"SHAPES": {"tiny": ["modernbert", TINY_SHAPE]}}),
    "from_scratch": Toy("--data {data} --minutes 0.05 --work {work}"),
    "gpu": Toy("--data {data} --device cpu --shape tiny --texts 40 --repeats 1", result="gpu-tiny"),
    "guard": "it builds another commit, of a history that a copy of the sources lacks",
    "growth": Toy("--sizes 100 --tiny-sizes 100 --shapes= --work {work}"),
    "heads": Toy("--data {data} --work {work} --no-fine-tune banking77", result="heads-banking77"),
    "heads_page": Toy("--data {data} --work {work} --tasks banking77,restaurant8k-slots,xquad --seeds 1"),
    "index_million": Toy(
        "--data {data} --work {work} --count 600 --rounds 1 --only builds,auto,search,exact,shell", {"SHELL_RUNS": 1}
    ),
    "index_recipes": Toy("--data {data} --work {work}"),
    "why": Toy("--data {data} --pairs 3 --paragraphs 20"),
    "int8_quality": Toy("--data {data} --seeds 1"),
    "kill_and_resume": Toy("--kills 1 --rows 200 --work {work}"),
    "late_interaction": Toy("--data {data} --tokens 300 --repeats 1", {"QUERIES": 3}),
    "layers_by_task": Toy(
        "--data {data} --work {work} --senses {data}/senses.csv --only senses,usages,gains,search,likeness,labels",
        {"LAYERS": {"all-MiniLM-L6-v2": ("embeddings", "last", "concat4")}, "SEEDS": 1, "RESAMPLES": 10},
    ),
    "korean_words": Toy("--word 은행 --work {work} --repeats 1"),
    "living": Toy("--data {data} --work {work} --rows 150 --rounds 1 --sizes 200"),
    "living_index": Toy(
        "--data {data} --work {work} --rows 150 --rounds 1 --days 1 --clients 2", {"QUIET_SECONDS": 0.2}
    ),
    "lookups": Toy("--data {data} --work {work} --paragraphs 120 --repeats 1"),
    "lstm": Toy("--data {data} --work {work} --rounds 1 --seeds 1 --epochs 1 --hidden 8"),
    "many_vectors": Toy("--data {data} --work {work}", {"WIDTHS": (512,), "TIMED": 2}),
    "maps": Toy("--data {data} --work {work} --methods pca,tsne --paragraphs 120"),
    "page_lines": Toy("--data {data} --work {work} --paragraphs 120 --repeats 1"),
    "page_million": Toy("--data {data} --work {work} --count 200"),
    "plan_size": Toy("--files 20 --documents 10000 --scanned 200 --work {work}"),
    "pool_tokens": Toy("--data {data} --work {work}", {"FACTORS": (2,), "RESAMPLES": 10}),
    "pooled": Toy("--data {data} --tokens 100 --repeats 1", {"PRECISIONS": ("fp32",)}),
    "precision": Toy("--data {data} --paragraphs 6", {"MODELS": {"all-MiniLM-L6-v2": None}}),
    "processors": Toy("--data {data} --tokens 100 --repeats 1"),
    "recall": Toy("--data {data} --work {work} --only banking77"),
    "rerank": Toy("--data {data} --work {work}", {"COLUMNS": ("layer6_token",), "TIMED": 2}),
    "rerank_route": Toy("--data {data} --work {work}", {"TEXTS": 3, "EVERY": {"cranfield": 1, "xquad": 1}}),
    "senses": Toy(result=None),
    "serve": Toy(
        "--data {data} --seconds 0.5 --requests 50 --steps bulk,peer,memory",
        {"TEXTS": 100, "CLIENTS": 4, "ROUNDS": 1, "WARM_UP": 0.5},
    ),
    "serve_models": Toy("--data {data} --seconds 0.5 --rounds 1 --shape tiny", {"CLIENTS": 2, "WARM_UP": 0.5}),
    "shapes": Toy("--data {data} --repeats 1", {"SHAPES": {"bert-base": TINY_SHAPE}}),
    "small_sets": Toy(
        "--data {data} --work {work} --senses {data}/senses.csv --seeds 1", {"WAYS": {"int8, width 3": ["int8", 3]}}
    ),
    "spans": Toy("--data {data} --work {work}", {"STRETCHES": 6, "TEXTS": 6, "STRETCH": 500}),
    "stored_encoder": Toy("--data {data} --work {work} --repeats 1", {"TEXTS": 20}),
    "storing": Toy("--data {data} --documents 40 --repeats 1"),
    "subword": Toy("--data {data} --work {work} --seeds 1 --epochs 1"),
    "table7": Toy(
        "--data {data} --work {work} wikigold",
        {"TABLES": {"wikigold": ("--rows", "last", "--seeds", "1", "--epochs", "1")}},
    ),
    "tagger_flair": NEEDS_FLAIR,
    "tagger_memory": Toy("--work {work}", {"SENTENCES": (50,)}),
    "tokenizing": Toy("--data {data} --tokens 2000 --repeats 1"),
    "torture": Toy("--trials 3 --lanes 1 --ways plain-local --faults kill,term,corrupt --work {work}"),
    "vectors": Toy("--parts 1 --work {work}", {"ROUNDS": 1}),
    "vectors_in_torch": Toy("--work {work}", {"ROUNDS": 1, "SECONDS": 0.1}),
    "rows": Toy("--data {data} --rows 40 --repeats 1"),
    "ways": Toy(
        "--data {data} --rows 40 --rounds 1 --parts 4 --work {work}",
        {"MEMORY_ROWS": (100,), "WAYS": {"one process": (), "join": ("--join",)}},
    ),
    "whitening": Toy("--data {data} --work {work}", {"LAYERS": ("sum4",), "COLUMNS": ("sum4",)}),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_benchmark_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def toy_runs() -> Iterator["subprocess.Popen[str]"]:
    """A process that runs scripts at toy size."""
    command, pipe = [sys.executable, "-m", "tests.support.toy_run"], subprocess.PIPE
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, text=True) as process:
        yield process


def test_every_script_has_a_toy() -> None:
    scripts = {path.name for path in (ROOT / "benchmarks").glob("[!_]*.py")} - NO_QUESTION
    assert {f"{name}.py" for name in TOYS} == scripts


@pytest.mark.sampled(0, 8)
@pytest.mark.parametrize("name", TOYS)
def test_runs_at_toy_size(name: str, toy_runs: "subprocess.Popen[str]", data: Path, tmp_path: Path) -> None:
    toy = TOYS[name]
    if isinstance(toy, str):
        pytest.skip(toy)
    copied = tmp_path / "checkout" / "benchmarks"  # results, pages and pictures are written beside the script
    shutil.copytree(ROOT / "benchmarks", copied, ignore=shutil.ignore_patterns("results", "__pycache__"))
    (copied / "results").mkdir()
    shutil.copytree(ROOT / "docs", copied.parent / "docs")
    for beside in ("tests", "bertfeat", "cli", "examples"):
        (copied.parent / beside).symlink_to(ROOT / beside)
    work = tmp_path / "work"
    work.mkdir()
    arguments = toy.arguments.format(data=data, work=work).split()
    output = tmp_path / "output"
    asked = {"folder": str(copied), "script": name, "constants": toy.constants, "arguments": arguments}
    assert toy_runs.stdin
    assert toy_runs.stdout
    print(json.dumps({**asked, "output": str(output)}), file=toy_runs.stdin, flush=True)
    exit_code = toy_runs.stdout.readline()
    told = output.read_text("utf-8")
    if "this CPU has no" in told or "there is no Chromium" in told:
        pytest.skip(told.strip())
    assert exit_code == "0\n", told[-6000:]
    if toy.result is not None:
        (written,) = (copied / "results").glob(f"{toy.result or name}*.json")
        assert commits(json.loads(written.read_text("utf-8"))), "a result says at which commit it was measured"


@pytest.mark.slow
def test_ways_of_a_duel_have_processes_of_their_own(bert: Tiny) -> None:
    code = (
        "import json, pathlib, sys; sys.path.insert(0, 'benchmarks'); from _duel import Way, duel\n"
        "ways = [Way('pooled_ours:fp32'), Way('pooled_nobody:fp32')]\n"
        "print(json.dumps(duel(ways, ['The river.', 'A bank.'] * 4, pathlib.Path(sys.argv[1]), 64, 2)))"
    )
    command = [sys.executable, "-c", code, str(bert.folder)]
    told = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    assert [len(runs) for runs in told["runs"].values()] == [2]
    assert told["tokens_per_second"]["pooled_ours:fp32"] > 0
    assert told["failed"] == {"pooled_nobody:fp32": "KeyError: 'pooled_nobody'"}


def commits(told: Any) -> list[str]:
    """Every commit that a result names."""
    if isinstance(told, list):
        return [commit for each in told for commit in commits(each)]
    if not isinstance(told, dict):
        return []
    own = [told["commit"]] if isinstance(told.get("commit"), str) else []
    return own + [commit for each in told.values() for commit in commits(each)]
