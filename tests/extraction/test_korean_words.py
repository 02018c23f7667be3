"""Korean words with their particles apart: where they are, against a reader's marks; their vectors; and their uses."""

import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertfeat.core import korean
from bertfeat.core.corpus import CorpusSettings, memory_corpus
from bertfeat.core.extraction import Extractor, verify_features
from bertfeat.core.features import FeatureSet
from bertfeat.errors import FeatureSetError, MissingLibraryError, SettingsDifferError, UsageError
from bertfeat.usages import find_collocates, find_usages
from tests.support.tiny_models import Tiny, reference_states, reference_tokenizer

# The words of each sentence as a reader of Korean marks them.
MARKED = (
    "나|는 은행|에서 통장|을 새로 만들었다|.",
    "은행 앞|에서 친구|를 기다리다가 비|를 맞았다|.",
    "할머니|는 은행|까지 걸어가서 현금|을 찾았다|.",
    "배|가 고파서 편의점|에서 김밥|을 샀다|.",
    "친구|에게|만 그 일|을 말했다|.",
    "그|는 학생|이다|.",
    "이것|은 내 책|입니다|.",
    "난 그건 몰라|.",
    "LG|와 삼성|의 3개 공장|이 서울|에 있다|.",
    "그|는 |'|좋아요|'|를 눌렀다|.",
    "🙂 학교|에서|는 🙂웃었다|.",
    "바람|과 나무|의 시|를 읽었다|.",
    "The bank of the river|.",
    "",
)
TEXTS = [sentence.replace("|", "") for sentence in MARKED]
WORDS = [tuple(sentence.replace("|", " ").split()) for sentence in MARKED]


def extractor(tiny: Tiny, **settings: Any) -> Extractor:
    given = {"pooling": "word", "precision": "fp32", "dtype": "float32", "words": "korean", **settings}
    return Extractor(tiny.folder, **given)


def words_of(made: Extractor, texts: list[str]) -> list[tuple[str, ...]]:
    return [tuple(document.words.strings or ()) for document in made.features(texts) if document.words is not None]


def test_words_are_those_that_a_reader_marks(bert: Tiny) -> None:
    assert words_of(extractor(bert), TEXTS) == WORDS


def test_words_of_syllables_that_are_written_as_letters(bert: Tiny) -> None:
    decomposed = [unicodedata.normalize("NFD", text) for text in TEXTS]
    found = words_of(extractor(bert), decomposed)
    assert [tuple(unicodedata.normalize("NFC", word) for word in words) for words in found] == WORDS


def test_long_texts_are_split_as_their_sentences(bert: Tiny) -> None:
    """They are analyzed in stretches, which end between words."""
    texts = [text for text in TEXTS if text]
    text = "\n".join(texts * 40)
    (found,) = words_of(extractor(bert, long="window"), [text])
    assert len(text) > 6_000
    assert found == tuple(word for words in WORDS for word in words) * 40
    (without_spaces,) = words_of(extractor(bert), ["은행에서" * 1_500])
    assert "".join(without_spaces) == "은행에서" * 1_500


@pytest.mark.parametrize("subword", ["first", "mean", "last"])
def test_vectors_are_those_of_transformers(bert: Tiny, subword: str) -> None:
    """The pieces of a word are those that share a character with it."""
    for text, document in zip(TEXTS[:5], extractor(bert, subword=subword).features(TEXTS[:5]), strict=True):
        read = reference_tokenizer(bert.folder)(text, return_offsets_mapping=True)
        states = reference_states(bert.folder, read["input_ids"], [0] * len(read["input_ids"]))[-1]
        assert document.words is not None
        spans = zip(document.words.start.tolist(), document.words.end.tolist(), strict=True)
        for (start, end), vector in zip(spans, document.matrix("last_word"), strict=True):
            rows = [at for at, (s, e) in enumerate(read["offset_mapping"]) if s < end and e > start and s < e]
            wanted = {"first": states[rows[0]], "last": states[rows[-1]], "mean": states[rows].mean(0)}[subword]
            np.testing.assert_allclose(vector, wanted, atol=3e-5)


def test_context_counts_particles_as_words(tiny: Callable[[str], Tiny]) -> None:
    """돈 sees 은행, which stands two words before it, with two words of context and not with one."""
    roberta = tiny("roberta")  # whose pieces are bytes, so that none is in two words
    near, far = extractor(roberta, context="left:1"), extractor(roberta, context="left:2")
    (document,), (further,) = near.features(["은행에서 돈을"]), far.features(["은행에서 돈을"])
    assert document.words is not None
    assert document.words.strings == ("은행", "에서", "돈", "을")
    pairs = zip(document.matrix("last_word"), further.matrix("last_word"), strict=True)
    assert [np.allclose(one, other, atol=3e-5) for one, other in pairs] == [True, True, False, False]


@pytest.mark.parametrize("pooling", ["word", "token", "word,mean"])
def test_usages_find_the_word_and_not_its_particles(bert: Tiny, tmp_path: Path, pooling: str) -> None:
    extractor(bert, pooling=pooling).extract(memory_corpus(TEXTS), tmp_path)
    features = FeatureSet(tmp_path)
    for word, rows in {"은행": [0, 1, 2], "는": [0, 2, 5, 9, 10], "은행에서": [0]}.items():
        assert [usage.row for usage in find_usages(features, word, k=20).usages] == rows
    near = find_usages(features, "은행", like=TEXTS[0], k=1, model=bert.folder)
    assert [usage.row for usage in near.usages] == [0]


def test_collocates_are_words_without_particles(bert: Tiny, tmp_path: Path) -> None:
    extractor(bert, pooling="mean").extract(memory_corpus(TEXTS * 2), tmp_path)
    found = find_collocates(FeatureSet(tmp_path), "은행", least=2, k=100)
    assert {"통장", "친구", "현금", "에서"} <= {collocate.word for collocate in found.collocates}


def test_sets_without_words_need_no_kiwi(bert: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are only split where their usages are looked up."""
    extractor(bert, pooling="mean").extract(memory_corpus(TEXTS), tmp_path)
    monkeypatch.setattr("bertfeat.core.words.kiwi_version", lambda: "kiwipiepy-0.1.2 model-3")
    assert verify_features(tmp_path, sample=5, model=bert.folder).sampled == 5


def test_another_version_splits_stored_texts_anew(bert: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extractor(bert, pooling="token").extract(memory_corpus(TEXTS), tmp_path)
    features = FeatureSet(tmp_path)
    assert find_usages(features, "은행").found == 3
    monkeypatch.setattr("bertfeat.core.words.kiwi_version", lambda: "kiwipiepy-0.1.2 model-3")
    monkeypatch.setattr("bertfeat.core.words.find_particle_borders", lambda text: [])
    assert find_usages(features, "은행").found == 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize("only", [["은행"], ["은행*"], ["은행에서"], ["통장", "은행에서"]])
def test_chosen_words(bert: Tiny, tmp_path: Path, only: list[str]) -> None:
    """An entry of the list may be a word with its particle, which is two words."""
    extractor(bert, only=only).extract(memory_corpus(TEXTS), tmp_path)
    features = FeatureSet(tmp_path)
    wanted = {
        ("은행",): ["은행", "은행", "은행"],
        ("은행*",): ["은행", "은행", "은행"],
        ("은행에서",): ["은행", "에서"],
        ("통장", "은행에서"): ["은행", "에서", "통장"],
    }[tuple(only)]
    stored = [word for document in features for word in (document.words.strings if document.words else None) or ()]
    assert stored == wanted
    assert [usage.row for usage in find_usages(features, only[-1]).usages][:1] == [0]
    report = verify_features(tmp_path, sample=len(TEXTS), model=bert.folder)
    assert report.deviations[0].min_cosine > 0.9999


def test_the_rule_and_its_version_are_recorded(bert: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = extractor(bert)
    made.extract(memory_corpus(TEXTS), tmp_path)
    features = FeatureSet(tmp_path)
    assert features.header.settings.words == f"korean {korean.kiwi_version()}"
    assert verify_features(tmp_path, sample=5, model=bert.folder).sampled == 5
    with pytest.raises(SettingsDifferError, match="words"):
        extractor(bert, words="spaces").extract(memory_corpus(TEXTS), tmp_path)
    monkeypatch.setattr("bertfeat.core.words.kiwi_version", lambda: "kiwipiepy-0.1.2 model-3")
    with pytest.raises(SettingsDifferError, match=r"kiwipiepy-0\.1\.2"):
        made.extract(memory_corpus(TEXTS), tmp_path)
    with pytest.raises(FeatureSetError, match=r"here is 'korean kiwipiepy-0\.1\.2 model-3'.*install that version"):
        verify_features(tmp_path, sample=5, model=bert.folder)
    assert verify_features(tmp_path, sample=0).documents == len(TEXTS)
    assert find_usages(features, "은행", like="은행", model=bert.folder).found == 3


def test_wrong_uses(bert: Tiny, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"words='klingon'.*known are spaces, korean"):
        extractor(bert, words="klingon")
    corpus = memory_corpus([["은행에서", "돈을"]], CorpusSettings(pretokenized=True))
    with pytest.raises(UsageError, match=r"brings its own words.*leave words out"):
        extractor(bert).extract(corpus, tmp_path)


def test_kiwi_is_missing(bert: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kiwipiepy", None)
    korean._kiwi.cache_clear()
    with pytest.raises(MissingLibraryError, match=r"kiwipiepy.*pip install 'bertfeat\[korean\]'"):
        extractor(bert)
