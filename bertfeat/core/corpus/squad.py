"""A reader of SQuAD's JSON, versions 1.1 and 2.0: articles of paragraphs with questions; one record per question."""

import json
from collections.abc import Iterator, Mapping, Sequence

from bertfeat.core.corpus.input_file import Columns, CorpusFile
from bertfeat.core.corpus.json_array import JsonArrayReader
from bertfeat.core.corpus.records import BadRecord, Record, type_name
from bertfeat.errors import shorten

_COLUMNS: Mapping[str, str] = {
    "id": "string",
    "title": "string",
    "question": "string",
    "context": "string",
    "answers": "string",  # JSON: [{"text": "…", "start": 0}, …]
    "answer": "string",  # the first one; empty if there is none
    "answer_start": "int64",  # characters of the context before it; -1 if there is none
    "is_impossible": "bool",  # whether the file says that the context has no answer
}
"""The fields of a question's record, and their types as kept columns."""

_SHOWN = 30  # most characters of an answer in a message

_Object = Mapping[str, object]


class SquadReader(JsonArrayReader):
    """Reads a SQuAD file, from any of its articles on; the articles are decoded one by one."""

    key = "data"
    format_name = "SQuAD's JSON"
    form = 'one object with a list of articles under "data"'
    smaller = "split it by its articles, or make JSONL of it, a question a line"
    element_name = "article"
    record_name = "question"

    @classmethod
    def look(cls, file: CorpusFile, sample_size: int) -> Columns:
        """The columns, which are those of every SQuAD file."""
        cls._check_beginning(file)
        return Columns(file.name, tuple(_COLUMNS), _COLUMNS, complete=True)

    def read(self, element: object, number: int) -> Sequence[Record]:
        """The questions of an article."""
        return list(_read_article(element, number))


# ── the questions of an article ───────────────────────────────────────────────────────────────────────────────


class _BadQuestionError(Exception):
    """An error that ends the reading of a question: its problem, and the value."""

    def __init__(self, reason: str, value: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.value = value


def _read_article(article: object, number: int) -> Iterator[Record]:
    """The records of an article's questions; an article or paragraph that has no list of them is one bad record.

    ``number`` counts from 1. An answer that is not in the context at its ``answer_start`` makes its question a bad
    record.
    """
    where = f"article {number}"
    paragraphs = article.get("paragraphs") if isinstance(article, dict) else None
    if not isinstance(article, dict) or not isinstance(paragraphs, list):
        yield BadRecord(where, 'not an object with a list of "paragraphs"; correct it', "")
        return
    for place, paragraph in enumerate(paragraphs, 1):
        yield from _read_paragraph(paragraph, article, f"{where}, paragraph {place}")


def _read_paragraph(paragraph: object, article: _Object, where: str) -> Iterator[Record]:
    questions = paragraph.get("qas") if isinstance(paragraph, dict) else None
    if not isinstance(paragraph, dict) or not isinstance(questions, list):
        yield BadRecord(where, 'not an object with a list of questions under "qas"; correct it', "")
        return
    for place, question in enumerate(questions, 1):
        yield _read_question(question, paragraph, article, f"{where}, question {place}")


def _read_question(question: object, paragraph: _Object, article: _Object, where: str) -> Record:
    name = None
    try:
        if not isinstance(question, dict):
            raise _BadQuestionError(f"{type_name(question)}, not an object; correct it")
        name = _id_of(question)
        return _make_record(name, question, paragraph, article)
    except _BadQuestionError as bad:
        place = where if not name else f"question '{shorten(name)}'"
        return BadRecord(place, bad.reason, bad.value, None if not name else shorten(name))


def _id_of(question: _Object) -> str:
    """The id of a question, which is a number in some data sets."""
    number = question.get("id")
    name = str(number) if isinstance(number, int) and not isinstance(number, bool) else _string_in(question, "id")
    if not name:
        raise _BadQuestionError("its id is empty; give it one")
    return name


def _make_record(name: str, question: _Object, paragraph: _Object, article: _Object) -> Record:
    context = _string_in(paragraph, "context")
    answers = question.get("answers", [])
    if not isinstance(answers, list):
        raise _BadQuestionError(f"answers is {type_name(answers)}, not a list of objects; correct it")
    gold = [_read_answer(answer, f"answer {place}", context) for place, answer in enumerate(answers, 1)]
    impossible = question.get("is_impossible", False)
    if not isinstance(impossible, bool):
        raise _BadQuestionError(f"is_impossible is {type_name(impossible)}, not true or false; correct it")
    if impossible and gold:
        raise _BadQuestionError("is_impossible, but there are answers; correct it, or call them plausible_answers")
    return {
        "id": name,
        "title": "" if article.get("title") is None else _string_in(article, "title"),
        "question": _string_in(question, "question"),
        "context": context,
        "answers": json.dumps([{"text": text, "start": start} for text, start in gold], ensure_ascii=False),
        "answer": gold[0][0] if gold else "",
        "answer_start": gold[0][1] if gold else -1,
        "is_impossible": impossible,
    }


def _read_answer(answer: object, which: str, context: str) -> tuple[str, int]:
    text, start = (answer.get("text"), answer.get("answer_start")) if isinstance(answer, dict) else (None, None)
    if not isinstance(text, str) or isinstance(start, bool) or not isinstance(start, int):
        raise _BadQuestionError(f"{which} is not an object with a text and a whole number answer_start; correct it")
    if not text:
        raise _BadQuestionError(f"{which} is empty; leave it out where there is none", f"answer_start {start}")
    if start < 0 or not context.startswith(text, start):
        at = context.find(text)
        remedy = (
            f"it first stands at {at}: correct answer_start" if at >= 0 else "nor elsewhere in it: correct the text"
        )
        stands = context[max(0, start) :][: len(text)]
        value = f"'{text[:_SHOWN]}', where '{stands[:_SHOWN]}' stands"
        raise _BadQuestionError(f"{which} does not stand at {start} in the context; {remedy}", value)
    return text, start


def _string_in(fields: _Object, name: str) -> str:
    value = fields.get(name)
    if isinstance(value, str):
        return value
    said = f"{name} is {type_name(value)}, not a string" if name in fields else f"no {name}"
    raise _BadQuestionError(f"{said}; correct it")
