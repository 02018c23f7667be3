"""SQuAD's JSON, versions 1.1 and 2.0: articles of paragraphs, with questions about each; a record a question."""

from collections.abc import Iterator, Mapping, Sequence

from bertfeat.corpus.blocks import Meter, changed_error, read_blocks
from bertfeat.corpus.input_file import Columns, CorpusFile
from bertfeat.corpus.json_array import ArrayItem, JsonArrayError, array_items
from bertfeat.corpus.positions import Position
from bertfeat.corpus.questions import QUESTION_COLUMNS, read_article
from bertfeat.corpus.records import BadRecord, Record, is_storable
from bertfeat.corpus.tables import RecordReader
from bertfeat.errors import CorpusError, parameter
from bertfeat.io import shorten

MAX_FILE = 256 * 2**20
"""Bytes of the largest file that is read, decompressed: it is held whole. (SQuAD 2.0's own has 42 million.)"""


class SquadReader(RecordReader):
    """Reads a SQuAD file, from any of its articles on; the articles are decoded one by one."""

    _article = Position(0, 0, 0)  # where the newest one begins

    @classmethod
    def look(cls, file: CorpusFile, sample_size: int) -> Columns:
        """The columns, which are those of every SQuAD file."""
        try:
            next(array_items(_read_text(file), "data"), None)
        except JsonArrayError as error:
            remedy = (
                f'it is one object with a list of articles under "data"; correct it, or name its {parameter("format")}'
            )
            raise CorpusError(f"not SQuAD's JSON: {error}", where=file.name, remedy=remedy) from None
        return Columns(file.name, tuple(QUESTION_COLUMNS), QUESTION_COLUMNS, complete=True)

    def records(self, names: Sequence[str]) -> Iterator[Record]:
        """Read the questions."""
        text = _read_text(self.file)
        may_be_torn = "\\ud" in text or "\\uD" in text
        number, skip = self.start.record - self.start.skip, self.start.skip
        for articles, item in enumerate(self._articles(text), self.start.line):
            records = list(read_article(item.value, articles + 1))
            if len(records) < skip:
                raise changed_error(self.file.name)
            if len(records) > skip:
                self._article = Position(item.begin, articles, number)
            for record in records[skip:]:
                yield _refuse_torn(record) if may_be_torn else record
            number, skip = number + len(records), 0
            self.meter.read += self.file.source.size * (item.end - item.begin) // len(text)

    def position_of(self, record: int, *, last: bool) -> Position:
        """The position of a record in its article."""
        begin = self._article
        return Position(begin.offset, begin.line, record, record - begin.record)

    def _articles(self, text: str) -> Iterator[ArrayItem]:
        """The articles from the start on."""
        begin, articles = self.start.offset, self.start.line
        try:
            for item in array_items(text, "data", begin):
                yield item
                articles += 1
        except JsonArrayError as error:
            if begin and articles == self.start.line:  # it could be read when the position was told
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
    """A record, or what is wrong if it has half of a character."""
    if isinstance(record, Mapping) and not is_storable(record):
        problem = "half of a surrogate pair (such as \\ud83d alone) in a field; it cannot be stored: correct it"
        return BadRecord(f"question '{shorten(record['id'])}'", problem, "", shorten(record["id"]))
    return record
