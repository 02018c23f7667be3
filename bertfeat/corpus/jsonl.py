"""JSONL files: an object a line."""

import json
from collections.abc import Iterator, Mapping, Sequence

from bertfeat.corpus.blocks import Meter
from bertfeat.corpus.columns import sample_columns
from bertfeat.corpus.input_file import Columns, CorpusFile
from bertfeat.corpus.lines import BadLine, Line
from bertfeat.corpus.positions import START, Position
from bertfeat.corpus.records import BadRecord, Record, is_storable
from bertfeat.corpus.tables import RecordReader
from bertfeat.errors import CorpusError, parameter, shell_spelling


class JsonlReader(RecordReader):
    """Reads a JSONL file; where a field stands twice in an object, the last one counts."""

    def __init__(self, file: CorpusFile, start: Position, meter: Meter) -> None:
        super().__init__(file, start, meter)
        self._lines = file.lines(start, meter)

    @classmethod
    def look(cls, file: CorpusFile, sample_size: int) -> Columns:
        """The fields of the first records."""
        sample = sample_columns(cls(file, START, Meter()).records(()), sample_size)
        columns = tuple(name for name in sample.columns if is_storable(name))
        return Columns(file.name, columns, sample.types, seen=sample.seen, sampled=sample.count)

    def records(self, names: Sequence[str]) -> Iterator[Record]:
        """Read the records; a blank line is None.

        Raises:
            CorpusError: the file is one JSON array, or SQuAD's one object.
        """
        number = self.start.line
        for lines in self._lines:
            for line in lines:
                number += 1
                if number == 1:
                    self._refuse_array(line)
                record = self._record(line, number, names)
                if number == 1:
                    self._refuse_questions(record)
                yield record

    def position_of(self, record: int, *, last: bool) -> Position:
        """The position of a record, which is a line."""
        return Position(self._lines.newest.offset_of(record), record, record)

    def _record(self, line: Line, number: int, names: Sequence[str]) -> Record:
        if isinstance(line, BadLine):
            return BadRecord(f"line {number}", line.reason, line.text)
        try:
            record = _parse_json(line)
        except RecursionError:
            return BadRecord(f"line {number}", "not readable JSON: nested too deeply", line)
        except ValueError as error:
            if not line.strip():
                return None
            problem = (
                f"{error.msg}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else "a huge number"
            )
            remedy = f"correct the line, or name the {shell_spelling('format')}"
            if number == 1 and line.strip() == "{":
                remedy = f"write an object a line, or give {shell_spelling('format', 'squad')} if it is SQuAD's"
            return BadRecord(f"line {number}", f"not JSON: {problem}; {remedy}", line)
        if type(record) is not dict:
            reason = 'not a JSON object such as {"text": "…"}; correct the line'
            return BadRecord(f"line {number}", reason, line)
        if ("\\ud" in line or "\\uD" in line) and not all(is_storable(record.get(name)) for name in names):
            problem = "half of a surrogate pair (such as \\ud83d alone) in a field; it cannot be stored"
            return BadRecord(f"line {number}", f"{problem}: correct the line", line)
        return record

    def _refuse_array(self, line: Line) -> None:
        if isinstance(line, str) and line.lstrip().startswith("["):
            remedy = "convert it, for example with jq -c '.[]'"
            raise CorpusError("one JSON array, not an object a line", where=self.file.name, remedy=remedy)

    def _refuse_questions(self, record: Record) -> None:
        articles = record.get("data") if isinstance(record, Mapping) else None
        if isinstance(articles, list) and articles and isinstance(articles[0], dict) and "paragraphs" in articles[0]:
            problem = "one JSON object with the articles of SQuAD, not an object a line"
            raise CorpusError(problem, where=self.file.name, remedy=f"give {parameter('format', 'squad')}")


_decode = json.JSONDecoder().raw_decode


def _parse_json(line: str) -> object:
    try:
        value, end = _decode(line)
    except ValueError:
        end = -1
    # json.loads takes white space at either end, and its error says where the line is wrong
    return value if end == len(line) else json.loads(line)
