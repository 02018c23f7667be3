"""``bertfeat search``: the documents, tokens, words or spans nearest to a query."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from bertfeat.errors import errors_within
from bertfeat.search import SearchSettings

from .app import Command, option
from .bundles import on_command_line, settings_options
from .console import Console, fields_of
from .option_types import LOCATION
from .options import (
    output_options,
    recorded_device_option,
    recorded_model_option,
    rerank_options,
    width_option,
)
from .result_lines import columns_to_show, hit_lines, json_values, show_option, unmet_in_index, why_line
from .terminal import cut_end, single_line, terminal_width

if TYPE_CHECKING:
    from bertfeat import Index, MaxSim
    from bertfeat.io import Location
    from bertfeat.search import Answer, Hit

BLOCK = 256  # queries embedded and searched at once
_INDENT = 9  # of what is said below a hit


@click.command(cls=Command, name="search")
@click.argument("folder", metavar="INDEX", type=LOCATION)
@click.argument("query", required=False)
@settings_options("settings", SearchSettings)
@option("--queries", type=click.File("rb"), metavar="FILE", help="A query a line instead of QUERY; - is stdin.")
@show_option
@option(
    "--vectors",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE.npy",
    help="Your own query vectors [n, width] instead of QUERY.",
)
@rerank_options
@width_option
@option("--stale", is_flag=True, further=True, help="Search even if the features changed since the index was built.")
@recorded_model_option
@recorded_device_option
@output_options
def command(
    folder: "Location",
    query: str | None,
    settings: SearchSettings,
    queries: BinaryIO | None,
    show: tuple[str, ...],
    vectors: Path | None,
    rerank: "MaxSim | None",
    width: int | None,
    stale: bool,
    model: str | None,
    device: str | None,
    console: Console,
) -> None:
    """Search an index by text, embedded as its documents were.

    In an index of tokens or words, mark the word of the query that is searched for with stars. On a terminal lines are
    cut to its width, elsewhere they are whole; around a word or a span is a little of its text. --json prints a line a
    query, with all kept columns unless --show names some:
    {"query": …, "hits": [{"rank": 1, "id": …, "score": …, "text": …, "values": {…}}, …]}

    \b
    bertfeat search corpus.index "where does the river flow into the sea?"
    bertfeat search corpus.index "a storm at sea" --where "year between 1850 and 1900" --show author,year
    bertfeat search corpus.index --queries questions.txt -k 3 --json > answers.jsonl
    bertfeat search corpus.index "unsteady flow over a wing" --rerank maxsim
    bertfeat search corpus.index "a storm at sea" -k 3 --why
    bertfeat search words.index "he sat on the *bank*"
    """
    _check_search_options(query, queries, vectors, console)
    from bertfeat import Index

    index = Index(folder, model=model, device=device)
    shown = columns_to_show(show, index.kept)
    if not stale:
        index.check_sources()
    settings = replace(settings, rerank=rerank)
    if vectors is not None:
        answers = _search_vectors(index, vectors, settings)
    elif queries is not None:
        answers = _search_file(index, queries, settings)
    else:
        answers = iter([index.search(query or "", **fields_of(settings))])
    line_width = terminal_width(width) if width or sys.stdout.isatty() else None
    queries_done, found = _print_answers(answers, line_width, shown, console, headings=query is None)
    if not queries_done:
        console.warn("there are no queries, so there is nothing to answer")
    elif not found and settings.where is not None and not index.count(settings.where).documents:
        console.say(unmet_in_index(index, settings.where))


def _check_search_options(query: str | None, queries: BinaryIO | None, vectors: Path | None, console: Console) -> None:
    """Refuse options that contradict one another, or would do nothing."""
    if sum(value is not None for value in (query, queries, vectors)) != 1:
        raise click.UsageError("give one of QUERY, --queries and --vectors")
    for name in ("model", "device"):
        if vectors is not None and on_command_line(name):
            raise click.UsageError(
                f"--{name} is for embedding queries, and --vectors are vectors already; leave it out"
            )
    for name in ("rerank", "why"):
        if vectors is not None and on_command_line(name):
            raise click.UsageError(f"--{name} compares the tokens of a text, and --vectors have none; leave one out")
    if console.as_json and on_command_line("width"):
        raise click.UsageError("--width is for lines, and --json has none; leave one out")


def _search_file(index: "Index", queries: BinaryIO, settings: SearchSettings) -> Iterator["Answer"]:
    from bertfeat.search import read_queries

    lines = read_queries(queries, getattr(queries, "name", "<stdin>"))
    while block := list(islice(lines, BLOCK)):
        yield from index.search_batch(block, **fields_of(settings))


def _search_vectors(index: "Index", path: Path, settings: SearchSettings) -> Iterator["Answer"]:
    from bertfeat.search import query_vectors, read_vectors

    matrix = read_vectors(path)
    if matrix.ndim != 2:
        with errors_within(path):
            query_vectors(matrix, index.settings.width)  # raises the error about its shape
    for start in range(0, max(len(matrix), 1), BLOCK):
        with errors_within(path):
            block = query_vectors(matrix[start : start + BLOCK], index.settings.width, first=start)
        yield from index.search_vectors(block, **fields_of(settings))


def _print_answers(
    answers: Iterable["Answer"], width: int | None, shown: tuple[str, ...], console: Console, *, headings: bool
) -> tuple[int, int]:
    """Print answers as they come, with ``headings`` each under its query; return the numbers of answers and of hits."""
    number, found = 0, 0
    warned = set[str]()
    for number, answer in enumerate(answers, 1):
        found += len(answer.hits)
        for warning in (each for each in answer.warnings if each not in warned):
            console.warn(warning)
            warned.add(warning)
        if console.as_json:
            console.result(_answer_json(answer, shown), [])
            continue
        lines = hit_lines(answer.hits, width, shown) or ["nothing found"]
        lines = [each for line, hit in zip_longest(lines, answer.hits) for each in (line, *_why_lines(hit, width))]
        if headings:
            query = f"vector {number - 1}" if answer.query is None else single_line(answer.query)
            lines = [f"{chr(10) * (number > 1)}{query}", *lines]
        console.result(None, lines)
    return number, found


def _why_lines(hit: "Hit | None", width: int | None) -> list[str]:
    """The line below a hit that says why it is near, where that was asked."""
    if hit is None or hit.why is None:
        return []
    line = f"{' ' * _INDENT}{why_line(hit.why)}"
    return [line if width is None else cut_end(line, width)]


def _answer_json(answer: "Answer", shown: tuple[str, ...]) -> dict[str, object]:
    """The answer as JSON; where ``--show`` names kept columns, without the others."""
    plain: dict[str, object] = answer.to_json()
    if not shown:
        return plain
    return {**plain, "hits": [{**hit.to_json(), "values": json_values(hit.values, shown)} for hit in answer.hits]}
