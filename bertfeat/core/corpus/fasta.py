"""A reader of FASTA: a protein is a line ``>id description`` and lines of residues; a residue is a word."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from bertfeat.core.corpus.blocks import Meter
from bertfeat.core.corpus.document import MAX_TEXT, Position
from bertfeat.core.corpus.input_file import Columns, CorpusFile
from bertfeat.core.corpus.lines import BadLine, LineBlock
from bertfeat.core.corpus.records import BadRecord, Record, RecordReader

_COLUMNS = {"id": "string", "description": "string", "sequence": "string"}
_NO_RESIDUE = re.compile(r"[^A-Za-z.*\-\s]")
_MOST_RESIDUES = MAX_TEXT // 2  # with the spaces between them


@dataclass(slots=True)
class _OpenProtein:
    """The lines of a protein as far as they have been read, and where the first of them lies."""

    block: LineBlock
    line: int  # lines of the file before it
    header: str | None = None
    residues: list[str] = field(default_factory=list)
    size: int = 0
    where: str = ""  # the place of the problem
    problem: str = ""
    value: str = ""

    @property
    def place(self) -> tuple[LineBlock, int]:
        """The place of its first line: the block, and the number of lines of the file before it."""
        return self.block, self.line

    @property
    def begun(self) -> bool:
        return self.header is not None or bool(self.residues or self.problem)

    def add(self, line: str, number: int) -> None:
        self.size += len(line)
        if self.header is None:
            self.fail(number, "residues before the first line with '>'; put '>' and an id above them", line)
        elif wrong := _NO_RESIDUE.search(line):
            self.fail(number, f"{wrong.group()!r} is no residue; correct the sequence", line)
        elif self.size > _MOST_RESIDUES:
            self.fail(number, f"too large: the protein has more than {_MOST_RESIDUES:,} residues; split it", line)
        else:
            self.residues.append("".join(line.split()))

    def fail(self, number: int, problem: str, value: str) -> None:
        self.residues.clear()
        if not self.problem:
            self.where, self.problem, self.value = f"line {number}", problem, value

    def record(self) -> Record:
        name, description = [*(self.header or "").split(None, 1), "", ""][:2]
        sequence = "".join(self.residues).upper().rstrip("*")
        if "\r" in (self.header or ""):
            self.fail(self.line + 1, "a carriage return within the line; end lines in line feeds", self.header or "")
        elif not name:
            self.fail(self.line + 1, "no id after '>'; write one", "")
        elif not sequence.strip("*-."):
            self.fail(self.line + 1, "no residues below the line; leave the protein out", "")
        if self.problem:
            return BadRecord(self.where, self.problem, self.value, name or None)
        return {"id": name, "description": description.rstrip(), "sequence": list(sequence)}


class FastaReader(RecordReader):
    """Reads a FASTA file; letters become upper case, ``*`` at the end of a sequence is left out."""

    def __init__(self, file: CorpusFile, start: Position, meter: Meter) -> None:
        settings = replace(file.settings, pretokenized=True)  # a sequence is the list of its residues
        super().__init__(replace(file, settings=settings), start, meter)
        self._lines = self.file.lines(start, meter)
        # the places of the protein given last, and of the one after it
        self._places = ((self._lines.newest, start.line), (self._lines.newest, start.line))

    @classmethod
    def look(cls, file: CorpusFile, sample_size: int) -> Columns:
        """The columns, which are those of every FASTA file."""
        return Columns(file.name, tuple(_COLUMNS), _COLUMNS, complete=True)

    def records(self, names: Sequence[str]) -> Iterator[Record]:
        """Read the proteins."""
        lines = self._lines
        number = self.start.line
        protein = _OpenProtein(lines.newest, number)
        for line in (line for some in lines for line in some):
            text = line.text if isinstance(line, BadLine) else line
            if text.startswith(">"):
                following = _OpenProtein(lines.newest, number, text[1:])
                if protein.begun:
                    self._places = (protein.place, following.place)
                    yield protein.record()
                protein = following
            number += 1
            if isinstance(line, BadLine):
                protein.fail(number, line.reason, text)
            elif text and not text.startswith((">", ";")) and not text.isspace():
                protein.add(text, number)
        if protein.begun:
            self._places = (protein.place, (lines.newest, number))
            yield protein.record()

    def position_of(self, record: int, *, last: bool) -> Position:
        """The position of the line with ``>`` of the protein given last if ``last``, else of the one after it."""
        block, line = self._places[0 if last else 1]
        return Position(block.offset_of(line), line, record)
