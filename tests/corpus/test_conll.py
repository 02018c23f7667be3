"""CoNLL files: sentences, tags, documents and their context."""

from pathlib import Path

import pytest

from bertfeat.core.corpus import BlankLine, CorpusSettings, Document, Failure, open_corpus
from bertfeat.core.corpus.conll import REACH
from bertfeat.errors import CorpusError, UsageError
from tests.support.corpus_writers import documents_of, failures_of, rows_of

DATA = Path(__file__).parents[3] / "shared" / "data"


def conll(folder: Path, content: str, name: str = "a.conll") -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8", newline="")
    return path


def test_sentences_words_and_tags(tmp_path: Path) -> None:
    path = conll(tmp_path, "-DOCSTART- -X- O O\n\nEU NNP B-NP B-ORG\n. . O O\n\n\r\n \t\nPeter NNP I-NP B-PER\r\n")
    corpus = open_corpus([path])
    assert (corpus.has_words, corpus.has_tags, corpus.has_pairs) == (True, True, False)
    assert list(corpus.rows()) == [
        Document(0, "1", "EU .", words=("EU", "."), tags=("B-ORG", "O")),
        Document(1, "2", "Peter", words=("Peter",), tags=("B-PER",)),
    ]


@pytest.mark.parametrize(("column", "tag"), [(None, "d"), ("-1", "d"), ("2", "b"), ("-2", "c"), ("4", "d")])
def test_the_tag_column_counts_from_one_or_from_the_end(tmp_path: Path, column: str | None, tag: str) -> None:
    path = conll(tmp_path, "w b c d\n")
    (document,) = documents_of(path, CorpusSettings(tag_column=column))
    assert document.tags == (tag,)


@pytest.mark.parametrize("column", ["0", "ner", "-", "²"])
def test_a_tag_column_that_is_no_number(tmp_path: Path, column: str) -> None:
    with pytest.raises(UsageError, match="a column number"):
        open_corpus([conll(tmp_path, "w b\n")], CorpusSettings(tag_column=column))


def test_tabs_part_columns_where_there_are_any(tmp_path: Path) -> None:
    path = conll(tmp_path, "New York\tB\n\u3000\tO\n\ufe0f\tO\n")
    (document,) = documents_of(path)
    assert document.words == ("New York", "\u3000", "\ufe0f")


def test_number_signs_are_words_but_for_comments_before_a_sentence(tmp_path: Path) -> None:
    path = conll(tmp_path, "# text = a # b\na O\n# O\n# = O\nb O\n\n#\tO\n\n# O\n")
    assert rows_of(path) == [  # "# = O" within the sentence has three columns, and its words have two
        Document(0, "1", "a # b", words=("a", "#", "b"), tags=("O", "O", "O")),
        Document(1, "2", "#", words=("#",), tags=("O",)),
        Document(2, "3", "#", words=("#",), tags=("O",)),
    ]


@pytest.mark.parametrize(
    ("comments", "name"),
    [
        ("# id a1b2c3\tdomain=en\n{}", "multiconer.conll"),
        ("#begin document (bc/cctv/00/cctv_0000); part 000\n{}\n#end document\n", "conll2012.conll"),
        ("#begin document (x); part 000\n\n{}#end document\n", "conll2012.conll"),
        ("#\thttp://example.org\t2009-10-17\n{}", "germeval.conll"),
        ("# newdoc\n# sent_id = 1\n# text = #ha EU\n{}", "universal.conll"),
        ("# global.columns = ID FORM\n{}", "plus.conll"),
        ("#no-space-and-one-cell\n{}", "cells.conll"),
    ],
)
@pytest.mark.parametrize("cells", ["#ha a b O\nEU a b B-ORG\n", "EU a b B-ORG\n#ha a b O\n", "#ha\ta\tb\tO\n"])
def test_comments_have_other_columns_than_words(tmp_path: Path, comments: str, name: str, cells: str) -> None:
    expected = [line.split()[0] for line in cells.splitlines()]
    content = comments.format(cells) + "\n" + comments.format(cells) + "\nEU a b O\n"
    rows = rows_of(conll(tmp_path, content, name))
    assert [row.words for row in rows if isinstance(row, Document)] == [(*expected,), (*expected,), ("EU",)]
    assert [row.row for row in rows] == [0, 1, 2]


def test_number_signs_alone_are_words_where_nothing_says_how_many_columns_words_have(tmp_path: Path) -> None:
    assert [row.words for row in documents_of(conll(tmp_path, "#a O\n\n#b O\n#c O\n"))] == [("#a",), ("#b", "#c")]


FIRST_COLUMNS = {
    "conll-x": "{n}\t{w}\t_\t_\t_\t_\t_\t_\t_\t{t}\n",
    "conll-2009": "{n}\t{w}\t_\t_\tN\tN\t_\t_\t0\t0\t_\t_\tY\t{t}\n",
    "conll-2012": "bc/cctv/00/cctv_000{s} 0 {n} {w} NN * - - - - {t}\n",
    "germeval": "{n}\t{w}\t{t}\tO\n",
    "two columns": "{n} {w}\n",
    "from 0": "{z}\t{w}\t{t}\n",
}


@pytest.mark.parametrize("kind", FIRST_COLUMNS)
def test_a_first_column_that_holds_no_words(tmp_path: Path, kind: str) -> None:
    words = ["The", "river", "bank", "was", "old", "and", "the", "mill", "7"]
    lines = [FIRST_COLUMNS[kind].format(s=1, n=n, z=n - 1, w=word, t="O") for n, word in enumerate(words, 1)]
    content = "".join(lines) + "\n" + lines[0].replace("cctv_0001", "cctv_0002")
    path = conll(tmp_path, content)
    column = "4" if kind == "conll-2012" else "2"
    with pytest.raises(CorpusError, match=rf"a\.conll: its first column .*word_column='{column}'") as told:
        open_corpus([path])
    assert ("format='conllu'" in str(told.value)) == (kind == "conll-x")
    documents = documents_of(path, CorpusSettings(word_column=column))
    assert [document.words for document in documents] == [tuple(words), ("The",)]
    assert documents_of(path, CorpusSettings(word_column=str(int(column) - len(lines[0].split()) - 1))) == documents


@pytest.mark.parametrize("content", ["1 CD\n2 CD\n\nthe DT\nriver NN\n", "no O\n\n" * 9, "- x O\n- x B\n" * 5, "1 O\n"])
def test_words_may_be_numbers_or_all_the_same(tmp_path: Path, content: str) -> None:
    assert not failures_of(conll(tmp_path, content))


@pytest.mark.parametrize("column", ["0", "form", "-"])
def test_a_word_column_that_is_no_number(tmp_path: Path, column: str) -> None:
    with pytest.raises(UsageError, match="a column number"):
        open_corpus([conll(tmp_path, "w b\n")], CorpusSettings(word_column=column))


def test_a_word_column_that_is_not_there(tmp_path: Path) -> None:
    (failure,) = failures_of(conll(tmp_path, "w b\n"), CorpusSettings(word_column="3"))
    assert "no column 3 for its words (2 columns)" in failure.reason
    path = tmp_path / "a.txt"
    path.write_text("a\n")
    with pytest.raises(UsageError, match="word_column cannot be used with text files"):
        open_corpus([path], CorpusSettings(word_column="1"))


@pytest.mark.parametrize(
    ("first", "tags"),
    [
        ("ID FORM UPOS PARSEME:MWE", ("ADP", "DET")),
        ("ID FORM LEMMA PARSEME:MWE", ("1:x", "*")),
        ("FORM LEMMA UPOS NE", ("1", "2")),
    ],
)
def test_conllu_plus(tmp_path: Path, first: str, tags: tuple[str, ...]) -> None:
    names = first.split()
    rows = [["1-2", "du", "_", "_"], ["1", "de", "ADP", "1:x"], ["2", "le", "DET", "*"], ["2.1", "x", "X", "*"]]
    if names[0] == "FORM":  # without numbers
        rows = [["de", "de", "1", "O"], ["le", "le", "2", "O"]]
    lines = "".join("\t".join(row) + "\n" for row in rows)
    path = conll(tmp_path, f"# global.columns = {first}\n# newdoc\n{lines}", "a.conllup")
    (document,) = documents_of(path)
    assert (document.words, document.tags) == (("de", "le"), tags)
    bad = conll(tmp_path, f"# global.columns = ID WORD\n{lines}", "b.conllup")
    with pytest.raises(CorpusError, match="names no column FORM"):
        open_corpus([bad])


@pytest.mark.parametrize(
    ("sentence", "says"),
    [
        ("a O\nSECRET\n", "2 columns at first but 1 for word 2"),
        ("a\nSECRET\n", "words but no tags"),
        ("SECRET\t\n", "an empty word or tag"),
        ("\tSECRET\n", "an empty word or tag"),
    ],
)
def test_a_sentence_that_fails(tmp_path: Path, sentence: str, says: str) -> None:
    path = conll(tmp_path, f"x O\n\n{sentence}\ny O\n")
    before, failure, after = rows_of(path)
    assert isinstance(failure, Failure)
    assert says in failure.reason
    assert failure.reason.startswith(f"{path}, sentence of line 3: ")
    assert "SECRET" not in failure.reason
    assert (failure.row, failure.id) == (1, "2")
    assert isinstance(before, Document)
    assert isinstance(after, Document)
    assert (after.row, after.id) == (2, "3")


def test_an_undecodable_line_fails_its_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_bytes(b"a O\n\nb O\n\xff O\nc O\n\nd O\n\n" + b"e O\n\n" * 5)
    (failure,) = failures_of(path)
    assert failure.row == 1
    assert "line 4: not utf-8 at byte 1" in failure.reason


def test_conllu(tmp_path: Path) -> None:
    content = (
        "# sent_id = 1\n# newpar\n1-2\tdu\t_\t_\n1\tde\tde\tADP\n2\tle\tle\tDET\n2.1\tx\tx\tX\n3\tchat\tchat\tNOUN\n\n"
    )
    (document,) = documents_of(conll(tmp_path, content, "a.conllu"))
    assert (document.words, document.tags) == (("de", "le", "chat"), ("ADP", "DET", "NOUN"))
    (lemmas,) = documents_of(conll(tmp_path, content, "a.conllu"), CorpusSettings(tag_column="3"))
    assert lemmas.tags == ("de", "le", "chat")


@pytest.mark.parametrize("number", ["x", "1a", "", "-1", "²"])
def test_a_line_of_conllu_without_a_number_fails(tmp_path: Path, number: str) -> None:
    path = conll(tmp_path, f"1\tde\tde\tADP\n{number}\tle\tle\tDET\n\n1\tchat\tchat\tNOUN\n\n", "a.conllu")
    failure, document = rows_of(path)
    assert isinstance(failure, Failure)
    assert isinstance(document, Document)
    assert f"sentence of line 1: {number!r} in place of the number of word 2; correct the line" in failure.reason
    assert document.words == ("chat",)


# ── context ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_context_stays_within_the_document(tmp_path: Path) -> None:
    path = conll(
        tmp_path, "a O\nb O\n\nc O\n\nd\n\ne O\n\n-DOCSTART- O\n\n-DOCSTART- O\n\nf O\n\n-DOCSTART- O\n\ng O\n\nh O\n"
    )
    rows = rows_of(path, CorpusSettings(document_context=True))
    assert [row.row for row in rows] == list(range(7))
    contexts = {row.text: (row.before, row.after) for row in rows if isinstance(row, Document)}
    assert contexts == {
        "a b": ("", "c e"),
        "c": ("a b", "e"),
        "e": ("a b c", ""),
        "f": ("", ""),
        "g": ("", "h"),
        "h": ("g", ""),
    }


def test_context_reaches_so_far_and_no_further(tmp_path: Path) -> None:
    sentences = [[f"w{n}x{i}" for i in range(n % 40 + 1)] for n in range(400)]
    content = "-DOCSTART- O\n\n" + "\n".join("".join(f"{word} O\n" for word in words) for words in sentences)
    texts = [" ".join(words) for words in sentences]
    documents = documents_of(conll(tmp_path, content), CorpusSettings(document_context=True))
    assert [document.text for document in documents] == texts
    for place, document in enumerate(documents):
        before, after = " ".join(texts[:place]), " ".join(texts[place + 1 :])
        assert len(document.before) <= REACH
        assert len(document.after) <= REACH
        assert before.endswith(document.before)
        assert after.startswith(document.after)
        assert len(document.before) >= min(len(before), REACH - 20)
        assert len(document.after) >= min(len(after), REACH - 20)
        assert not before or document.before.split()[0] in before.split()  # from the beginning of a word
        assert not after or document.after.split()[-1] in after.split()


def test_context_needs_documents(tmp_path: Path) -> None:
    settings = CorpusSettings(document_context=True)
    with pytest.raises(CorpusError, match=r"a\.conll: document_context=True needs lines '-DOCSTART-'"):
        open_corpus([conll(tmp_path, "a O\n\nb O\n")], settings)
    path = tmp_path / "a.txt"
    path.write_text("a\n")
    with pytest.raises(UsageError, match="document_context"):
        open_corpus([path], settings)


# ── real files ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.skipif(not DATA.exists(), reason="the data sets are not here")
@pytest.mark.parametrize(
    ("name", "sentences", "words", "beginning"),
    [
        ("wikigold/wikigold.conll", 1696, 39007, "I"),
        ("wnut17/train.conll", 3394, None, "B"),
        ("wnut17/dev.conll", 1009, None, "B"),
        ("wnut17/test.conll", 1287, None, "B"),
    ],
)
def test_real_files(name: str, sentences: int, words: int | None, beginning: str) -> None:
    entities = {"wnut17/train.conll": 1975, "wnut17/dev.conll": 836, "wnut17/test.conll": 1079}
    rows = rows_of(DATA / name)
    assert not [row for row in rows if isinstance(row, Failure | BlankLine)]
    documents = [row for row in rows if isinstance(row, Document)]
    assert len(documents) == sentences
    assert words is None or sum(len(document.words or ()) for document in documents) == words
    tags = [tag for document in documents for tag in document.tags or ()]
    if name in entities:
        assert sum(tag.startswith("B-") for tag in tags) == entities[name]
    assert {tag[:1] for tag in tags} <= {"B", "I", "O"}
    assert any(tag.startswith(beginning) for tag in tags)


@pytest.mark.skipif(not DATA.exists(), reason="the data sets are not here")
def test_real_documents() -> None:
    documents = documents_of(DATA / "wikigold/wikigold.conll", CorpusSettings(document_context=True))
    assert sum(not document.before for document in documents) == 145
    assert sum(not document.after for document in documents) == 145
