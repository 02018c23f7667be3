"""What does an hour teach a new model of mini's shape (4 layers, 256 wide)?

    python benchmarks/from_scratch.py --data DATA [--minutes M] [--work DIR]

DATA holds novels/dated.csv.gz: 4 million pieces. Runs ``bertfeat pretrain`` on masked words and next sentences with
default settings and a vocabulary of 8,000, and keeps the scores on held-out text before and after. What --work holds is
not done again.
"""

import argparse
import json
from pathlib import Path

from _commands import bertfeat
from _machine import machine

RESULT = Path(__file__).parent / "results" / "from_scratch.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--work", type=Path, default=Path("build/from_scratch"))
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    settings = ["--shape", "mini", "--vocabulary", "8000", "--minutes", f"{options.minutes:g}"]
    corpus = [str(options.data / "novels" / "dated.csv.gz"), "--document-column", "title"]
    folder = options.work / "novels-mini.model"
    bertfeat("pretrain", *corpus, *settings, "-o", str(folder), "--quiet")
    record = json.loads((folder / "pretraining.json").read_text("utf-8"))
    told = {name: record[name] for name in ("figures", "steps", "tokens", "seconds", "before", "after", "versions")}
    result = {"machine": machine(), "settings": settings, **told}
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result["after"], indent=1))


if __name__ == "__main__":
    main()
