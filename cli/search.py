"""``bertfeat search``: what is nearest to a query."""

import shutil
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from .frame import Command, option
from .options import talk_options
from .talk import Talk

if TYPE_CHECKING:
    from bertfeat.retrieval import Answer, Hit, Index

BLOCK = 256  # queries embedded and searched at once


@click.command(cls=Command, name="search")
@click.argument("folder", metavar="INDEX", type=click.Path(path_type=Path))
@click.argument("query", required=False)
@option("-k", default=10, type=click.IntRange(min=1), metavar="N", help="Hits for each query; default: 10.")
@option(
    "--queries", type=click.File(encoding="utf-8"), metavar="FILE", help="A query a line instead of QUERY; - is stdin."
)
@option("--where", metavar="CONDITION", help="On kept columns: \"year > 1900 and lang in ('de', 'en')\".")
@option(
    "--vectors",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE.npy",
    help="Your own query vectors [n, width] instead of QUERY.",
)
@option("--exact", is_flag=True, help="Compare with every vector, whatever the type of the index.")
@option("--stale", is_flag=True, further=True, help="Search though the features changed since the index was made.")
@option("--model", metavar="DIR", further=True, help="Where the index's model is now, if not where it was.")
@option("--device", metavar="DEVICE", further=True, help="Where queries are embedded; default: a GPU if there is one.")
@talk_options
def command(
    folder: Path,
    query: str | None,
    k: int,
    queries: IO[str] | None,
    where: str | None,
    vectors: Path | None,
    exact: bool,
    stale: bool,
    model: str | None,
    device: str | None,
    talk: Talk,
) -> None:
    """Search an index by text, embedded as its documents were.

    In an index of tokens or words a query asks for one of its words, marked with stars. --json prints a line a query:
    {"query": …, "hits": [{"rank": 1, "id": …, "score": …, "text": …}, …]}

    \b
    bertfeat search corpus.index "where does the river flow into the sea?"
    bertfeat search corpus.index --queries questions.txt -k 3 --json > answers.jsonl
    bertfeat search words.index "he sat on the *bank*"
    """
    if sum(given is not None for given in (query, queries, vectors)) != 1:
        raise click.UsageError("give one of QUERY, --queries and --vectors")
    from bertfeat.retrieval import Index

    index = Index(folder, model=model, device=device)
    if not stale:
        index.check_sources()
    if vectors is not None:
        answers = _by_vectors(index, vectors, k, where, exact)
    else:
        lines = iter([query] if query is not None else (line.strip() for line in queries or () if line.strip()))
        blocks = iter(lambda: list(islice(lines, BLOCK)), [])
        answers = (answer for block in blocks for answer in index.search(block, k, where=where, exact=exact))
    for number, answer in enumerate(answers):
        heading = [] if query is not None else [f"{'' if number == 0 else chr(10)}{answer.query or f'vector {number}'}"]
        talk.result(answer.plain(), [*heading, *(_lines(answer) or ["nothing found"])])


def _by_vectors(index: "Index", path: Path, k: int, where: str | None, exact: bool) -> Iterator["Answer"]:
    import numpy as np

    try:
        matrix = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise click.UsageError(f"--vectors {path}: no array of numbers as numpy.save writes it ({error})") from error
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiu":
        shape = f"{list(matrix.shape)} of {matrix.dtype}"
        raise click.UsageError(
            f"--vectors {path}: [n, {index.settings.width}] of numbers is needed, and this is {shape}"
        )
    for start in range(0, len(matrix), BLOCK):
        yield from index.search_vectors(matrix[start : start + BLOCK], k, where=where, exact=exact)


def _lines(answer: "Answer") -> list[str]:
    """A line a hit: score, id and text."""
    wide = max((len(hit.id) for hit in answer.hits), default=0)
    lines = [f"{hit.score:7.4f}  {hit.id:<{wide}}  {_text(hit)}".rstrip() for hit in answer.hits]
    return [_cut(line) for line in lines] if sys.stdout.isatty() else lines


def _text(hit: "Hit") -> str:
    """The text of a hit on one line; in an index of words the word between stars."""
    text, pair = hit.text or "", hit.pair
    if hit.place is not None:
        start, end = hit.place.start, hit.place.end
        marked = pair or "" if hit.place.in_pair else text
        marked = f"{marked[:start]}*{marked[start:end]}*{marked[end:]}"
        text, pair = (text, marked) if hit.place.in_pair else (marked, pair)
    line = " ".join((text if pair is None else f"{text} ||| {pair}").split())
    return "".join(sign if sign.isprintable() else " " for sign in line)  # nothing that moves a terminal's cursor


def _cut(line: str) -> str:
    """What fits on a line of the terminal."""
    from rich.cells import cell_len, set_cell_size

    width = shutil.get_terminal_size().columns
    return line if cell_len(line) <= width else set_cell_size(line, width - 1) + "…"
