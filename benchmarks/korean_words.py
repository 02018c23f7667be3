"""What do Korean words with their particles apart (``--words korean``) gain for a look-up, and what do they cost?

    python benchmarks/korean_words.py [--texts FILE] [--word 파일] [--work DIR]

FILE has a Korean text a line: for the committed result, paragraphs of more than 30 characters in the HTML of Debian's
packages libreoffice-help-ko and debian-faq-ko, each once, of which more than a third of the characters are Hangul. Word
vectors of the default model, in int8; what the splitting costs does not depend on the model. Each extraction is a
process of its own, in turn; processor seconds and most memory are medians.
"""

import argparse
import json
import os
import shutil
import subprocess
from pathlib import Path
from statistics import median
from typing import Any

from _commands import BERTFEAT, bertfeat_json
from _machine import machine

ROOT = Path(__file__).parent.parent
RESULT = Path(__file__).parent / "results" / "korean_words.json"
RULES = ("spaces", "korean")
MIB = 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=Path, default=ROOT / "examples" / "korean.txt")
    parser.add_argument("--word", default="파일")
    parser.add_argument("--work", type=Path, default=Path("build/korean_words"))
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    sets = {rule: options.work / f"{rule}.features" for rule in RULES}
    runs: dict[str, list[tuple[float, float]]] = {rule: [] for rule in RULES}
    for _ in range(options.repeats):
        for rule, folder in sets.items():
            shutil.rmtree(folder, ignore_errors=True)
            runs[rule].append(extract(options.texts, folder, rule))
    found: dict[str, Any] = {
        "machine": machine(),
        "characters": len(options.texts.read_text("utf-8")),
        "word": options.word,
        "rules": {
            rule: {
                "usages": bertfeat_json("usages", str(folder), options.word, "-k", "0")["found"],
                "usages_of_all_that_begin_so": bertfeat_json("usages", str(folder), f"{options.word}*", "-k", "0")[
                    "found"
                ],
                "documents": bertfeat_json("info", str(folder))["documents"],
                "processor_seconds": round(median(seconds for seconds, _ in runs[rule]), 1),
                "memory_mib": round(median(memory for _, memory in runs[rule])),
                "runs": runs[rule],
            }
            for rule, folder in sets.items()
        },
    }
    print(json.dumps(found["rules"], ensure_ascii=False))
    RESULT.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")


def extract(texts: Path, folder: Path, rule: str) -> tuple[float, float]:
    """Extract word vectors in a process of its own; returns its processor seconds and most memory in MiB."""
    settings = ("--pooling", "word", "--dtype", "int8", "--words", rule, "--quiet")
    process = subprocess.Popen([BERTFEAT, "extract", str(texts), "-o", str(folder), *settings])
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{rule}: the extraction failed")
    return round(used.ru_utime + used.ru_stime, 2), round(used.ru_maxrss * 1024 / MIB, 1)


if __name__ == "__main__":
    main()
