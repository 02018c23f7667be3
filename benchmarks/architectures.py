"""Which encoders of transformers does bertfeat compute exactly, on which path, and which does it refuse?

    python benchmarks/architectures.py

Builds a tiny random model of every encoder of texts that transformers has, computes texts, pairs and the windows of a
long text in fp32, and holds every layer of every token against transformers' own `hidden_states` of that window alone:
by bertfeat alone, and by bertfeat in the company of all others. Each model is then loaded again and computed in another
order, and an extraction that lost a part is resumed; both must give the same bytes.
Writes the table of benchmarks/architectures.md.
"""

import argparse
import json
import logging
import sys
import tempfile
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from _machine import machine  # noqa: E402

BEGIN, END = "<!-- table: benchmarks/architectures.py -->", "<!-- end of table -->"
PAGE = ROOT / "benchmarks" / "architectures.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", help="names of architectures; nothing is written then")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "architectures.json")
    options = parser.parse_args()
    quieten()
    from tests.support.tiny_architectures import ARCHITECTURES

    found = {name: examined(name) for name in options.only or ARCHITECTURES}
    wrong = [name for name, each in found.items() if not each["as_expected"]]
    print(json.dumps(Counter(each["form"] or "refused" for each in found.values()), indent=1))
    print("not as expected:", ", ".join(wrong) or "none")
    if not options.only:
        options.out.write_text(json.dumps({"machine": machine(), "architectures": found}, indent=1) + "\n")
        write_page(found)
    sys.exit(1 if wrong else 0)


def quieten() -> None:
    from transformers.utils import logging as theirs

    theirs.set_verbosity_error()
    theirs.disable_progress_bar()
    logging.getLogger("bertfeat").setLevel(logging.ERROR)


def examined(name: str) -> dict[str, Any]:
    from tests.support.architecture_check import check, resumes
    from tests.support.tiny_architectures import ARCHITECTURES

    architecture = ARCHITECTURES[name]
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / "model"
        found = check(architecture, folder)
        resumed = resumes(folder, Path(work)) if found.form else None
    as_expected = found.form == architecture.form and found.exact and resumed is not False
    print(f"{name}: {found.form or 'refused'}, alone {found.alone:.1e}, in company {found.in_company:.1e}", flush=True)
    return {**asdict(found), "resumed": resumed, "as_expected": as_expected}


def write_page(found: dict[str, dict[str, Any]]) -> None:
    page = PAGE.read_text("utf-8")
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    PAGE.write_text("\n".join([before + BEGIN, "", *rows(found), "", END + after]), "utf-8")


def rows(found: dict[str, dict[str, Any]]) -> list[str]:
    head = ["| architecture | path | alone | in company | notes |", "|---|---|---|---|---|"]
    computed = [
        f"| {name} | {each['form']} | {each['alone']:.0e} | {each['in_company']:.0e} | {'; '.join(each['notes'])} |"
        for name, each in found.items()
        if each["form"]
    ]
    refused = [f"| {name} | refused | | | {each['refusal']} |" for name, each in found.items() if not each["form"]]
    return [*head, *computed, *refused]


if __name__ == "__main__":
    main()
