"""The beginnings of files: their encodings, formats, and columns with the types of the first records."""

import codecs
from collections.abc import Sequence
from dataclasses import replace

from bertfeat.corpus.blocks import Meter, read_blocks
from bertfeat.corpus.encodings import detect_encoding
from bertfeat.corpus.formats import recognize_format
from bertfeat.corpus.input_file import Columns, CorpusFile, reader_of
from bertfeat.corpus.lines import TextEncoding
from bertfeat.corpus.settings import CorpusSettings
from bertfeat.corpus.sources import REQUESTS, Source
from bertfeat.corpus.tables import SAMPLE
from bertfeat.errors import CorpusError
from bertfeat.io import Address, ContextPool

_HEAD = 2**17  # bytes of a file that are looked into
_LEAST_SAMPLE = 20  # records of every file, to see its columns

Look = tuple[CorpusFile, Columns]


def look_into(sources: Sequence[Source], settings: CorpusSettings) -> list[Look]:
    """Look into each file: at the first 1,000 records of all of them, and at least at 20 of each.

    Raises:
        CorpusError: a file that cannot be read as its format at all.
        StorageError: object storage that cannot be reached.
    """
    several = len(sources) > 1

    def look(source: Source, size: int = _LEAST_SAMPLE) -> Look:
        prefix = f"{source.name}:" if several else ""
        encoding = TextEncoding("utf-8")
        if not source.format.binary:
            head = _read_head(source)
            encoding = detect_encoding(head, settings.encoding, source.name)
            text = _decode(head, encoding)
            if settings.format is None:
                source = replace(source, format=recognize_format(source.format, text))
            if source.format.beginning is None:  # it has lines
                _refuse_returns(text, source.name)
        return look_again(CorpusFile(source, encoding, settings, prefix), size)

    def look_again(file: CorpusFile, size: int) -> Look:
        return file, reader_of(file.source.format).look(file, size)

    looks: list[Look] = []
    left = SAMPLE  # records still to be sampled
    with ContextPool(REQUESTS) as pool:
        ahead = pool.map(look, [source for source in sources if isinstance(source.path, Address)])
        for source in sources:
            size = max(left, _LEAST_SAMPLE)
            file, columns = next(ahead) if isinstance(source.path, Address) else look(source, size)
            if columns.seen == _LEAST_SAMPLE < size:  # there may be more
                file, columns = look_again(file, size)
            looks.append((file, columns))
            left -= columns.sampled
    return looks


def _read_head(source: Source) -> bytes:
    """The first bytes of a file; damage further on is met when the file is read."""
    head = b""
    try:
        for block in read_blocks(source, Meter()):
            head += block
            if len(head) >= _HEAD:
                break
    except CorpusError:
        if not head:
            raise
    return head[:_HEAD]


def _refuse_returns(text: str, name: str) -> None:
    """Refuse a file whose lines end with a carriage return alone: it would be taken for one line."""
    if "\n" not in text and text.count("\r") > 1:
        raise CorpusError(
            "its lines end with a carriage return alone, as those of old Macs do",
            where=name,
            remedy="write it with line feeds: tr '\\r' '\\n' < old > new",
        )


def _decode(head: bytes, encoding: TextEncoding) -> str:
    """The text of the first bytes, as far as they decode."""
    try:
        return codecs.getincrementaldecoder(encoding.name)("replace").decode(head[encoding.mark :])
    except UnicodeError:  # a codec that knows no error handlers
        return ""
