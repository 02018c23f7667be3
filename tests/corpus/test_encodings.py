"""Encodings: by the byte order mark, as wanted, or refused with a proposal."""

from pathlib import Path

import pytest

from bertfeat.core.corpus import CorpusSettings, Failure, open_corpus
from bertfeat.errors import CorpusError
from tests.support.corpus_writers import failures_of, rows_of, texts_of

SAMPLES = {
    "cp949": "그는 은행에서 돈을 찾았다. 강가의 둑에 앉아 책을 읽었다. 오늘은 날씨가 맑고 바람이 시원하다.",
    "cp932": "彼は銀行でお金をおろした。川の土手にすわって本を読んでいた。きょうは天気がいいです。",
    "euc_jp": "彼は銀行でお金をおろした。川の土手にすわって本を読んでいた。きょうは天気がいいです。",
    "gb18030": "他在银行里取了钱。我们坐在河的岸上看书，这是一个好的天气，你说对不对？人们都来了。",
    "big5": "他在銀行裡取了錢。我們坐在河的岸上看書，這是一個好的天氣，你說對不對？人們都來了。",
    "cp1252": "Er saß am Ufer – müde, aber fröhlich. L’été, la rivière était très belle à voir. Mañana será otro día.",
    "cp1250": "Seděl na břehu řeky a četl knihu. Dziś jest piękna pogoda, proszę wziąć książkę z półki.",
    "cp1254": "Nehrin kıyısında oturup kitap okuyordu. Bugün hava güneşli ve çok güzel, değil mi? Işık şimdi açık.",
    "cp1251": "Он сидел на берегу реки и читал книгу. Сегодня хорошая погода, не правда ли?",
    "koi8_r": "Он сидел на берегу реки и читал книгу. Сегодня хорошая погода, не правда ли?",
    "cp1253": "Καθόταν στην όχθη του ποταμού και διάβαζε ένα βιβλίο.",
    "cp1255": "הוא ישב על גדת הנהר וקרא ספר.",
    "cp1256": "جلس على ضفة النهر وقرأ كتابا.",
    "cp874": "เขานั่งอยู่ริมฝั่งแม่น้ำและอ่านหนังสือ",
}


def text_file(folder: Path, content: bytes) -> Path:
    path = folder / "a.txt"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("codec", SAMPLES)
def test_the_error_proposes_the_encoding(tmp_path: Path, codec: str) -> None:
    path = text_file(tmp_path, f"{SAMPLES[codec]}\r\n".encode(codec) * 3)
    with pytest.raises(CorpusError, match=rf"a\.txt: 3 of the first 3 lines are not utf-8; .* encoding='{codec}'$"):
        open_corpus([path])
    assert texts_of(path, CorpusSettings(encoding=codec)) == [SAMPLES[codec]] * 3


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", [SAMPLES["cp1252"], SAMPLES["cp949"]], ids=["latin", "hangul"])
def test_utf_16_without_a_mark_is_proposed(tmp_path: Path, codec: str, text: str) -> None:
    path = text_file(tmp_path, f"{text}\n".encode(codec) * 20)
    with pytest.raises(CorpusError, match=f"encoding='{codec}'$"):
        open_corpus([path])
    assert texts_of(path, CorpusSettings(encoding=codec)) == [text] * 20
    assert texts_of(path, CorpusSettings(encoding="utf-16-le" if codec.endswith("le") else codec)) == [text] * 20


@pytest.mark.parametrize(
    ("codec", "mark", "wanted"),
    [
        ("utf-8", b"\xef\xbb\xbf", None),
        ("utf-8", b"\xef\xbb\xbf", "utf-8"),
        ("utf-8", b"\xef\xbb\xbf", "UTF8"),
        ("utf-8", b"", "utf-8-sig"),
        ("utf-16-le", b"\xff\xfe", None),
        ("utf-16-be", b"\xfe\xff", None),
        ("utf-16-be", b"\xfe\xff", "utf-16"),
        ("utf-16-be", b"\xfe\xff", "utf-16-be"),
        ("utf-16-le", b"", "utf-16"),
        ("utf-32-le", b"\xff\xfe\0\0", None),
        ("utf-32-be", b"\0\0\xfe\xff", "utf-32"),
    ],
)
def test_byte_order_marks(tmp_path: Path, codec: str, mark: bytes, wanted: str | None) -> None:
    path = text_file(tmp_path, mark + "은행\nbank\n".encode(codec))
    assert texts_of(path, CorpusSettings(encoding=wanted)) == ["은행", "bank"]


def test_few_bad_lines_are_failures_many_an_error(tmp_path: Path) -> None:
    assert len(failures_of(text_file(tmp_path, b"plain\n" * 91 + b"caf\xe9\n" * 9))) == 9
    with pytest.raises(CorpusError, match="10 of the first 100 lines are not utf-8; it looks like cp1252"):
        open_corpus([text_file(tmp_path, b"plain\n" * 90 + b"caf\xe9\n" * 10)])
    # a line shows that the encoding is right
    assert len(failures_of(text_file(tmp_path, b"plain\n" * 79 + "café\n".encode() + b"caf\xe9\n" * 20))) == 20
    assert len(failures_of(text_file(tmp_path, b"plain\n" * 100 + b"caf\xe9\n" * 100))) == 100  # later ones fail alone


def test_a_wanted_encoding_is_kept_unless_no_line_decodes(tmp_path: Path) -> None:
    path = text_file(tmp_path, b"plain\n" + b"caf\xe9\n" * 20)
    assert sum(isinstance(row, Failure) for row in rows_of(path, CorpusSettings(encoding="utf-8"))) == 20
    with pytest.raises(CorpusError, match="it looks like utf-16-le"):
        open_corpus([text_file(tmp_path, "abc\nabc\n".encode("utf-16"))], CorpusSettings(encoding="utf-8"))


def test_a_first_line_longer_than_what_is_looked_into(tmp_path: Path) -> None:
    path = text_file(tmp_path, ("x" + "é" * 200_000 + "\nlast\n").encode())
    assert [len(text) for text in texts_of(path)] == [200_001, 4]


def test_random_bytes_get_no_proposal(tmp_path: Path) -> None:
    noise = bytes((n * n * 7919 + n * 31 + 17) % 251 + 5 for n in range(20_000))
    with pytest.raises(CorpusError, match=r"give the file's encoding, for example encoding='cp1252'"):
        open_corpus([text_file(tmp_path, noise)])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "one line\rand another\rand a third"),
        ("a.csv", "text,year\rthe bank,1900\ra river,1901\r"),
        ("a.tsv", "text\tyear\rthe bank\t1900\ra river\t1901\r"),
        ("a.jsonl", '{"text": "a"}\r{"text": "b"}\r'),
        ("a.json", '{"text": "a"}\r{"text": "b"}\r'),
        ("a.conll", "The O\rbank B-LOC\r\rA O\r"),
        ("a.fasta", ">one\rMKV\r>two\rMA\r"),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_lines_that_end_with_a_carriage_return_alone_are_refused(
    tmp_path: Path, name: str, content: str, encoding: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode(encoding))
    with pytest.raises(CorpusError, match=rf"{name}: its lines end with a carriage return alone.*tr '\\r' '\\n'"):
        open_corpus([path])
    path.write_bytes(content.replace("\r", "\r\n").encode(encoding))
    assert len(rows_of(path)) >= 2


def test_a_carriage_return_inside_of_a_line_is_text(tmp_path: Path) -> None:
    assert texts_of(text_file(tmp_path, b"10 %\r20 %\r30 %\nthe end\n")) == ["10 %\r20 %\r30 %", "the end"]
    assert texts_of(text_file(tmp_path, b"one\rline")) == ["one\rline"]
