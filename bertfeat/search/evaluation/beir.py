"""A BEIR folder: queries, and human judgments of which documents answer them (Thakur et al. 2021)."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from bertfeat.arguments import checked
from bertfeat.errors import CorpusError, UsageError, parameter, shorten
from bertfeat.io import JsonError, decode_json, open_regular
from bertfeat.search.queries import NumberedLine, decoded_lines

_MOST_GRADE = 1_000
"""The largest absolute grade of a judgment; scoring takes time and memory for every grade up to the largest."""


@dataclass(frozen=True, slots=True)
class BeirFolder:
    """The queries of a BEIR folder and the judgments of their documents."""

    queries: Mapping[str, str]  # id → text, of the judged ones
    judgments: Mapping[str, Mapping[str, int]]  # query id → document id → grade

    @property
    def judged(self) -> set[str]:
        """The documents that are judged for any query."""
        return {document for grades in self.judgments.values() for document in grades}


@dataclass(frozen=True)
class _BeirQuery:
    """A line of ``queries.jsonl``."""

    _id: str | int
    text: str

    @property
    def id(self) -> str:
        return str(self._id)


@checked
def read_beir(folder: str | Path, split: str = "test") -> BeirFolder:
    """Read ``queries.jsonl`` and ``qrels/<split>.tsv``.

    Raises:
        CorpusError: a file is missing or empty, or a line of it is not in BEIR's form or contradicts another.
    """
    if not split.isprintable() or "/" in split:
        raise UsageError("this is not the name of a split, such as test", where=parameter("split", split))
    folder = Path(folder)
    judgments = _read_judgments(folder / "qrels" / f"{split}.tsv")
    queries = _read_judged_queries(folder / "queries.jsonl", judgments)
    for query in judgments:
        if query not in queries:
            raise CorpusError(
                f"the query {query!r}, which qrels/{split}.tsv judges, is not in it", where=folder / "queries.jsonl"
            )
    return BeirFolder(queries, judgments)


def _read_judgments(path: Path) -> dict[str, dict[str, int]]:
    judgments: dict[str, dict[str, int]] = {}
    for at, line in enumerate(_file_lines(path)):
        query, *rest = line.text.split("\t")
        if at == 0 and query in ("query-id", "query_id", "qid"):  # the header
            continue
        if len(rest) != 2 or not re.fullmatch(r"[+-]?[0-9]{1,4}", rest[1].strip()):
            raise _beir_error(
                path, line, "expected query-id, corpus-id and score (a whole number) with tabs between them"
            )
        document, grade = rest[0], int(rest[1])
        if abs(grade) > _MOST_GRADE:
            raise _beir_error(path, line, f"scores are from -{_MOST_GRADE:,} to {_MOST_GRADE:,}")
        if judgments.setdefault(query, {}).setdefault(document, grade) != grade:
            raise _beir_error(path, line, f"another line gives this query and document the score {judgments[query][document]}")  # noqa: E501  # fmt: skip
    if not judgments:
        raise CorpusError("there are no judgments in it", where=path)
    return judgments


def _read_judged_queries(path: Path, judged: Mapping[str, object]) -> dict[str, str]:
    """The texts of the judged queries, by id."""
    queries: dict[str, str] = {}
    for line in _file_lines(path):
        try:
            query = decode_json(line.text, _BeirQuery)
            query.text.encode()  # JSON can spell half a surrogate pair, which no model can read
        except (JsonError, UnicodeEncodeError) as error:
            raise _beir_error(path, line, f"expected an object with _id and text: {error}") from None
        if query.id in judged and queries.setdefault(query.id, query.text) != query.text:
            raise _beir_error(path, line, f"another line gives the query {query.id!r} another text")
    return queries


def _file_lines(path: Path) -> Iterator[NumberedLine]:
    try:
        with open_regular(path) as file:
            yield from decoded_lines(file, str(path))
    except OSError as error:
        raise CorpusError(
            f"{path} cannot be read: {error.strerror or error}",
            remedy="a BEIR folder has corpus.jsonl, queries.jsonl, qrels/",
        ) from error


def _beir_error(path: Path, line: NumberedLine, problem: str) -> CorpusError:
    return CorpusError(f"{problem}; it is {shorten(line.text)!r}", where=f"{path}, line {line.number}")


def unknown_documents(data: BeirFolder, ids: Iterable[pa.Array], where: str, place: str) -> set[str]:
    """The judged documents that are not among ``ids``, those of a ``place``: an index or a feature set.

    An error if none of the judged documents is among them.
    """
    judged = data.judged
    unknown = judged - {id_ for batch in ids for id_ in batch.to_pylist() if id_ in judged}
    if unknown == judged:
        raise CorpusError(
            f"none of the {len(judged):,} judged documents is in the {place} (such as {min(judged)!r})",
            where=where,
            remedy=f"extract the corpus.jsonl of the same folder with {parameter('id_column', '_id')}",
        )
    return unknown
