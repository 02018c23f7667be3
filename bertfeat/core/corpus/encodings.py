"""Detection of a file's encoding: by byte order mark, or as declared. If it is wrong, the error proposes another."""

import codecs
import re

from bertfeat.core.corpus.lines import BadLine, TextEncoding, decode_lines, last_newline
from bertfeat.errors import CorpusError, parameter

_MARKS = (  # UTF-32 first: its little-endian mark begins with the one of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WITH_MARKS = {"utf-8-sig": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}  # the same encodings without a mark
_PARQUET = "Parquet"
_BINARY = (
    (re.compile(rb"%PDF-"), "a PDF"),
    (re.compile(rb"PK\x03\x04"), "a ZIP archive (or an office document)"),
    (re.compile(rb"\x89PNG\r\n|\xff\xd8\xff|GIF8[79]a|II\*\0|MM\0\*|RIFF....WEBP", re.DOTALL), "a picture"),
    (re.compile(rb"\x1f\x8b\x08"), "gzip data (rename it to end in .gz)"),
    (re.compile(rb"BZh[1-9]1AY&SY"), "bzip2 data (rename it to end in .bz2)"),
    (re.compile(rb"\xfd7zXZ\0"), "xz data (rename it to end in .xz)"),
    (re.compile(rb"\x28\xb5\x2f\xfd"), "zstd data (rename it to end in .zst)"),
    (re.compile(rb"PAR1[\x00-\x1f\x80-\xff]"), _PARQUET),
    (re.compile(rb"ARROW1\0"), "an Arrow file"),
    (re.compile(rb"\x7fELF|MZ.{0,64}\0\0", re.DOTALL), "a program"),
    (re.compile(rb"\x93NUMPY|\x89HDF|SQLite format 3\0|7z\xbc\xaf|Rar!\x1a|\x80[\x02-\x05][\x95c}\]]"), "binary data"),
)

# Frequent characters of the languages for which an encoding is used. An encoding is proposed if enough of the
# characters outside ASCII are among its frequent ones (_guess). Encodings of several bytes per character are tried
# first, since those of one byte decode nearly everything.
_KANA = "ぁ-んァ-ヶー、。「」"
_HANZI = "的一是不了在人有我他中上大和地到以要就出可也你生能而子那得下自之年后作里，。"
_WIDE = {
    "cp949": "이다는을의에가고하지로한기도서사들어나은를으리대자인그시과해수라있것일아보니만게전정장",
    "euc_jp": _KANA,
    "cp932": _KANA,
    "gb18030": _HANZI + "这个们来为国说时会对于着过发",
    "big5": _HANZI + "這個們來為國說時會對於著過發",
}
_LATIN = {
    "cp1252": "àáâãäåæçèéêëíîïñòóôõöùúûüÿßÀÉÈÇÄÖÜœ’‘“”–—…«»€£°§",
    "cp1250": "áâäçéëíîóôöúüýąćčďęěłńňőřśšťůűźžżČŘŠŽŚŁ’‘“”„–—…",
    "cp1254": "âçğıîöşüûÇĞİÖŞÜ’‘“”–—…",
}
_OTHER = {
    "cp1251": "оеаинтсрвлкмдпу«»—",
    "koi8_r": "оеаинтсрвлкмдпу",
    "cp1253": "αοιετσνηυρπκμλςάέίόή",
    "cp1255": "יוהלאתרבשמנ",
    "cp1256": "اليمنوترهبةفعد",
    "cp874": "านรอกเงมยลวดสทัี่้ะ",
}
_LINES_TRIED = 100
_FEW = 10  # with this many undecodable lines the encoding is wrong, unless other lines show that it is right


def detect_encoding(head: bytes, declared: str | None, name: str) -> TextEncoding:
    """Find the encoding of a file from its first bytes, and refuse what is not text or does not decode.

    The error counts the undecodable ones among the first 100 lines, and proposes an encoding.
    """
    encoding = encoding_by_mark(head, declared)
    _refuse_binary(head, encoding, name)
    _refuse_undecodable(head, encoding, declared is not None, name)
    return encoding


def encoding_by_mark(head: bytes, declared: str | None = None) -> TextEncoding:
    """Find the encoding by the byte order mark at the beginning of a file, else the declared one, else UTF-8."""
    plain = None if declared is None else codecs.lookup(declared).name
    for mark, codec in _MARKS:
        # a declared encoding takes its own mark only: "utf-16" either order, "utf-16-le" its own
        if head.startswith(mark) and (plain is None or codec == plain or codec.startswith(plain.removesuffix("-sig"))):
            return TextEncoding(codec, len(mark))
    return TextEncoding("utf-8" if plain is None else _WITH_MARKS.get(plain, plain))


def _refuse_binary(head: bytes, encoding: TextEncoding, name: str) -> None:
    for magic, what in _BINARY:
        if magic.match(head):
            remedy = f"give {parameter('format', 'parquet')}" if what == _PARQUET else ""
            raise CorpusError(f"not text but {what}", where=name, remedy=remedy)
    if len(encoding.newline) > 1:  # wide code units are full of zero bytes
        return
    zeros = head.count(0)
    if zeros * 50 < len(head) or zeros < 3:  # less than 2 percent, or stray ones
        return
    for codec, first in (("utf-16-le", 1), ("utf-16-be", 0)):
        if head[first::2].count(0) > zeros * 0.8:
            raise CorpusError("full of zero bytes", where=name, remedy=_proposal(codec))
    if zeros * 10 > len(head):
        raise CorpusError(f"not text: {zeros:,} of its first {len(head):,} bytes are zero", where=name)


def _refuse_undecodable(head: bytes, encoding: TextEncoding, is_declared: bool, name: str) -> None:
    text = head[encoding.mark :]
    end = last_newline(text, encoding.newline)
    if end:
        lines = [line for line in decode_lines(text[:end], encoding)[:_LINES_TRIED] if line]
    else:  # one line, whose end may be missing
        lines = ["" if _is_decodable(text, encoding.name) else BadLine("", "")] if text else []
    bad = sum(isinstance(line, BadLine) for line in lines)
    telling = sum(isinstance(line, str) and not line.isascii() for line in lines)
    hopeless = bad == len(lines) > 0 if is_declared else bad * 2 > len(lines) or (bad >= _FEW and not telling)
    if hopeless:
        problem = f"{bad} of the first {len(lines)} lines are not {encoding.name}"
        raise CorpusError(problem, where=name, remedy=_proposal(_guess(head)))


def _is_decodable(beginning: bytes, codec: str) -> bool:
    try:
        codecs.getincrementaldecoder(codec)().decode(beginning)
    except UnicodeError:
        return False
    return True


def _proposal(codec: str | None) -> str:
    if codec is None:
        example = parameter("encoding", "cp1252")
        return f"give the file's {parameter('encoding')}, for example {example}"
    return f"it looks like {codec}: give {parameter('encoding', codec)}"


def _guess(head: bytes) -> str | None:
    """The encoding that reads the most frequent characters out of the bytes."""
    for mark, codec in _MARKS:
        if head.startswith(mark):
            return codec
    # where Latin letters are written, those outside ASCII are a minority
    latin = len(re.findall(rb"[\x80-\xff]", head)) < len(re.findall(rb"[A-Za-z]", head)) / 3
    for candidates, enough in ((_WIDE, 0.2), (_LATIN if latin else _OTHER, 0.5)):
        shares = {codec: _frequent_share(head, codec, usual) for codec, usual in candidates.items()}
        best = max(shares, key=shares.__getitem__)
        if shares[best] >= enough:
            return best
    return None


def _frequent_share(head: bytes, codec: str, usual: str) -> float:
    try:
        text = codecs.getincrementaldecoder(codec)().decode(head)
    except UnicodeError:
        return 0.0
    foreign = re.sub(r"[\x00-\x7f\xa0]", "", text)
    return len(re.findall(f"[{usual}]", foreign)) / len(foreign) if foreign else 0.0
