"""Usages of a word: found where another search finds them, ordered as NumPy orders them."""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from bertfeat.core.corpus import CorpusSettings
from bertfeat.core.extraction import Extractor
from bertfeat.core.features import FeatureSet
from bertfeat.core.words import WordQuery, fold_case, is_word, split_words
from bertfeat.errors import FeatureSetError, IndexFolderError, NotDerivableError, UsageError
from bertfeat.search import Index, build_index
from bertfeat.usages import Usage, find_senses, find_usages, find_usages_by
from tests.support.tiny_models import Tiny

TEXTS = (
    "The bank of the river was steep; a BANK of mud.",
    "He went to the bank to ask for money.",
    "Nothing of the kind stands here.",
    "",
    "Bankers bank, banking banks.",
    "은행에서 돈을 찾았다. 은행 앞, 강둑.",
    unicodedata.normalize("NFD", "은행이 문을 닫았다."),
    "Die Straße führt zur STRASSE, das Sandbank-Bild.",
    "The river bank, the river\n bank and the river.",
    "Don't go, don’t stop: they DON'T!",
)
LIKE = "She sat on the bank of a river."
MARKED = "She sat on the *bank* of a river."


@dataclass(frozen=True)
class Place:
    """An occurrence as the oracle finds it."""

    row: int
    start: int
    end: int
    vector: NDArray[np.float64]


def same(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold()).split())


def places(features: FeatureSet, word: str, column: str, *, prefix: bool = False) -> Iterator[Place]:
    """Every occurrence of a single word in a word set, by going through all words of all documents."""
    for document in features.documents([column]):
        assert document.words is not None
        assert document.words.strings is not None
        matrix = document.matrix(column).astype(np.float64)
        spans = zip(document.words.start.tolist(), document.words.end.tolist(), strict=True)
        for number, ((start, end), string) in enumerate(zip(spans, document.words.strings, strict=True)):
            key = same(string)
            if key == same(word) or (prefix and key.startswith(same(word))):
                yield Place(document.row, start, end, matrix[number])


def cosine(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def where(usages: Sequence[Usage]) -> list[tuple[int, int, int]]:
    return [(usage.row, usage.start, usage.end) for usage in usages]


def scored(usages: Sequence[Usage]) -> list[float]:
    assert all(usage.score is not None for usage in usages)
    return [usage.score for usage in usages if usage.score is not None]


def words(usages: Sequence[Usage]) -> list[str]:
    return [usage.word for usage in usages]


@pytest.fixture
def extract(tiny: Callable[[str], Tiny], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., FeatureSet]:
    """Extract texts with the tiny BERT into small parts of small row groups."""
    monkeypatch.setattr("bertfeat.core.features.part.ROW_GROUP_BYTES", 2000)

    def made(
        texts: Sequence[Any] = TEXTS,
        pooling: str = "word",
        layers: str | Sequence[str] = "concat4",
        *,
        corpus_settings: CorpusSettings | None = None,
        keep_text: bool = True,
        **settings: Any,
    ) -> FeatureSet:
        from bertfeat.core.corpus import memory_corpus

        extractor = Extractor(
            tiny("bert").folder, layers=layers, pooling=pooling, precision="fp32", device="cpu", **settings
        )
        corpus = memory_corpus(texts, corpus_settings or CorpusSettings())
        folder = tmp_path / f"{pooling}.features"
        extractor.extract(corpus, folder, part_rows=4, keep_text=keep_text, overwrite=True)
        return FeatureSet(folder)

    return made


# ── which words match ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("word", "text", "found"),
    [
        ("bank", "The Bank, banks; BANK sandbank", ["Bank", "BANK"]),
        ("bank*", "The Bank, banks; BANK sandbank", ["Bank", "banks", "BANK"]),
        ("strasse", "Straße STRASSE Strasse", ["Straße", "STRASSE", "Strasse"]),
        ("은행*", "은행에서 은행 강은행", ["은행에서", "은행"]),
        ("가*", "각 가지", ["가지"]),
        ("café", "cafe\u0301 CAFÉ cafe", ["cafe\u0301", "CAFÉ"]),
        ("New York", "new\n york, New Yorkers York", ["new\n york"]),
        ("new york*", "new  york, New Yorkers York", ["new  york", "New Yorkers"]),
        ("don't", "Don't! don t", ["Don't"]),
        ("  bank ", "bank", ["bank"]),
        ("bank.", "bank. bank .", ["bank."]),
        ("a a", "a a a", ["a a", "a a"]),
    ],
)
def test_words_that_match(word: str, text: str, found: list[str]) -> None:
    spans = split_words(text)
    start, end = spans.start.tolist(), spans.end.tolist()
    ranges = WordQuery.parse(word).find(text, start, end)
    assert [text[start[first] : end[stop - 1]] for first, stop in ranges] == found


@given(st.text(" ab'Éé\u0301ßs가각ᄀ\n.", max_size=12), st.text(" ab'eé\u0301ßs가가.", min_size=1, max_size=4))
@settings(deadline=None, max_examples=300)
def test_matches_are_those_of_all_ranges_of_words(text: str, word: str) -> None:
    if not same(word):
        return
    spans = split_words(text)
    start, end = spans.start.tolist(), spans.end.tolist()
    every = [
        (first, stop)
        for first in range(len(start))
        for stop in range(first + 1, len(start) + 1)
        if same(text[start[first] : end[stop - 1]]) == same(word)
    ]
    assert WordQuery.parse(word).find(text, start, end) == every
    assert fold_case(word) == same(word)


def test_nothing_to_look_for() -> None:
    with pytest.raises(UsageError, match="empty"):
        WordQuery.parse(" \n")


# ── in the order of the corpus ──────────────────────────────────────────────────────────────────────────────


def test_in_the_order_of_the_corpus_with_contexts(extract: Callable[..., FeatureSet]) -> None:
    found = find_usages(extract(), "bank", k=3)
    assert (found.documents, found.found, found.skipped) == (len(TEXTS), 6, 0)
    assert words(found.usages) == ["bank", "BANK", "bank"]
    first, second, _ = found.usages
    text = TEXTS[0]
    assert (first.row, first.id, first.start, first.end, first.score) == (0, "1", 4, 8, None)
    assert (first.left, first.right) == (text[:4], text[8:])
    assert second.left + second.word + second.right == text
    assert find_usages(extract(), "bank", context=3).usages[1].left == " a "


def test_vectors_are_read_only_where_they_are_needed(
    extract: Callable[..., FeatureSet], monkeypatch: pytest.MonkeyPatch
) -> None:
    features = extract()
    asked: list[tuple[list[int], Sequence[str]]] = []
    stream_rows = FeatureSet.stream_rows

    def spy(self: FeatureSet, rows: Collection[int], names: Sequence[str]) -> Any:
        asked.append((sorted(rows), names))
        return stream_rows(self, rows, names)

    monkeypatch.setattr(FeatureSet, "stream_rows", spy)
    find_usages(features, "bank", k=2)
    ((rows, names),) = asked
    assert (rows, "concat4_word" in names) == ([0], False)
    asked.clear()
    find_usages(features, "money", like="my money")
    assert [(rows, "concat4_word" in names) for rows, names in asked] == [([1], True), ([1], False)]
    asked.clear()
    find_usages(features, "bank", like="the *bank* of it", k=1)
    (compared, _), (shown, names) = asked
    assert (len(compared) > 1, len(shown), "concat4_word" in names) == (True, 1, False)


def test_a_word_that_is_nowhere(extract: Callable[..., FeatureSet]) -> None:
    found = find_usages(extract(), "zebra", like="a zebra")
    assert (found.found, found.usages) == (0, ())
    assert find_senses(extract(), "zebra", 2).senses == ()


# ── nearest first ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(8)
@pytest.mark.parametrize("asked_for", [None, "sum4", "-1", "concat=-2..-1"])
@pytest.mark.parametrize("word", ["bank", "bank*", "은행*", "*"])
def test_nearest_are_those_of_brute_force(word: str, asked_for: str | None, extract: Callable[..., FeatureSet]) -> None:
    features = extract(dtype="float32")
    beginning = word.removesuffix("*")
    like, marked = {"bank": (LIKE, "bank"), "은행": ("그 은행에서", "은행"), "": ("by the *river*", "river")}[beginning]
    found = find_usages(features, word, like=like, column=asked_for, k=5)
    column = found.column
    (sentence,) = Extractor(
        features.header.model.name, layers="concat4", pooling="word", precision="fp32", device="cpu", dtype="float32"
    ).features([like.replace("*", "")])
    assert sentence.words is not None
    assert sentence.words.strings is not None
    number = next(at for at, string in enumerate(sentence.words.strings) if string.startswith(marked))
    asked = sentence.matrix(column)[number].astype(np.float64)
    every = list(places(features, beginning, column, prefix=word != beginning))
    texts = {document.row: document.text or "" for document in features.documents([])}
    every = [place for place in every if beginning or is_word(texts[place.row][place.start : place.end])]
    scores = np.array([cosine(place.vector, asked) for place in every])
    order = np.argsort(-scores, kind="stable")[:5]
    np.testing.assert_allclose(scored(found.usages), scores[order], atol=2e-6)
    got = {place: usage.score for place, usage in zip(where(found.usages), found.usages, strict=True)}
    # the last may be one of several that are equally near
    for at in (at for at in order.tolist() if scores[at] > scores[order[-1]] + 1e-5):
        assert (every[at].row, every[at].start, every[at].end) in got
    assert found.found == len(every)


@pytest.mark.parametrize("subword", ["first", "mean", "last"])
def test_several_words_are_their_mean(subword: str, extract: Callable[..., FeatureSet]) -> None:
    features = extract(dtype="float32", subword=subword)
    found = find_usages(features, "the river", like="by the river", k=9)
    assert where(found.usages[:1]) != []
    (sentence,) = Extractor(
        features.header.model.name, layers="last", pooling="word", dtype="float32", subword=subword,
        precision="fp32", device="cpu",
    ).features(["by the river"])  # fmt: skip
    asked = sentence.matrix()[1:3].astype(np.float64).mean(axis=0)
    scores = {}
    for document in features:
        assert document.words is not None
        strings = [same(string) for string in document.words.strings or ()]
        for at in range(len(strings) - 1):
            if strings[at : at + 2] == ["the", "river"]:
                vector = document.matrix("last")[at : at + 2].astype(np.float64).mean(axis=0)
                place = (document.row, int(document.words.start[at]), int(document.words.end[at + 1]))
                scores[place] = cosine(vector, asked)
    assert set(where(found.usages)) == set(scores)
    for usage, place in zip(found.usages, where(found.usages), strict=True):
        assert usage.score == pytest.approx(scores[place], abs=2e-6)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("word", ["bank", "Straße", "don't"])
def test_token_features_find_what_word_features_find(word: str, extract: Callable[..., FeatureSet]) -> None:
    like = f"and {word} again"
    by_words = find_usages(extract(), word, like=like)
    by_tokens = find_usages(extract(pooling="token"), word, like=like)
    assert by_tokens.column == "last_token"
    assert by_tokens.found == by_words.found > 0
    assert where(by_tokens.usages) == where(by_words.usages)
    np.testing.assert_allclose(scored(by_tokens.usages), scored(by_words.usages), atol=1e-5)


def test_a_sentence_of_the_corpus_finds_itself(extract: Callable[..., FeatureSet]) -> None:
    for pooling in ("word", "token"):
        best = find_usages(extract(pooling=pooling), "bank", like=TEXTS[1]).usages[0]
        assert best.row == 1
        assert best.score == pytest.approx(1, abs=1e-5)


def test_one_per_document(extract: Callable[..., FeatureSet]) -> None:
    features = extract()
    every = find_usages(features, "bank", like=LIKE, k=99).usages
    best = find_usages(features, "bank", like=LIKE, k=99, one_per_document=True).usages
    assert len(every) > len(best) == len({usage.row for usage in every})
    assert list(best) == [next(usage for usage in every if usage.row == each.row) for each in best]
    firsts = find_usages(features, "bank", one_per_document=True).usages
    assert where(firsts) == [
        (row, *re.search(r"\bbank\b", text, re.IGNORECASE).span())  # type: ignore[union-attr]
        for row, text in enumerate(TEXTS)
        if re.search(r"\bbank\b", text, re.IGNORECASE)
    ]


def test_both_texts_of_a_pair(extract: Callable[..., FeatureSet]) -> None:
    pairs = [("the bank", "no money"), ("my money", "money in the bank"), ("bank", "bank")]
    for pooling in ("word", "token"):
        features = extract(pairs, pooling)
        found = find_usages(features, "bank").usages
        assert [(usage.row, usage.in_pair, usage.start) for usage in found] == [
            (0, False, 4), (1, True, 13), (2, False, 0), (2, True, 0),
        ]  # fmt: skip
        assert (found[1].left, found[1].right) == ("money in the ", "")
        near = find_usages(features, "bank", like="my bank").usages
        assert sorted(where(near)) == sorted(where(found))


def test_words_without_vectors_are_skipped_and_counted(extract: Callable[..., FeatureSet]) -> None:
    texts = ["the bank " + "a " * 20 + "bank", "a bank"]
    features = extract(texts, long="truncate", max_length=12)
    found = find_usages(features, "bank", like="a bank")
    assert (found.found, found.skipped, len(found.usages)) == (3, 1, 2)
    assert find_usages(features, "bank").found == 3
    assert find_senses(features, "bank", 2).skipped == 1
    tokens = find_usages(extract(texts, "token", long="truncate", max_length=12), "bank", like="a bank")
    assert (tokens.found, tokens.skipped) == (3, 1)


def test_given_words(extract: Callable[..., FeatureSet]) -> None:
    given_words = [["The", "U.S.", "do", "n't"], ["U.S.-led", "U.S", "."]]
    features = extract(given_words, corpus_settings=CorpusSettings(pretokenized=True))
    assert where(find_usages(features, "U.S.").usages) == [(0, 4, 8)]
    assert where(find_usages(features, "do n't", like="I do n't").usages) == [(0, 9, 15)]
    assert where(find_usages(features, "u.s*").usages) == [(0, 4, 8), (1, 0, 8), (1, 9, 12)]


# ── the sentence ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_mark_says_which_word_is_meant(extract: Callable[..., FeatureSet]) -> None:
    features = extract()
    twice = "the bank went down the river bank"
    first = find_usages(features, "bank", like=twice)
    assert find_usages(features, "bank", like="the *bank* went down the river bank").usages == first.usages
    second = find_usages(features, "bank", like="the bank went down the river *bank*")
    assert scored(second.usages) != scored(first.usages)
    other = find_usages(features, "bank*", like="*Bankers bank*, banking banks.")
    assert other.like == "*Bankers bank*, banking banks."
    assert find_usages(features, "bank", like="3 * 4 * 5 bank").usages != ()


@pytest.mark.parametrize(
    ("like", "word", "problem"),
    [
        ("He sat by the river.", "bank", r"'bank' is not in like='He sat by the river\.'"),
        ("banks are closed", "bank", r"bank\* finds words that begin so"),
        ("by the river", "*", r"'\*' is every word; mark the word that is meant"),
        ("", "bank", "like is empty"),
        ("a \udcff bank", "bank", "like holds bytes that are no UTF-8"),
        ("sandbank", "bank*", "is not in like="),
        ("*a* *bank*", "bank", "2 words marked"),
        ("the *ban*k", "bank", "mark a whole word"),
    ],
)
def test_sentences_that_do_not_fit(like: str, word: str, problem: str, extract: Callable[..., FeatureSet]) -> None:
    with pytest.raises(UsageError, match=problem):
        find_usages(extract(), word, like=like)


def test_another_model_is_refused(extract: Callable[..., FeatureSet], tiny: Callable[[str], Tiny]) -> None:
    features = extract()
    with pytest.raises(FeatureSetError, match="vectors of two models cannot be compared"):
        find_usages(features, "bank", like=LIKE, model=tiny("roberta").folder)
    encoder = Extractor(tiny("roberta").folder, pooling="word")
    with pytest.raises(FeatureSetError, match="vectors of two models cannot be compared"):
        find_usages(features, "bank", like=LIKE, encoder=encoder)


def test_settings_that_the_model_does_not_take_name_their_folder(extract: Callable[..., FeatureSet]) -> None:
    features = extract()
    header = features.header
    for recorded, problem in (
        (replace(header.settings, max_length=2**40), "reads 8 to 64 tokens at once"),
        (replace(header.settings, prompt="\ud800"), "half of a surrogate pair"),
        (replace(header.settings, context="right"), "not a number of words"),
    ):
        with pytest.raises(FeatureSetError, match=rf"a\.features: its settings do not fit .*{problem}"):
            Extractor.from_record(header.model, recorded, features.columns, where="a.features")


# ── senses ──────────────────────────────────────────────────────────────────────────────────────────────────

RIVER, MONEY = "the steep bank of the river", "money in a bank"


def test_senses_are_groups_of_like_usages(extract: Callable[..., FeatureSet]) -> None:
    features = extract([MONEY, RIVER, RIVER, MONEY, RIVER])
    found = find_senses(features, "bank", 2, k=2)
    assert (found.documents, found.found, found.grouped) == (5, 5, 5)
    assert [(sense.count, [usage.row for usage in sense.usages]) for sense in found.senses] == [
        (3, [1, 2]), (2, [0, 3]),
    ]  # fmt: skip
    assert [usage.score for sense in found.senses for usage in sense.usages] == pytest.approx([1] * 4, abs=1e-5)
    assert find_senses(features, "bank", 2, k=2) == found


def test_central_usages_come_first(extract: Callable[..., FeatureSet]) -> None:
    features = extract()
    found = find_senses(features, "bank*", 2, k=99)
    vectors = {(p.row, p.start): p.vector for p in places(features, "bank", "last_word", prefix=True)}
    assert sum(sense.count for sense in found.senses) == len(vectors) == found.grouped
    assert [sense.count for sense in found.senses] == sorted((s.count for s in found.senses), reverse=True)
    for sense in found.senses:
        own = [vectors[usage.row, usage.start] for usage in sense.usages]
        middle = np.mean([vector / np.linalg.norm(vector) for vector in own], axis=0)
        scores = [cosine(vector, middle) for vector in own]
        np.testing.assert_allclose(scored(sense.usages), scores, atol=1e-5)
        assert np.all(np.diff(scores) < 1e-5)  # in their order, but for what is equal in float32


def test_of_very_many_usages_a_sample_is_grouped(
    extract: Callable[..., FeatureSet], monkeypatch: pytest.MonkeyPatch
) -> None:
    features = extract([f"{RIVER} {number}" for number in range(40)])
    monkeypatch.setattr("bertfeat.usages.senses.MOST", 8)
    found = find_senses(features, "bank", 2, k=99)
    assert (found.found, found.grouped, sum(sense.count for sense in found.senses)) == (40, 8, 8)
    rows = sorted(usage.row for sense in found.senses for usage in sense.usages)
    assert len(set(rows)) == 8
    assert rows != list(range(8))
    assert find_senses(features, "bank", 2, k=99) == found


def test_one_sense_a_document(extract: Callable[..., FeatureSet]) -> None:
    features = extract([f"{RIVER} bank", MONEY])
    assert find_senses(features, "bank", 2, one_per_document=True).grouped == 2


@pytest.mark.parametrize(
    ("senses", "options", "problem"),
    [
        (1, {}, "at least 2"),
        (9, {}, "has 5 usages to group, which are too few for 9"),
        (3, {}, "only 2 different vectors"),
        (2, {"k": -1}, "-1 usages cannot be"),
    ],
)
def test_senses_that_cannot_be(
    senses: int, options: dict[str, Any], problem: str, extract: Callable[..., FeatureSet]
) -> None:
    with pytest.raises(UsageError, match=problem):
        find_senses(extract([MONEY, RIVER, RIVER, MONEY, RIVER]), "bank", senses, **options)


# ── an index instead of a scan ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("one_per_document", [False, True])
def test_an_index_finds_what_a_scan_finds(
    one_per_document: bool, extract: Callable[..., FeatureSet], tmp_path: Path
) -> None:
    features = extract(dtype="float32")
    build_index(features.folder, tmp_path / "words.index")
    by_scan = find_usages(features, "*", like=MARKED, k=7, one_per_document=one_per_document)
    index = tmp_path / "words.index"
    by_index = find_usages(index, "*", like=MARKED, k=7, one_per_document=one_per_document)
    assert where(by_index.usages) == where(by_scan.usages)
    assert [usage.left for usage in by_index.usages] == [usage.left for usage in by_scan.usages]
    np.testing.assert_allclose(scored(by_index.usages), scored(by_scan.usages), atol=1e-5)
    whole = find_usages(index, "*", like=MARKED, k=999)
    assert len(whole.usages) == by_scan.found or one_per_document


def test_an_index_refuses_what_it_cannot_answer(extract: Callable[..., FeatureSet], tmp_path: Path) -> None:
    build_index(extract().folder, tmp_path / "words.index")
    opened = Index(tmp_path / "words.index")
    told = r"words\.index: is an index, which answers only \* \(every word\) with like"
    for index in (tmp_path / "words.index", opened):
        for word, asked in (("bank", {"like": LIKE}), ("*", {}), ("*", {"like": MARKED, "near": "river"})):
            with pytest.raises(UsageError, match=told):
                find_usages(index, word, **asked)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="without left; give the features"):
            find_usages(index, "*", like=MARKED, left=0)
    with pytest.raises(UsageError, match="an index has no kept columns to slice by"):
        find_usages_by(opened, "bank", "year", like=LIKE)


def test_an_index_of_documents_is_refused(extract: Callable[..., FeatureSet], tmp_path: Path) -> None:
    build_index(extract(pooling="mean").folder, tmp_path / "mean.index")
    with pytest.raises(IndexFolderError, match="one vector a document"):
        find_usages(tmp_path / "mean.index", "*", like=MARKED)


# ── sets that do not fit ────────────────────────────────────────────────────────────────────────────────────


def test_document_vectors_only(extract: Callable[..., FeatureSet]) -> None:
    with pytest.raises(FeatureSetError, match=r"extract .* with .*layers='3', pooling='word' into .*mean\.words"):
        find_usages(extract(pooling="mean", layers="3"), "bank")


def test_without_texts(extract: Callable[..., FeatureSet]) -> None:
    with pytest.raises(FeatureSetError, match="keep_text=False"):
        find_usages(extract(keep_text=False), "bank")


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        ("0", "column='0': .*needs layer 0"),
        ("concat4_mean", "is one vector a document.*column='concat4'$"),
        ("nonsense", "there is no column 'nonsense'"),
        ("last_token", "column='last_token': no column with token pooling is stored"),
    ],
)
def test_columns_that_are_not_there(column: str, problem: str, extract: Callable[..., FeatureSet]) -> None:
    with pytest.raises(NotDerivableError, match=problem) as error:
        find_usages(extract(layers="last"), "bank", column=column)
    assert "<" not in str(error.value)  # S2: "leave out <Pooling.TOKEN: 'token'>"


def test_of_several_columns_one_is_chosen(extract: Callable[..., FeatureSet]) -> None:
    features = extract(layers=["last", "1"], pooling="word,token")
    assert find_usages(features, "bank").column == "last_word"
    assert find_usages(features, "bank", column="1").column == "layer1_word"
    assert find_usages(features, "bank", column="last_token").column == "last_token"
    with pytest.raises(NotDerivableError, match="several columns fit: layer2_word, layer1_word"):
        find_usages(extract(layers=["2", "1"], pooling="word,token"), "bank")


@pytest.mark.parametrize(
    ("options", "problem"),
    [({"k": -1}, "-1 usages cannot be"), ({"context": -1}, "cannot be")],
)
def test_options_that_cannot_be(options: dict[str, Any], problem: str, extract: Callable[..., FeatureSet]) -> None:
    with pytest.raises(UsageError, match=problem):
        find_usages(extract(), "bank", **options)
