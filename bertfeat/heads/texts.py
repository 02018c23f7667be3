"""Examples as texts, as a whole model reads them that is fine-tuned."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from bertfeat.heads.gold import Gold, read_choices
from bertfeat.heads.kinds import HeadKind
from bertfeat.heads.tables import ExampleTable


@dataclass(frozen=True, slots=True)
class HeadTexts:
    """Examples as texts, E in number."""

    kind: HeadKind
    ids: tuple[str, ...]  # [E]
    texts: tuple[str, ...]  # [E] the text, the first of a pair, or the question
    others: tuple[tuple[str, ...], ...]  # [E] none; the second of a pair, or the passage; the choices
    gold: tuple[Gold, ...]  # [E], or none

    @property
    def passages(self) -> list[str]:
        """The second text of each example, empty where there is none. [E]."""
        return [others[0] if others else "" for others in self.others]


def read_texts(kind: HeadKind, table: ExampleTable, gold: Sequence[Gold]) -> HeadTexts:
    """The texts of a table, in the order of its examples.

    Raises:
        HeadError: texts are not stored.
    """
    rows = table.texts()
    if kind is HeadKind.CHOOSE:
        questions = read_choices(table)
        groups = [list(islice(rows, count)) for count in questions.counts.tolist()]
        others = tuple(tuple(second or "" for _, _, second in group) for group in groups)
        return HeadTexts(kind, questions.questions, tuple(group[0][1] for group in groups), others, tuple(gold))
    listed = list(rows)
    others = tuple(() if second is None else (second,) for _, _, second in listed)
    return HeadTexts(kind, tuple(row[0] for row in listed), tuple(row[1] for row in listed), others, tuple(gold))


def name_examples(kind: HeadKind, table: ExampleTable, passages: Sequence[str], gold: Sequence[Gold]) -> HeadTexts:
    """Examples by their ids, with nothing of their texts but the passages of questions: those of textless sets, too."""
    if kind is HeadKind.CHOOSE:
        ids = read_choices(table).questions
    else:
        ids = tuple(str(owner) for _, owner in table.column("id"))
    others = tuple((passage,) for passage in passages) or ((),) * len(ids)
    return HeadTexts(kind, ids, (), others, tuple(gold))
