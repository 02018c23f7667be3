"""Examples as texts, as a whole model reads them that is fine-tuned."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from bertfeat.errors import HeadError
from bertfeat.features import FeatureSet
from bertfeat.heads.gold import QUESTION, Gold
from bertfeat.heads.kinds import HeadKind
from bertfeat.training import describe_source


@dataclass(frozen=True, slots=True)
class HeadTexts:
    """Examples as texts, E in number."""

    kind: HeadKind
    ids: tuple[str, ...]  # [E]
    texts: tuple[str, ...]  # [E] the text, the first of a pair, or the question
    others: tuple[tuple[str, ...], ...]  # [E] none; the second of a pair, or the passage; the choices
    gold: tuple[Gold, ...]  # [E], or none


def read_texts(kind: HeadKind, sets: Sequence[FeatureSet], gold: Sequence[Gold]) -> HeadTexts:
    """The texts of feature sets, in the order of their examples.

    Raises:
        HeadError: texts are not stored.
    """
    for features in sets:
        if "text" not in features.names:
            problem, remedy = "it holds no texts, which fine-tuning reads", "give the corpus"
            raise HeadError(problem, where=describe_source(features), remedy=remedy)
    rows = list(_rows_of(sets))
    if kind is HeadKind.CHOOSE:
        questions = [list(group) for _, group in groupby(rows, key=lambda row: row[3])]
        ids = tuple(str(group[0][3]) for group in questions)
        others = tuple(tuple(row[2] or "" for row in group) for group in questions)
        return HeadTexts(kind, ids, tuple(group[0][1] for group in questions), others, tuple(gold))
    others = tuple(() if row[2] is None else (row[2],) for row in rows)
    return HeadTexts(kind, tuple(row[0] for row in rows), tuple(row[1] for row in rows), others, tuple(gold))


def _rows_of(sets: Sequence[FeatureSet]) -> Iterator[tuple[str, str, str | None, object]]:
    """Id, first and second text of each row, and which question it is of."""
    first = sets[0]
    names = [name for name in ("id", "text", "pair", QUESTION) if name in first.names]
    seconds = (text for batch in sets[-1].stream(["text"]) for text in batch.column("text").to_pylist())
    for batch in first.stream(names):
        for row in batch.to_pylist():
            second = next(seconds) if len(sets) == 2 else row.get("pair")
            yield row["id"], row["text"], second, row.get(QUESTION)
