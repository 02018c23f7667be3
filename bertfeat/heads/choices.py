"""Questions with several choices as a corpus that has a row for each choice."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from bertfeat.corpus import BlankLine, Corpus, CorpusSettings, Document, Failure, memory_corpus
from bertfeat.errors import HeadError, parameter
from bertfeat.heads.gold import QUESTION, RIGHT
from bertfeat.heads.kinds import PairForm
from bertfeat.io import quote_names


def choice_corpora(
    questions: Corpus, choices: Sequence[str], label: str | None, form: PairForm
) -> Iterator[tuple[str, Corpus]]:
    """The choices of all questions, in memory: pairs of question and choice, or (apart) the questions and the choices.

    Each row keeps which question it is of, and, where there is a column ``label``, whether it is the right choice.

    Raises:
        HeadError: a question that cannot be read, lacks a choice, has the id of the one before, or whose label names
            none.
    """
    documents: list[Document] = []
    before = None
    for question in questions.rows():
        made = list(_choice_rows(question, questions, choices, label))
        if made and made[0].id == before:  # the choices of both would be one question's
            problem, remedy = "it has the id of the one before it", "give each question an id of its own"
            raise HeadError(problem, where=f"{', '.join(questions.sources[:3])}, row {made[0].row}", remedy=remedy)
        before = made[0].id if made else before
        documents += made
    keep = CorpusSettings(keep=(f"{QUESTION}:string", *([] if label is None else [f"{RIGHT}:bool"])))
    if form is PairForm.TOGETHER:
        yield "", memory_corpus(documents, keep)
        return
    yield "", memory_corpus([replace(document, pair=None) for document in documents], keep)
    yield ".second", memory_corpus([Document(row.row, row.id, row.pair or "") for row in documents])


def _choice_rows(
    question: Document | Failure | BlankLine, corpus: Corpus, choices: Sequence[str], label: str | None
) -> Iterator[Document]:
    if isinstance(question, BlankLine):
        return
    where = f"{', '.join(corpus.sources[:3])}, question {question.id}"
    if isinstance(question, Failure):
        raise HeadError(question.reason, where=where)
    values = dict(zip((column.name for column in corpus.kept), question.kept, strict=True))
    for name in choices:
        if not values[name]:
            problem, remedy = f"it has no choice {name!r}", "every question has to have equally many choices"
            raise HeadError(problem, where=where, remedy=remedy)
    right = None if label is None else _right_choice(values[label], choices, where)
    for number, name in enumerate(choices):
        kept = (question.id,) if right is None else (question.id, number == right)
        yield Document(question.row, f"{question.id}:{name}", question.text, str(values[name]), kept=kept)


def _right_choice(label: object, choices: Sequence[str], where: str) -> int:
    """The number of the right choice: by its number from 0, or the name of its column."""
    names = {**{str(number): number for number in range(len(choices))}, **{name: n for n, name in enumerate(choices)}}
    text = str(label)
    if text not in names and re.fullmatch(r"[0-9]+\.0*", text):  # a column of numbers with gaps, as pandas writes it
        text = text.partition(".")[0]
    if text not in names:
        raise HeadError(
            f"its label {label!r} names none of its {len(choices)} choices",
            where=where,
            remedy=f"write its number from 0 to {len(choices) - 1}, or one of {quote_names(tuple(choices))}, or name "
            f"another column with {parameter('label')}",
        )
    return names[text]
