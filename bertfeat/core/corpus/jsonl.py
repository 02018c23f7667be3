"""The reader of JSONL files, which have one JSON object per line."""

import json
from collections.abc import Sequence

from bertfeat.core.corpus.records import TORN, BadRecord, Fields, LineRecordReader, Record, are_storable
from bertfeat.errors import CorpusError, parameter, shell_spelling

_decode = json.JSONDecoder().raw_decode  # takes no white space at either end


class JsonlReader(LineRecordReader):
    """Reads a JSONL file; where an object has a field twice, the last one counts."""

    def record(self, line: str, number: int, names: Sequence[str]) -> Record:
        """Parse the object of a line; a file that is a single JSON array, or the single object of SQuAD, is refused."""
        if number == 1 and line.lstrip().startswith("["):
            problem, remedy = "one JSON array, not an object a line", f"give {parameter('format', 'json')}"
            raise CorpusError(problem, where=self.file.name, remedy=remedy)
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
        if number == 1:
            self._refuse_squad(record)
        # only an escape can be half of a surrogate pair
        if ("\\ud" in line or "\\uD" in line) and not are_storable(record, names):
            return BadRecord(f"line {number}", f"{TORN}: correct the line", line)
        return record

    def _refuse_squad(self, record: Fields) -> None:
        articles = record.get("data")
        if isinstance(articles, list) and articles and isinstance(articles[0], dict) and "paragraphs" in articles[0]:
            problem = "one JSON object with the articles of SQuAD, not an object a line"
            raise CorpusError(problem, where=self.file.name, remedy=f"give {parameter('format', 'squad')}")


def _parse_json(line: str) -> object:
    try:
        value, end = _decode(line)
    except ValueError:
        end = -1
    # json.loads takes white space at either end, and its error says where the line is wrong
    return value if end == len(line) else json.loads(line)
