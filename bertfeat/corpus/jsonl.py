"""JSONL files: an object a line."""

import json
from collections.abc import Iterator, Sequence

from bertfeat.corpus.columns import sample_columns
from bertfeat.corpus.compression import Meter, read_blocks
from bertfeat.corpus.lines import BadLine, Line, TextEncoding, read_lines
from bertfeat.corpus.records import BadRecord, Record, is_storable
from bertfeat.corpus.sources import Source
from bertfeat.errors import CorpusError


class JsonLines:
    """A JSONL file; where a field stands twice in an object, the last one counts."""

    complete = False
    cells = False

    def __init__(self, source: Source, encoding: TextEncoding, sample_size: int) -> None:
        self.name = source.name
        self._source = source
        self._encoding = encoding
        sample = sample_columns(self.records(Meter(), ()), sample_size)
        self.sampled = sample.count
        self.types = sample.types
        self.columns = tuple(name for name in sample.columns if is_storable(name))

    def records(self, meter: Meter, names: Sequence[str]) -> Iterator[Record]:
        """Read all records, a blank line as nothing.

        Raises:
            CorpusError: the file is one JSON array.
        """
        source = self._source
        number = 0
        for lines in read_lines(read_blocks(source.path, source.name, source.compression, meter), self._encoding):
            for line in lines:
                number += 1
                if number == 1:
                    self._refuse_array(line)
                yield self._record(line, number, names)

    def _record(self, line: Line, number: int, names: Sequence[str]) -> Record:
        if isinstance(line, BadLine):
            return BadRecord(f"line {number}", line.reason, line.text)
        try:
            record = _parse(line)
        except RecursionError:
            return BadRecord(f"line {number}", "not readable JSON: nested too deeply", line)
        except ValueError as error:
            if not line.strip():
                return None
            what = f"{error.msg}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else "a huge number"
            return BadRecord(f"line {number}", f"not JSON: {what}; mend the line, or name the --format", line)
        if type(record) is not dict:
            return BadRecord(f"line {number}", 'not a JSON object such as {"text": "…"}; mend the line', line)
        if ("\\ud" in line or "\\uD" in line) and not all(is_storable(record.get(name)) for name in names):
            reason = "half of a surrogate pair (such as \\ud83d alone) in a field; it cannot be stored: mend the line"
            return BadRecord(f"line {number}", reason, line)
        return record

    def _refuse_array(self, line: Line) -> None:
        if isinstance(line, str) and line.lstrip().startswith("["):
            raise CorpusError(
                f"{self.name}: one JSON array, not an object a line; convert it, for example with jq -c '.[]'"
            )


_decode = json.JSONDecoder().raw_decode


def _parse(line: str) -> object:
    try:
        value, end = _decode(line)
    except ValueError:
        end = -1
    # white space on either side, or an error whose place is to be told
    return value if end == len(line) else json.loads(line)
