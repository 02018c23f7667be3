"""Commands in processes of their own, and the scores that several benchmarks ask of those of bertfeat."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

BERTFEAT = str(Path(sys.executable).with_name("bertfeat"))


def printed(command: Sequence[str], **environment: str) -> str:
    """Run a command; returns what it prints. Its messages are shown."""
    return subprocess.run(command, env=os.environ | environment, check=True, stdout=subprocess.PIPE, text=True).stdout


def json_printed(command: Sequence[str], **environment: str) -> dict[str, Any]:
    """Run a command; returns the JSON that it prints last."""
    told: dict[str, Any] = json.loads(printed(command, **environment).splitlines()[-1])
    return told


def bertfeat(*words: str) -> str:
    """Run a command of bertfeat; returns what it prints."""
    return printed([BERTFEAT, *words])


def bertfeat_json(*words: str) -> dict[str, Any]:
    """Run a command of bertfeat with ``--json``; returns its result."""
    return json_printed([BERTFEAT, *words, "--json", "--quiet"])


def search_score(folder: Path, settings: Sequence[str], beir: Path) -> float:
    """nDCG@10 of the mean vectors of the last layer, by exact search; features and index are left in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    features, index = str(folder / "cranfield.features"), str(folder / "cranfield.index")
    corpus = (str(beir / "corpus.jsonl"), "--text-column", "title,text")
    bertfeat("extract", *corpus, *settings, "--layers", "last", "--pooling", "mean", "-o", features, "--quiet")
    bertfeat("index", features, "-o", index, "--quiet")
    return float(bertfeat_json("evaluate", index, "--beir", str(beir), "--exact")["ndcg_at_10"])


def tagger_score(folder: Path, settings: Sequence[str], data: Path) -> float:
    """Span F1 on the test part of ``data`` of a tagger that learns from the others; it is left in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    tagger = str(folder / "made.tagger")
    parts = [
        str(shutil.copy(data / f"{name}.conll", folder)) for name in ("train", "dev", "test")
    ]  # features lie beside
    bertfeat("tag", "train", "--train", parts[0], "--dev", parts[1], *settings, "-o", tagger, "--quiet")
    return float(bertfeat_json("tag", "evaluate", tagger, parts[2])["f1"])
