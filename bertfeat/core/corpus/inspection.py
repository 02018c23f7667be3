"""The beginning of each file of a corpus, looked at for its encoding, its format, and its columns with their types."""

import codecs
from collections.abc import Sequence
from dataclasses import replace

from bertfeat.core.corpus.blocks import Meter, read_blocks
from bertfeat.core.corpus.columns import SAMPLE
from bertfeat.core.corpus.encodings import detect_encoding
from bertfeat.core.corpus.formats import recognize_format
from bertfeat.core.corpus.input_file import Columns, CorpusFile, reader_of
from bertfeat.core.corpus.lines import TextEncoding
from bertfeat.core.corpus.settings import CorpusSettings
from bertfeat.core.corpus.sources import REQUESTS, Source
from bertfeat.errors import CorpusError
from bertfeat.io import Address, ContextPool

_HEAD = 2**17  # bytes at the beginning of a file that are inspected
_LEAST_SAMPLE = 20  # records of every file that are inspected at least

Look = tuple[CorpusFile, Columns]
"""A file that is not open yet, and its columns."""


def look_into(sources: Sequence[Source], settings: CorpusSettings) -> list[Look]:
    """Inspect the beginning of each file for its encoding, its format, and its columns with their types.

    The types are inferred from the first 1,000 records of the corpus, and from at least 20 of each file.
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
        return look_at_records(CorpusFile(source, encoding, settings, prefix), size)

    def look_at_records(file: CorpusFile, size: int) -> Look:
        return file, reader_of(file.source.format).look(file, size)

    looks: list[Look] = []
    left = SAMPLE  # records still to be sampled
    with ContextPool(REQUESTS) as pool:
        ahead = pool.map(look, [source for source in sources if isinstance(source.path, Address)])
        for source in sources:
            size = max(left, _LEAST_SAMPLE)
            file, columns = next(ahead) if isinstance(source.path, Address) else look(source, size)
            if columns.seen == _LEAST_SAMPLE < size:  # the file may have more
                file, columns = look_at_records(file, size)
            looks.append((file, columns))
            left -= columns.sampled
    return looks


def _read_head(source: Source) -> bytes:
    """Read the first bytes of a file; damage after the first block is reported when the whole file is read."""
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
