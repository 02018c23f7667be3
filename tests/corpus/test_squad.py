"""SQuAD's JSON: every question of a file is a record, and what is wrong with one is told of it alone."""

import json
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path

import pytest

from bertfeat.core.corpus import CorpusSettings, Document, Failure, json_array, open_corpus
from bertfeat.errors import CorpusError, UsageError
from tests.support.corpus_writers import (
    COMPRESS,
    documents_of,
    failures_of,
    rows_of,
    texts_of,
    write_jsonl,
    write_squad,
)

CONTEXT = "The old mill — 3 km of the river — burnt."
KEPT = ("title", "answers", "answer", "answer_start", "is_impossible")


def question(**fields: object) -> dict[str, object]:
    return {"id": "q1", "question": "Where?", "answers": [{"text": "the river", "answer_start": 23}]} | fields


def file_of(*questions: object, context: object = CONTEXT, title: object = "Mills") -> bytes:
    return json.dumps({"data": [{"title": title, "paragraphs": [{"context": context, "qas": questions}]}]}).encode()


def write(folder: Path, content: bytes, name: str = "a.json") -> Path:
    (folder / name).write_bytes(content)
    return folder / name


# ── what is read ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_question_and_its_context_are_a_pair(tmp_path: Path) -> None:
    path = write(tmp_path, file_of(question(), question(id="q2", answers=[], is_impossible=True)))
    found = documents_of(path, CorpusSettings(keep=KEPT))
    answers = '[{"text": "the river", "start": 23}]'
    assert found == [
        Document(0, "q1", "Where?", CONTEXT, kept=("Mills", answers, "the river", 23, False)),
        Document(1, "q2", "Where?", CONTEXT, kept=("Mills", "[]", "", -1, True)),
    ]
    assert open_corpus([path]).has_pairs


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("order", [["data", "version"], ["version", "data"]], ids="-".join)
@pytest.mark.parametrize("inner", [["title", "paragraphs"], ["paragraphs", "title"]], ids="-".join)
@pytest.mark.parametrize("ending", COMPRESS)
def test_a_json_file_of_squad_is_known_by_its_beginning(
    tmp_path: Path, indent: int | None, order: list[str], inner: list[str], ending: str
) -> None:
    whole = json.loads(write_squad("abcdefgh"))
    whole["data"] = [{key: article[key] for key in inner} for article in whole["data"]]
    content = json.dumps({key: whole[key] for key in order}, indent=indent).encode()
    path = write(tmp_path, COMPRESS[ending](content), f"a.json{ending}")
    assert texts_of(path) == list("abcdefgh") == texts_of(path, CorpusSettings(format="squad"))


def test_every_question_is_read_in_order(tmp_path: Path) -> None:
    content = write_squad([f"question {n}" for n in range(50)])
    expected = [
        (one["id"], one["question"], paragraph["context"], article["title"], [a["text"] for a in one["answers"]])
        for article in json.loads(content)["data"]
        for paragraph in article["paragraphs"]
        for one in paragraph["qas"]
    ]
    documents = documents_of(write(tmp_path, content), CorpusSettings(keep=("title", "answers")))
    assert [
        (row.id, row.text, row.pair, row.kept[0], [a["text"] for a in json.loads(str(row.kept[1]))])
        for row in documents
    ] == expected


def test_ids_may_be_numbers(tmp_path: Path) -> None:
    path = write(tmp_path, file_of(question(id=7), question(id=1 << 70), question(id=True), question(id=1.5)))
    rows = rows_of(path)
    assert [row.id for row in rows if isinstance(row, Document)] == ["7", str(1 << 70)]
    assert ["id is true or false" in row.reason for row in rows if isinstance(row, Failure)] == [True, False]


def test_columns_are_named_as_in_any_records(tmp_path: Path) -> None:
    path = write(tmp_path, file_of(question()))
    settings = CorpusSettings(text_columns=("title", "question"), keep=("all",))
    (row,) = documents_of(path, settings)
    assert (row.text, row.pair) == ("Mills Where?", None)
    assert [kept.name for kept in open_corpus([path], settings).kept] == [
        *("context", "answers", "answer", "answer_start", "is_impossible")
    ]
    (row,) = documents_of(path, CorpusSettings(pair_column="title", id_column="question"))
    assert (row.id, row.text, row.pair) == ("Where?", "Where?", "Mills")
    with pytest.raises(CorpusError, match="no column 'text'; there are 'id', 'title', 'question'"):
        open_corpus([path], CorpusSettings(text_columns=("text",)))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_any_encoding_of_text(tmp_path: Path, encoding: str) -> None:
    content = file_of(question(question="Où — 🏚?")).decode().replace("\\u2014", "—").encode(encoding)
    assert documents_of(write(tmp_path, content))[0].pair == CONTEXT


def test_bytes_of_another_encoding(tmp_path: Path) -> None:
    content = file_of(*[question()] * 2000)
    with pytest.raises(CorpusError, match=f"not utf-8 at byte {len(content) + 1:,}; correct it, or give"):
        open_corpus([write(tmp_path, content + b"\xff\n")])


@pytest.mark.parametrize(
    "line", ['{"data": [{"title": "x"}], "text": "a"}', '{"version": "1", "data": [1], "text": "a"}', '{"text": "a"}']
)
def test_other_json_files_are_lines(tmp_path: Path, line: str) -> None:
    assert texts_of(write(tmp_path, f"{line}\n{line}\n".encode())) == ["a", "a"]


def test_two_files_and_their_ids(tmp_path: Path) -> None:
    write(tmp_path, write_squad("ab"), "a.json")
    write(tmp_path, file_of({}, question(id="x")), "b.json")
    rows = list(open_corpus([tmp_path]).rows())
    assert [(row.row, row.id) for row in rows if not isinstance(row, Mapping)] == [  # type: ignore[union-attr]
        (0, "q0"),
        (1, "q1"),
        (2, f"{tmp_path / 'b.json'}:1"),
        (3, "x"),
    ]


# ── what is wrong ───────────────────────────────────────────────────────────────────────────────────────────

WRONG: dict[str, tuple[dict[str, object], str]] = {
    "no id": ({"id": None}, "article 1, paragraph 1, question 2: id is null, not a string; correct it"),
    "an empty id": ({"id": ""}, "article 1, paragraph 1, question 2: its id is empty; give it one"),
    "a question that is a number": ({"question": 5}, "question 'q1': question is a number, not a string; correct it"),
    "answers in columns": ({"answers": {"text": []}}, "question 'q1': answers is an object, not a list of objects"),
    "an answer that is a string": ({"answers": ["the"]}, "question 'q1': answer 1 is not an object with a text and"),
    "a start that is true": ({"answers": [{"text": "he", "answer_start": True}]}, "answer 1 is not an object with"),
    "an empty answer": ({"answers": [{"text": "", "answer_start": 0}]}, "question 'q1': answer 1 is empty; leave it"),
    "an answer elsewhere": (
        {"answers": [{"text": "The", "answer_start": 0}, {"text": "river", "answer_start": 26}]},
        "question 'q1': answer 2 does not stand at 26 in the context; it first stands at 27: correct answer_start",
    ),
    "an answer that is nowhere": (
        {"answers": [{"text": "The mill", "answer_start": 0}]},
        "question 'q1': answer 1 does not stand at 0 in the context; nor elsewhere in it: correct the text",
    ),
    "a start from the end": ({"answers": [{"text": ".", "answer_start": -1}]}, "answer 1 does not stand at -1 in the"),
    "impossible with an answer": ({"is_impossible": True}, "question 'q1': is_impossible, but there are answers"),
    "impossible by a string": ({"is_impossible": "no"}, "is_impossible is a string, not true or false; correct it"),
    "half of a character": ({"question": "\ud83d"}, "question 'q1': half of a surrogate pair (such as \\ud83d alone)"),
    "an id of half a character": ({"id": "\ud83d"}, "half of a surrogate pair"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_question_fails_alone(tmp_path: Path, name: str) -> None:
    fields, reason = WRONG[name]
    path = write(tmp_path, file_of(question(id="q0"), question(**fields), question(id="q2")))
    rows = rows_of(path)
    assert [isinstance(row, Document) for row in rows] == [True, False, True]
    (failure,) = failures_of(path)
    assert f"{path}, " in failure.reason
    assert reason in failure.reason
    json.dumps([failure.id, failure.reason, failure.value], ensure_ascii=False).encode()
    named = fields.get("id", "q1") == "q1"
    assert failure.id == ("q1" if named else "\\ud83d" if fields["id"] else "2")


def test_the_value_of_a_failure_says_what_stands_there(tmp_path: Path) -> None:
    path = write(tmp_path, file_of(question(answers=[{"text": "a river", "answer_start": 23}])))
    (failure,) = failures_of(path)
    assert failure.value == "'a river', where 'the riv' stands"


def test_a_wrong_context_or_title_fails_each_of_its_questions(tmp_path: Path) -> None:
    both = [question(), question(id="q2")]
    settings = CorpusSettings(format="squad")
    assert len(failures_of(write(tmp_path, file_of(*both, context=None)), settings)) == 2
    assert len(failures_of(write(tmp_path, file_of(*both, title=3)), settings)) == 2
    assert len(documents_of(write(tmp_path, file_of(*both, title=None)))) == 2


ARTICLES = {
    "an article that is a list": ([[]], 'article 1: not an object with a list of "paragraphs"'),
    "paragraphs that are none": ([{"paragraphs": {}}], 'article 1: not an object with a list of "paragraphs"'),
    "a paragraph that is a string": ([{"paragraphs": ["a"]}], "article 1, paragraph 1: not an object with a list of"),
    "no questions": ([{"paragraphs": [{"context": "a"}]}], "article 1, paragraph 1: not an object with a list of que"),
    "a question that is null": ([{"paragraphs": [{"context": "a", "qas": [None]}]}], "question 1: null, not an object"),
}


@pytest.mark.parametrize("name", ARTICLES)
def test_a_wrong_article_is_one_failure(tmp_path: Path, name: str) -> None:
    articles, reason = ARTICLES[name]
    path = write(tmp_path, json.dumps({"data": articles}).encode())
    (failure,) = failures_of(path, CorpusSettings(format="squad"))
    assert failure.id == "1"
    assert reason in failure.reason


WHOLES: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "not SQuAD's JSON: an object expected, line 1, column 1"),
    "a list": (b"[]", "an object expected, line 1, column 1"),
    "an empty object": (b" {}", 'the object has no "data"'),
    "no data": (b'{"version": {"data": []}}', 'the object has no "data"'),
    "data that is an object": (b'{"data": {}}', '"data" is not a list, line 1, column 10'),
    "lines": (b'{"text": "a"}\n' * 2, 'the object has no "data"'),
    "no JSON": (b'{"data":\n [{"title": a}]}', "Expecting value, line 2, column 13"),
    "deep": (b'{"data": [' + b"[" * 200_000, "nested too deeply"),
    "a key that is none": (b"{5: 1}", "a key expected"),
    "no colon": (b'{"data" []}', "':' expected"),
}


@pytest.mark.parametrize("name", WHOLES)
def test_a_file_that_is_something_else(tmp_path: Path, name: str) -> None:
    content, problem = WHOLES[name]
    path = write(tmp_path, content)
    with pytest.raises(CorpusError, match='it is one object with a list of articles under "data"') as caught:
        open_corpus([path], CorpusSettings(format="squad"))
    assert problem in str(caught.value)
    assert caught.value.where == str(path)


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda content: content[:-1], "',' or '}' expected"),
        (lambda content: content[:-30], "Expecting ',' delimiter, line 1"),
        (lambda content: content + b" {}", "something follows the object, line 1"),
        (lambda content: content[:-1] + b', "data": []}', 'a second "data"'),
        (lambda content: content[:-1] + b" 5}", "',' or '}' expected"),
    ],
    ids=["cut by one", "cut", "something after it", "twice", "no comma"],
)
def test_what_stands_before_damage_is_read(tmp_path: Path, spoil: Callable[[bytes], bytes], problem: str) -> None:
    content = write_squad("abcdefghijklm")  # six questions an article
    content = json.dumps({"data": json.loads(content)["data"]}).encode()
    rows = open_corpus([write(tmp_path, spoil(content))]).rows()
    assert [row.text for row in islice(rows, 12) if isinstance(row, Document)] == list("abcdefghijkl")
    with pytest.raises(CorpusError, match=r"cannot be read on after article \d") as caught:
        list(rows)
    assert problem in str(caught.value)


def test_a_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_array, "MAX_FILE", 2**20)
    path = write(tmp_path, COMPRESS[".gz"](file_of(question(question="x" * 2**21))), "a.json.gz")
    with pytest.raises(
        CorpusError, match="larger than 1 MiB, the most that is read of a file that is one JSON text; split it"
    ):
        open_corpus([path])


def test_a_file_that_has_changed(tmp_path: Path) -> None:
    path = write(tmp_path, write_squad("abcdefgh"))
    (file,) = open_corpus([path]).files
    reading = file.read(0, rows=7)  # of which six are the first article's
    assert len(list(reading)) == 7
    for changed in (write_squad("ab"), write_squad(["a longer one", *"bcdefgh"])):
        path.write_bytes(changed)
        with pytest.raises(CorpusError, match="has changed since it was first read"):
            list(file.read(7, start=reading.position))


# ── other formats and options ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("indent", [None, 1])
def test_squad_that_is_read_as_lines_names_the_format(tmp_path: Path, indent: int | None) -> None:
    content = json.dumps(json.loads(file_of(question())), indent=indent).encode()
    path, lines = write(tmp_path, content), CorpusSettings(format="jsonl")
    if indent is None:
        with pytest.raises(CorpusError, match=r"one JSON object with the articles of SQuAD.*; give format='squad'"):
            open_corpus([path], lines)
    else:
        assert "give --format squad if it is SQuAD's" in failures_of(path, lines)[0].reason


def test_options_of_other_formats_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, file_of(question()))
    for settings in (CorpusSettings(pretokenized=True), CorpusSettings(pretokenized=True, tag_column="answers")):
        with pytest.raises(UsageError, match="cannot be used with squad files"):
            open_corpus([path], settings)


def test_files_with_other_columns_are_another_corpus(tmp_path: Path) -> None:
    one = write(tmp_path, file_of(question()))
    two = write(tmp_path, write_jsonl(["a"]), "b.jsonl")
    for pair in ([one, two], [two, one]):
        with pytest.raises(CorpusError, match=r"a.json is read by its columns 'question', 'context', .*b.jsonl is not"):
            open_corpus(pair)


def test_progress_is_told_by_articles(tmp_path: Path) -> None:
    corpus = open_corpus([write(tmp_path, write_squad([str(n) for n in range(60)]))])
    shares = [corpus.fraction for _ in corpus.rows()]
    assert shares == sorted(shares)
    assert shares[0] < 0.2
    assert corpus.fraction > 0.95
