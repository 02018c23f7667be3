"""Small corpora of every kind, with blank lines, failing rows and equal texts; and changes of them."""

import gzip
import json
import random
from collections.abc import Callable, Sequence
from io import BytesIO

WORDS = ("river", "bank", "money", "water", "old", "mill", "stone", "north", "wind", "house", "letter", "light")
KINDS = ("many", "few", "packed", "text", "parquet")
_BROKEN = "\N{REPLACEMENT CHARACTER}"

Rows = list[str | None]
"""The texts of a file; None is no text, and one sign stands for what cannot be read."""

Corpus = dict[str, Rows]
"""The rows of each file, by the file's name."""


def make_corpus(kind: str, draw: random.Random) -> Corpus:
    """A corpus of about 220 rows."""
    sizes = {
        "many": {f"{number:02}.jsonl": draw.randrange(3, 15) for number in range(20)} | {"zip.jsonl.gz": 50},
        "few": {"a.jsonl": 110, "b.jsonl": 112},
        "packed": {"a.jsonl.gz": 71, "b.jsonl.gz": 70, "c.jsonl": 72},
        "text": {"a.txt": 90, "b.txt": 12, "c.txt.gz": 40, "d.txt": 75},
        "parquet": {"a.parquet": 100, "b.parquet": 110},
    }[kind]
    return {name: _rows(size, draw) for name, size in sizes.items()}


def change_corpus(corpus: Corpus, draw: random.Random) -> tuple[str, Corpus]:
    """Another state of a corpus, and what is different."""
    changed = {name: list(rows) for name, rows in corpus.items()}
    name = draw.choice(sorted(changed))
    rows = changed[name]
    how = draw.choice(("edited", "grown", "shrunk", "inserted", "file added", "file removed", "touched"))
    if how == "edited":
        rows[draw.randrange(len(rows))] = "another text that nobody wrote before"
    elif how == "grown":
        rows += _rows(draw.randrange(1, 30), draw)
    elif how == "shrunk":
        del rows[max(1, len(rows) - draw.randrange(1, 30)) :]
    elif how == "inserted":
        rows.insert(draw.randrange(len(rows)), "a line that was not there")
    elif how == "file added":
        changed[f"a-{name}"] = _rows(draw.randrange(5, 40), draw)
    elif how == "file removed":
        del changed[name]
    return how, changed


def file_bytes(name: str, rows: Sequence[str | None]) -> bytes:
    """The content of a file."""
    if name.endswith(".parquet"):
        return _parquet(rows)
    line: Callable[[int, str | None], bytes] = _text_line if ".txt" in name else _json_line
    content = b"".join(line(number, row) + b"\n" for number, row in enumerate(rows))
    return gzip.compress(content, mtime=0) if name.endswith(".gz") else content


def _rows(count: int, draw: random.Random) -> Rows:
    rows: Rows = []
    for _ in range(count):
        kind = draw.random()
        text = " ".join(draw.choices(WORDS, k=draw.randrange(1, 40)))
        rows.append(_BROKEN if kind < 0.02 else None if kind < 0.04 else "" if kind < 0.06 else text)
        if 0.06 <= kind < 0.1 and len(rows) > 1:
            rows[-1] = rows[-2]
    rows[0] = f"the first of {count}"
    return rows


def _json_line(number: int, row: str | None) -> bytes:
    if row == "":
        return b""
    return b"{this is no JSON" if row == _BROKEN else json.dumps({"id": f"n{number}", "text": row}).encode()


def _text_line(number: int, row: str | None) -> bytes:
    del number
    return b"\xff\xfe no text" if row == _BROKEN else (row or "").encode()


def _parquet(rows: Sequence[str | None]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = [None if row == _BROKEN else row for row in rows]
    file = BytesIO()
    table = pa.table({"id": [f"n{number}" for number in range(len(rows))], "text": pa.array(texts, pa.string())})
    pq.write_table(table, file, row_group_size=30)
    return file.getvalue()
