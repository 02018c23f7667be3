"""Write the numbers of the tables in README.md and docs/ from results/: python benchmarks/tables.py, or --check them.

``quoted.py`` says which results the numbers of a row are; each is written with as many digits as stand there. The line
above a table says on which processors, and with which commits, its numbers were measured. ``--check`` changes nothing;
the exit code is 1 where a page is not as it should be.
"""

import functools
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.quoted import ROWS, SOURCES, TABLES, result

NUMBER = re.compile(r"(?<![\w.,])-?\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?")
TABLE = re.compile(r"(?:^\*(?:Measured|측정:) .*\n\n)?(?P<head>^\|.*\n\|[-| :]+\n)(?P<rows>(?:^\|.*\n)+)", re.MULTILINE)
_SAID = {"": ("Measured ", "with {} on {}"), "ko": ("측정: ", "{}, {}")}  # by the folder of a page's language


def pages() -> dict[Path, str]:
    """Every page that quotes results, as it should be."""
    texts: dict[Path, str] = {}
    for page, section in TABLES:
        path = ROOT / page
        said = _SAID.get(path.parent.name, _SAID[""])
        before, table, after = _cut(texts.get(path) or path.read_text("utf-8"), section)
        texts[path] = before + TABLE.sub(functools.partial(write_table, said=said), table) + after
    return texts


def _cut(text: str, section: str) -> tuple[str, str, str]:
    """A page before, in and after a section; all of it where none is named."""
    if not section:
        return "", text, ""
    before, heading, rest = text.partition(f"## {section}\n")
    following = re.search(r"^## ", rest, re.MULTILINE)
    end = following.start() if following else len(rest)
    return before + heading, rest[:end], rest[end:]


def write_table(found: re.Match[str], said: tuple[str, str]) -> str:
    """A table with the numbers of its results, below the line that says where; as it is where it quotes none."""
    lines = found["rows"].splitlines()
    names = dict.fromkeys(name for line in lines for name in SOURCES.get(label_of(line), ()))
    if not names:
        return found[0]
    measured, each = said
    where = "; ".join(each.format(commits, place) for place, commits in origins(names).items())
    return f"*{measured}{where}.*\n\n{found['head']}" + "".join(f"{write_row(line)}\n" for line in lines)


def label_of(row: str) -> str:
    """The first cell of a row."""
    return row.strip("|").partition(" |")[0].strip()


def write_row(row: str) -> str:
    """A row whose numbers are its results, each with the digits that stand there."""
    before, label, cells = row.partition(label_of(row))
    if label not in ROWS:
        return row
    quoted, values = NUMBER.findall(cells), ROWS[label]
    if len(values) != len(quoted):
        raise ValueError(f"{label}: {len(quoted)} numbers stand in the row, and quoted.py has {len(values)}")
    rest = iter(values)
    return before + label + NUMBER.sub(lambda number: written_like(number[0], next(rest)), cells)


def written_like(quoted: str, value: float) -> str:
    """A value with as many digits, and as an exponent where the number that stands there has one."""
    digits, exponent, _ = quoted.partition("e")
    places = len(digits.partition(".")[2])
    if exponent:
        return re.sub(r"e([-+])0*", lambda sign: f"e{sign[1].strip('+')}", f"{value:.{places}e}")
    rounded = Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    return f"{rounded:,}"


def origins(names: Iterable[str]) -> dict[str, str]:
    """The processors, or the GPUs, that results were measured on → the commits that they were measured with."""
    commits: dict[str, dict[str, None]] = {}
    for name in names:
        told = result(name)
        for record in machines(told):
            commits.setdefault(told.get("device") or processor(record), {})[f"`{record['commit']}`"] = None
    return {place: ", ".join(found) for place, found in commits.items()}


def processor(record: Mapping[str, Any]) -> str:
    """A processor as people call it."""
    name = str(record.get("processor", "a processor that was not noted")).replace("(R)", "").removesuffix(" Processor")
    generation = re.fullmatch(r"zen(\d)", record.get("microarchitecture", ""))
    amx = " with AMX" if "amx_bf16" in record.get("extensions", ()) else ""
    return f"{name}{f' (Zen {generation[1]})' if generation else ''}{amx}"


def machines(told: Any) -> Iterator[dict[str, Any]]:
    """Every record of a machine in a result; one that was measured in several steps has several."""
    if isinstance(told, dict):
        if "commit" in told:
            yield told
        else:
            for each in told.values():
                yield from machines(each)


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(any(path.read_text("utf-8") != text for path, text in pages().items()))
    for path, text in pages().items():
        path.write_text(text, "utf-8")
