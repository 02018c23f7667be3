"""Which layers make the best features for tagging? Table 7 of the BERT paper on WNUT-17 and Wikigold.

    python benchmarks/table7.py --data DATA wnut17 [--work DIR]

DATA holds wnut17/{train,dev,test}.conll and wikigold/wikigold.conll. WNUT-17 is taken as it is given. Wikigold has no
split; ours is by documents, counted from 0 in the order of the file: those whose number leaves 3 on division by 5 are
the development set, those that leave 4 the test set, the other three fifths the training set.

Runs ``bertfeat tag table7``, and keeps its table, its picture and its JSON. What --work holds is not done again.
"""

import argparse
import json
import shutil
from pathlib import Path

from _commands import bertfeat
from _machine import machine

RESULTS = Path(__file__).parent / "results"
PAPER = ["--rows", "paper", "--seeds", "3"]
# The point of the paper's grid with most steps at the highest rate (all eighteen would take a day here), and the same
# at six times the rate: the paper's are for models many times the size of the default one.
TUNED = ["--fine-tune", "16:5e-05:4,16:3e-04:4"]
TABLES = {
    "wnut17": PAPER,
    "wikigold": [*PAPER, *TUNED],
    "wikigold-hidden768": ["--rows", "concat4", "--seeds", "1", "--hidden", "768"],
    "wikigold-context": ["--rows", "second-to-last,concat4", "--seeds", "3", "--document-context"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("build/table7"))
    options = parser.parse_args()
    if options.table.startswith("wikigold"):
        data = split_by_documents(options.data / "wikigold" / "wikigold.conll", options.work / "wikigold")
    else:
        data = options.data / "wnut17"
    folder = options.work / f"{options.table}.table7"
    given = [part for name in ("train", "dev", "test") for part in (f"--{name}", str(data / f"{name}.conll"))]
    measured_on = machine()
    print(bertfeat("tag", "table7", *given, "-o", str(folder), *TABLES[options.table]))
    told = {"machine": measured_on, "options": TABLES[options.table]} | json.loads((folder / "table7.json").read_text())
    (RESULTS / f"table7-{options.table}.json").write_text(json.dumps(told, indent=1) + "\n")
    for ending in ("md", "png"):
        shutil.copy(folder / f"table7.{ending}", RESULTS / f"table7-{options.table}.{ending}")


def split_by_documents(path: Path, folder: Path) -> Path:
    """Write ``train.conll``, ``dev.conll`` and ``test.conll`` into the folder."""
    documents = path.read_text("utf-8").split("-DOCSTART- O\n")
    parts = {"train": (0, 1, 2), "dev": (3,), "test": (4,)}
    folder.mkdir(parents=True, exist_ok=True)
    for name, remainders in parts.items():
        mine = [each.strip("\n") for number, each in enumerate(documents) if each.strip() and number % 5 in remainders]
        (folder / f"{name}.conll").write_text("".join(f"-DOCSTART- O\n\n{each}\n\n" for each in mine), "utf-8")
    return folder


if __name__ == "__main__":
    main()
