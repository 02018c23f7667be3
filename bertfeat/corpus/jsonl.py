"""JSONL files: an object a line."""

import json
from collections.abc import Iterator, Mapping, Sequence

from bertfeat.corpus.columns import sample_columns
from bertfeat.corpus.compression import Meter
from bertfeat.corpus.input_file import InputFile
from bertfeat.corpus.lines import BadLine, Line
from bertfeat.corpus.records import BadRecord, Record, is_storable
from bertfeat.errors import CorpusError, shell_spelling


class JsonlFile:
    """A JSONL file; where a field stands twice in an object, the last one counts."""

    complete = False
    cells = False

    def __init__(self, file: InputFile) -> None:
        self.name = file.name
        self._file = file
        sample = sample_columns(self.records(Meter(), ()), file.sample_size)
        self.sampled = sample.count
        self.types: Mapping[str, str] = sample.types
        self.columns = tuple(name for name in sample.columns if is_storable(name))

    def records(self, meter: Meter, names: Sequence[str]) -> Iterator[Record]:
        """Read all records; a blank line is None.

        Raises:
            CorpusError: the file is one JSON array.
        """
        number = 0
        for lines in self._file.lines(meter):
            for line in lines:
                number += 1
                if number == 1:
                    self._refuse_array(line)
                yield self._record(line, number, names)

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
            raise CorpusError("one JSON array, not an object a line", where=self.name, remedy=remedy)


_decode = json.JSONDecoder().raw_decode


def _parse_json(line: str) -> object:
    try:
        value, end = _decode(line)
    except ValueError:
        end = -1
    # json.loads takes white space at either end, and its error says where the line is wrong
    return value if end == len(line) else json.loads(line)
