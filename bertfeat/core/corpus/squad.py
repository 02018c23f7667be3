"""A reader of SQuAD's JSON, versions 1.1 and 2.0: articles of paragraphs with questions; one record per question.

The reader comes first, then the questions of an article, then the array of articles, of which one is decoded at a time.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from bertfeat.core.corpus.blocks import Meter, changed_error, read_blocks
from bertfeat.core.corpus.document import Position
from bertfeat.core.corpus.input_file import Columns, CorpusFile
from bertfeat.core.corpus.records import BadRecord, Record, RecordReader, is_storable, type_name
from bertfeat.errors import CorpusError, parameter, shorten

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

MAX_FILE = 256 * 2**20
"""Most bytes of a file, decompressed, since it is held in memory as a whole. (SQuAD 2.0's own file has 42 million.)"""

_SHOWN = 30  # most characters of an answer in a message
_decode = json.JSONDecoder().raw_decode
_BLANKS = re.compile(r"[ \t\n\r]*")

_Object = Mapping[str, object]


class SquadReader(RecordReader):
    """Reads a SQuAD file, from any of its articles on; the articles are decoded one by one."""

    _article = Position(0, 0, 0)  # where the newest article begins

    @classmethod
    def look(cls, file: CorpusFile, sample_size: int) -> Columns:
        """The columns, which are those of every SQuAD file."""
        try:
            next(_decoded_articles(_read_text(file)), None)
        except _BadJsonError as error:
            remedy = (
                f'it is one object with a list of articles under "data"; correct it, or name its {parameter("format")}'
            )
            raise CorpusError(f"not SQuAD's JSON: {error}", where=file.name, remedy=remedy) from None
        return Columns(file.name, tuple(_COLUMNS), _COLUMNS, complete=True)

    def records(self, names: Sequence[str]) -> Iterator[Record]:
        """Read the questions."""
        text = _read_text(self.file)
        may_be_torn = "\\ud" in text or "\\uD" in text
        number, skip = self.start.record - self.start.skip, self.start.skip
        for articles, (article, begin, end) in enumerate(self._articles(text), self.start.line):
            records = list(_read_article(article, articles + 1))
            if len(records) < skip:
                raise changed_error(self.file.name)
            if len(records) > skip:
                self._article = Position(begin, articles, number)
            for record in records[skip:]:
                yield _refuse_torn(record) if may_be_torn else record
            number, skip = number + len(records), 0
            self.meter.read += self.file.source.size * (end - begin) // len(text)

    def position_of(self, record: int, *, last: bool) -> Position:
        """The position of a record in its article."""
        begin = self._article
        return Position(begin.offset, begin.line, record, record - begin.record)

    def _articles(self, text: str) -> Iterator[tuple[object, int, int]]:
        """The articles from the start on, each with the places where it begins and ends."""
        begin, articles = self.start.offset, self.start.line
        try:
            for item in _decoded_articles(text, begin):
                yield item
                articles += 1
        except _BadJsonError as error:
            if begin and articles == self.start.line:  # it could be read when the position was taken
                raise changed_error(self.file.name) from None
            raise CorpusError(f"cannot be read on after article {articles:,}: {error}", where=self.file.name) from None


def _read_text(file: CorpusFile) -> str:
    """The whole text of a file."""
    data = bytearray()
    for block in read_blocks(file.source, Meter()):
        data += block
        if len(data) > MAX_FILE:
            problem = f"larger than {MAX_FILE // 2**20} MiB, the most that is read of a file of questions"
            remedy = "split it by its articles, or make JSONL of it, a question a line"
            raise CorpusError(problem, where=file.name, remedy=remedy)
    encoding = file.encoding
    try:
        return str(memoryview(data)[encoding.mark :], encoding.name)
    except UnicodeError as error:
        at = f" at byte {encoding.mark + error.start + 1:,}" if isinstance(error, UnicodeDecodeError) else ""
        remedy = f"correct it, or give the file's {parameter('encoding')}"
        raise CorpusError(f"not {encoding.name}{at}", where=file.name, remedy=remedy) from None


def _refuse_torn(record: Record) -> Record:
    """A record as it is, or a bad record if one of its fields has half of a surrogate pair."""
    if isinstance(record, Mapping) and not is_storable(record):
        problem = "half of a surrogate pair (such as \\ud83d alone) in a field; it cannot be stored: correct it"
        return BadRecord(f"question '{shorten(record['id'])}'", problem, "", shorten(record["id"]))
    return record


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


# ── the array of articles ─────────────────────────────────────────────────────────────────────────────────────


class _BadJsonError(Exception):
    """A text is not JSON, or not an object with a list of articles; says what, and where."""


def _decoded_articles(text: str, begin: int = 0) -> Iterator[tuple[object, int, int]]:
    """Decode the articles, from the one that begins at ``begin`` on, or all; each with its beginning and its end.

    Damage in the text is an error only after the articles before it. A library that decodes the whole file
    would refuse all of it for half a surrogate pair in one question, take the last of two "data" in silence, and name
    no line.
    """
    scan = _Scanner(text, begin)
    if begin == 0:
        _enter_array(scan)
    if begin or scan.peek() != "]":
        while True:
            scan.peek()
            first = scan.at
            yield scan.take_value(), first, scan.at
            if scan.take(",]") == "]":
                break
    else:
        scan.take("]")
    _leave_array(scan)


class _Scanner:
    """A scanner of a JSON text, which takes one value or one sign (a single character) at a time."""

    def __init__(self, text: str, at: int) -> None:
        self._text = text
        self.at = at

    def peek(self) -> str:
        """Skip blanks, and return the next sign without taking it; an empty string at the end."""
        blanks = _BLANKS.match(self._text, self.at)
        assert blanks is not None
        self.at = blanks.end()
        return self._text[self.at : self.at + 1]

    def take(self, signs: str) -> str:
        """Take and return the next sign, which must be one of ``signs``."""
        sign = self.peek()
        if not sign or sign not in signs:
            raise self.error(f"{' or '.join(map(repr, signs))} expected")
        self.at += 1
        return sign

    def take_value(self) -> object:
        """Take and return a value."""
        self.peek()
        try:
            value, self.at = _decode(self._text, self.at)
        except json.JSONDecodeError as error:
            self.at = error.pos
            raise self.error(error.msg) from None
        except RecursionError:
            raise self.error("nested too deeply") from None
        except ValueError:
            raise self.error("a huge number") from None
        return value

    def take_key(self) -> object:
        """Take a key and its colon, and return the key."""
        if self.peek() != '"':
            raise self.error("a key expected")
        key = self.take_value()
        self.take(":")
        return key

    def error(self, problem: str) -> _BadJsonError:
        """Return the error of a problem at this place, with its line and column."""
        line = self._text.count("\n", 0, self.at) + 1
        column = self.at - self._text.rfind("\n", 0, self.at)
        return _BadJsonError(f"{problem}, line {line}, column {column}")


def _enter_array(scan: _Scanner) -> None:
    """Go past the ``[`` of ``data``, whatever other keys stand before it."""
    if scan.peek() != "{":
        raise scan.error("an object expected")
    scan.take("{")
    if scan.peek() == "}":
        raise _BadJsonError('the object has no "data"')
    while scan.take_key() != "data":
        scan.take_value()
        if scan.take(",}") == "}":
            raise _BadJsonError('the object has no "data"')
    if scan.peek() != "[":
        raise scan.error('"data" is not a list')
    scan.take("[")


def _leave_array(scan: _Scanner) -> None:
    """Go from the end of the array to the end of the text."""
    while scan.take(",}") == ",":
        if scan.take_key() == "data":
            raise scan.error('a second "data"')
        scan.take_value()
    if scan.peek():
        raise scan.error("something follows the object")
