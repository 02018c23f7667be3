"""The pieces of a corpus on disk, against its own tokenizer; and where its documents begin."""

import csv
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer as FastTokenizer

from bertfeat.core.corpus import CorpusSettings
from bertfeat.errors import CorpusError, UsageError
from bertfeat.pretraining.corpus import CorpusText, CorpusTexts, SentenceCutter, TokenStore, write_tokens
from tests.support.tiny_tokenizers import BERT_NAMES, ROBERTA_NAMES, SENTENCES, byte_level, word_piece

TEXTS = [
    CorpusText("The bank. Money! He went to the bank.", True),
    CorpusText("unbelievable unhappiness reopening", False),
    CorpusText("", False),
    CorpusText("\u200b", True),  # no piece
    CorpusText("He went (every day!) Then he walked.", False),
    *(CorpusText(sentence, False) for sentence in SENTENCES),
]


def tokenizer() -> FastTokenizer:
    return word_piece(BERT_NAMES)


def stored(texts: list[CorpusText], made: FastTokenizer, folder: Path, longest: int = 30) -> TokenStore:
    write_tokens(texts, made, folder, longest)
    return TokenStore.open(folder)


@pytest.mark.parametrize("made", [word_piece(BERT_NAMES), byte_level(ROBERTA_NAMES, double=True)], ids=["word", "byte"])
def test_a_store_has_the_pieces_of_the_texts(made: FastTokenizer, tmp_path: Path) -> None:
    store = stored(TEXTS, made, tmp_path)
    encodings = [made.encode(each.text, add_special_tokens=False) for each in TEXTS]
    assert store.ids(0, len(store.pieces)).tolist() == [number for each in encodings for number in each.ids]
    words = [word for each in encodings for word in each.word_ids]
    starts = store.starts(0, len(store.pieces))
    begun = [0]
    for each in encodings:
        begun.append(begun[-1] + len(each.ids))
    expected = [at in begun or words[at] is None or words[at] != words[at - 1] for at in range(len(words))]
    assert starts.tolist() == expected


@pytest.mark.sampled(1)
@pytest.mark.parametrize("made", [word_piece(BERT_NAMES), byte_level(ROBERTA_NAMES, double=True)], ids=["word", "byte"])
def test_a_long_line_is_stored_as_the_tokenizer_splits_it(made: FastTokenizer, tmp_path: Path) -> None:
    for number, line in enumerate(["the river bank, " * 12_000, "bank " * 9000 + "x" * 150_000 + " bank" * 9000]):
        folder = tmp_path / str(number)
        folder.mkdir()
        write_tokens([CorpusText(line, True)], made, folder, 64)
        store, whole = TokenStore.open(folder), made.encode(line, add_special_tokens=False)
        assert store.ids(0, len(store.pieces)).tolist() == whole.ids
        words = whole.word_ids
        begins = [at == 0 or word != words[at - 1] for at, word in enumerate(words)]
        assert store.starts(0, len(store.pieces)).tolist() == begins


def test_pieces_with_two_number_signs_continue_a_word(tmp_path: Path) -> None:
    made = tokenizer()
    store = stored(TEXTS, made, tmp_path)
    pieces = [str(made.id_to_token(int(number))) for number in store.ids(0, len(store.pieces))]
    assert [not piece.startswith("##") for piece in pieces] == store.starts(0, len(pieces)).tolist()


def test_sentences_end_after_full_stops_and_what_closes_them(tmp_path: Path) -> None:
    made = tokenizer()
    store = stored(TEXTS, made, tmp_path, longest=1000)
    ends = [*store.sentences[1:], len(store.pieces)]
    shown = [
        "".join(str(made.id_to_token(int(number))) for number in store.ids(*pair))
        for pair in zip(store.sentences, ends, strict=True)
    ]
    bare = [sentence.replace("##", "") for sentence in shown]
    assert bare[:3] == ["thebank.", "money!", "hewenttothebank."]
    assert bare[4:6] == ["hewent(everyday!)", "thenhewalked."]


def test_sentences_are_no_longer_than_allowed_and_cut_at_words(tmp_path: Path) -> None:
    store = stored(TEXTS, tokenizer(), tmp_path, longest=6)
    assert np.diff(store.sentences, append=len(store.pieces)).max() <= 6
    inside = [start for start in store.sentences.tolist() if not store.starts(start, start + 1)[0]]
    assert len(inside) < len(store.sentences) / 4  # only in words of more than six pieces


def test_a_word_longer_than_a_sentence_may_be_is_cut_within() -> None:
    made = tokenizer()
    pieces = np.arange(10, dtype=np.uint32) + 10
    pieces[1:] |= np.uint32(1 << 31)
    assert SentenceCutter(made, 4).starts(pieces).tolist() == [0, 4, 8]


def test_documents_begin_where_texts_say(tmp_path: Path) -> None:
    made = tokenizer()
    store = stored(TEXTS, made, tmp_path)
    first = sum(len(made.encode(each.text, add_special_tokens=False).ids) for each in TEXTS[:3])
    assert store.documents.tolist() == [0, first]  # the text without a piece begins none by itself


def test_an_empty_corpus_is_an_empty_store(tmp_path: Path) -> None:
    assert len(stored([], tokenizer(), tmp_path).pieces) == 0


# ── documents ───────────────────────────────────────────────────────────────────────────────────────────────


def read(*paths: Path, column: str | None = None, **settings: object) -> list[tuple[str, bool]]:
    texts = CorpusTexts(list(paths), CorpusSettings(**settings), column)  # type: ignore[arg-type]
    return [(each.text, each.begins) for each in texts]


def test_blank_lines_and_files_separate_documents_of_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n\n\nthree\n")
    (tmp_path / "b.txt").write_text("four\n\n")
    (tmp_path / "c.txt").write_text("five\n")
    expected = [("one", True), ("two", False), ("three", True), ("four", True), ("five", True)]
    assert read(tmp_path) == expected


def test_a_column_separates_documents_of_tables(tmp_path: Path) -> None:
    rows = [("1", "a", "x"), ("1", "b", "x"), ("2", "c", "x"), ("1", "d", "x"), ("", "e", "x"), ("", "f", "x")]
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("book", "text", "other"), *rows])
    path = tmp_path / "t.csv"
    assert [begins for _, begins in read(path, column="book")] == [True, False, True, True, True, False]
    assert [begins for _, begins in read(path)] == [True, *[False] * 5]
    assert read(path, column="book", text_columns=("other",))[0] == ("x", True)


def test_a_document_of_a_column_may_go_over_files(tmp_path: Path) -> None:
    for name, book in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / f"{name}.jsonl").write_text(f'{{"text": "{name}", "book": {book}}}\n')
    assert read(tmp_path, column="book") == [("a", True), ("b", False), ("c", True)]


def test_the_digest_follows_texts_and_documents(tmp_path: Path) -> None:
    def digest(text: str) -> str:
        (tmp_path / "a.txt").write_text(text)
        texts = CorpusTexts(tmp_path / "a.txt", CorpusSettings(), None)
        assert list(texts)
        return texts.digest

    assert digest("one\ntwo\n") == digest("one\ntwo")
    assert len({digest(text) for text in ("one\ntwo", "one\n\ntwo", "one\ntwo.", "onet\nwo")}) == 4


def test_failed_rows_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n{"text": 5}\nno JSON\n{"text": "two"}\n')
    texts = CorpusTexts(tmp_path / "a.jsonl", CorpusSettings(), None)
    assert [each.text for each in texts] == ["one", "two"]
    assert texts.failed == 2
    assert "a.jsonl" in texts.first_failure


@pytest.mark.parametrize(
    ("name", "column", "settings", "message"),
    [
        ("a.txt", "book", {}, "has no columns"),
        ("a.jsonl", "nothing", {}, "there is no such column"),
        ("a.txt", None, {"pairs": True}, "pairs means nothing for pre-training"),
        ("a.jsonl", None, {"keep": ("all",)}, "keep means nothing for pre-training"),
    ],
)
def test_what_cannot_separate_documents(
    tmp_path: Path, name: str, column: str | None, settings: dict[str, object], message: str
) -> None:
    (tmp_path / name).write_text('{"text": "one"}\n')
    with pytest.raises(UsageError, match=message):
        read(tmp_path / name, column=column, **settings)


def test_no_such_corpus(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"nowhere\.txt"):
        read(tmp_path / "nowhere.txt")
