from .blocks import Meter as Meter
from .columns import parse_cell as parse_cell
from .digests import (
    encode_lossless as encode_lossless,
    stands_for_ids as stands_for_ids,
    text_digest as text_digest,
    write_string as write_string,
    write_strings as write_strings,
)
from .document import (
    MAX_TEXT as MAX_TEXT,
    RESERVED_COLUMNS as RESERVED_COLUMNS,
    START as START,
    BlankLine as BlankLine,
    Corpus as Corpus,
    Document as Document,
    Failure as Failure,
    KeptColumn as KeptColumn,
    Position as Position,
    Row as Row,
    Value as Value,
)
from .encodings import encoding_by_mark as encoding_by_mark
from .files import FileCorpus as FileCorpus, check_readable as check_readable, open_corpus as open_corpus
from .formats import (
    FORMATS as FORMATS,
    Format as Format,
    all_formats as all_formats,
)
from .input_file import CorpusFile as CorpusFile, FileReading as FileReading
from .lines import BadLine as BadLine, TextEncoding as TextEncoding, read_lines as read_lines
from .memory import CorpusItem as CorpusItem, memory_corpus as memory_corpus
from .records import LineRecordReader as LineRecordReader, RecordReader as RecordReader
from .settings import CorpusSettings as CorpusSettings
from .sources import (
    find_sources as find_sources,
    format_of as format_of,
)
from .splitting import TEXT_ID as TEXT_ID
