"""The word index: it finds what going through all words finds, is made again when it must be, and never lies."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash

from bertfeat.core.corpus import CorpusSettings, memory_corpus
from bertfeat.core.extraction import Extractor
from bertfeat.core.features import FeatureSet
from bertfeat.core.words import WordQuery, fold_case, is_word, split_words
from bertfeat.errors import DamagedError, StorageError
from bertfeat.usages import Usage, find_usages, open_word_index
from bertfeat.usages.word_index import _identity
from bertfeat.usages.word_index_file import write_word_index
from tests.support.tiny_models import Tiny

LETTERS = "aAbß-'. \n은행e\u0301éK\u212a"
TEXTS = (
    "The bank of the river; the BANK, the bank's end.",
    "",
    "Don't go to the river-bank. don 't. DON'T",
    "은행에서 돈을 찾았다. 은행 앞, e\u0301t\u00e9 \u00e9te\u0301",
    "a a a a-a a",
)


@pytest.fixture
def extract(tiny: Callable[[str], Tiny], tmp_path: Path) -> Callable[..., FeatureSet]:
    """Extract texts with the tiny BERT into parts of two documents."""

    def made(
        texts: Sequence[Any], name: str = "a", pooling: str = "word", *, given: bool = False, **more: Any
    ) -> FeatureSet:
        extractor = Extractor(
            tiny("bert").folder, layers="last", pooling=pooling, precision="fp32", device="cpu", **more
        )
        corpus = memory_corpus(texts, CorpusSettings(pretokenized=given))
        extractor.extract(corpus, tmp_path / f"{name}.features", part_rows=2, overwrite=True)
        return FeatureSet(tmp_path / f"{name}.features")

    return made


def brute_force(features: FeatureSet, query: WordQuery) -> Iterator[tuple[int, bool, int, int]]:
    """Every occurrence, by going through the words of all texts: row, second text or not, start, end."""
    for document in features.documents([]):
        for in_pair, text in enumerate((document.text, document.pair)):
            if text is not None:
                spans = split_words(text)
                start, end = spans.start.tolist(), spans.end.tolist()
                for first, stop in query.find(text, start, end):
                    yield document.row, bool(in_pair), start[first], end[stop - 1]


def places(usages: Sequence[Usage]) -> list[tuple[int, bool, int, int]]:
    return [(usage.row, usage.in_pair, usage.start, usage.end) for usage in usages]


# ── what it finds ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(2)
@pytest.mark.parametrize("pooling", ["word", "token"])
@pytest.mark.parametrize("texts", [TEXTS, tuple(zip(TEXTS, TEXTS[::-1], strict=True))], ids=["texts", "pairs"])
def test_words_phrases_and_beginnings(pooling: str, texts: Sequence[Any], extract: Callable[..., FeatureSet]) -> None:
    features = extract([text for text in texts if text != ("", "")], pooling=pooling)
    for word in (
        "bank",
        "the bank",
        "the bank's",
        "bank's end",
        "don't",
        "don 't",
        "river-bank.",
        "a a",
        "a-a",
        "은행",
        "été",
        "x",
    ):
        for asked in (word, f"{word}*") if word[-1].isalnum() else (word,):
            found = find_usages(features, asked, k=999)
            assert places(found.usages) == list(brute_force(features, WordQuery.parse(asked))), asked


@pytest.mark.sampled(1)
@pytest.mark.parametrize("pooling", ["word", "token"])
def test_random_texts(pooling: str, extract: Callable[..., FeatureSet]) -> None:
    """Texts and queries of few characters, so that punctuation, case and combining marks meet in every way."""
    random = Random(7)
    texts = ["".join(random.choices(LETTERS, k=random.randrange(1, 40))) for _ in range(60)]
    features = extract(["a", *(text for text in texts if text.strip())], pooling=pooling)
    for _ in range(60):
        text = random.choice(texts)
        begin = random.randrange(len(text))
        word = text[begin : begin + random.randrange(1, 7)]
        if word.strip():
            query = WordQuery.parse(word + "*" * (is_word(word[-1]) and random.random() < 0.5))
            found = find_usages(features, query.word, k=999)
            assert places(found.usages) == list(brute_force(features, query)), query


def test_words_that_the_corpus_brings(extract: Callable[..., FeatureSet]) -> None:
    """Words are those of the corpus, and a search may join several: what the words' strings, joined by spaces, say."""
    documents = [["U.S.", "do", "n't", "New York"], ["U.S.-led", "U.S", ".", "new", "york"], ["don't"]]
    features = extract(documents, given=True)
    expected = {
        "u.s.": ["U.S."], "u.s. do": ["U.S. do"], "u.s*": ["U.S.", "U.S.-led", "U.S"], "do n't": ["do n't"],
        "don't": ["don't"], "new york": ["New York", "new york"], "new y*": ["New York", "new york"], "york": ["york"],
        "s": [], "led": [], "u.s .": ["U.S ."],
    }  # fmt: skip
    for word, found in expected.items():
        assert [usage.word for usage in find_usages(features, word).usages] == found, word


def test_frequencies_are_those_of_counting(extract: Callable[..., FeatureSet]) -> None:
    features = extract([text for text in TEXTS if text])
    words = [
        text[slice(*span)]
        for text in TEXTS
        for span in zip(split_words(text).start, split_words(text).end, strict=True)
    ]
    total = sum(map(is_word, words))
    found = find_usages(features, "bank")
    assert (found.words, found.found) == (total, sum(fold_case(word) == "bank" for word in words))
    assert found.per_million == pytest.approx(1e6 * found.found / total, abs=0.01)
    assert find_usages(features, "*", k=0).per_million == 1e6


# ── the file ────────────────────────────────────────────────────────────────────────────────────────────────


def file_of(features: FeatureSet) -> Path:
    assert isinstance(features.folder, Path)
    return features.folder / ".bertfeat" / "words.arrow"


def test_it_is_made_once_and_read_by_arrow(extract: Callable[..., FeatureSet]) -> None:
    """Arrow is the other reader: the file is as docs/storage-format.md describes it."""
    features = extract(["The bank, the BANK.", "No bank"])
    find_usages(features, "bank")
    before = file_of(features).stat()
    find_usages(features, "the")
    assert file_of(features).stat().st_mtime_ns == before.st_mtime_ns
    content = file_of(features).read_bytes()
    assert xxhash.xxh3_128(content[:-16]).digest() == content[-16:]
    (row,) = pa.ipc.open_stream(content).read_all().to_pylist()
    assert row == {
        "rows": [0, 1], "counts": [4, 2], "texts": [0, 6, 8], "vocabulary": [",", ".", "bank", "no", "the"],
        "ends": [0, 1, 2, 5, 6, 8], "words": [4, 2, 0, 4, 2, 1, 3, 2], "places": [2, 5, 1, 4, 7, 6, 0, 3],
        "starts": [0, 4, 8, 10, 14, 18, 0, 3], "lengths": [3, 4, 1, 3, 4, 1, 2, 4],
        "tag_names": [], "tags": [],
    }  # fmt: skip
    assert sorted(os.listdir(file_of(features).parent)) == ["kind", "manifest.json", "words.arrow"]


def test_it_is_made_again_for_another_corpus(extract: Callable[..., FeatureSet]) -> None:
    assert find_usages(extract(["a bank", "b"]), "bank").found == 1
    assert find_usages(extract(["no", "bank bank"]), "bank").found == 2


@pytest.mark.parametrize("damage", ["cut", "empty", "foreign", "header", "folder"])
def test_a_file_that_is_no_index_is_replaced(damage: str, extract: Callable[..., FeatureSet]) -> None:
    features = extract(["the bank " * 50, "a bank"])
    find_usages(features, "bank")
    path, content = file_of(features), file_of(features).read_bytes()
    if damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        wrong = {"cut": content[:-20], "empty": b"", "foreign": b"PAR1" * 9, "header": b"x" * 40 + content[40:]}[damage]
        path.write_bytes(wrong)
    assert find_usages(features, "bank").found == 51
    if damage != "folder":  # in whose place nothing is put: the index is in the user's cache
        assert path.read_bytes() == content


def test_no_changed_byte_is_believed(extract: Callable[..., FeatureSet]) -> None:
    features = extract(["the bank of the river", "a bank", "river, bank"])
    expected = find_usages(features, "bank", sort="left")
    content = file_of(features).read_bytes()
    for at in range(0, len(content), 23):
        file_of(features).write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
        os.utime(file_of(features), ns=(at, at))  # another time even if the clock did not go on
        assert find_usages(features, "bank", sort="left") == expected
        assert file_of(features).read_bytes() == content


def test_an_index_of_other_texts_is_an_error(extract: Callable[..., FeatureSet]) -> None:
    features, other = extract(["a bank", "no"], "a"), extract(["no", "a bank"], "b")
    key = _identity(features)
    write_word_index(other, file_of(features), key, lambda _: None)
    with pytest.raises(DamagedError, match=r"holds other words than the texts.* the next look-up makes it again"):
        find_usages(features, "bank")


def test_a_folder_that_cannot_be_written_uses_the_cache(
    extract: Callable[..., FeatureSet], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = extract(["a bank", "b"])
    monkeypatch.setenv("BERTFEAT_CACHE", str(tmp_path / "cache"))

    def refuse(asked: FeatureSet, path: Path, *more: Any) -> None:
        if path == file_of(features):
            raise StorageError("Read-only file system", where=path)
        write_word_index(asked, path, *more)

    monkeypatch.setattr("bertfeat.usages.word_index.write_word_index", refuse)
    assert find_usages(features, "bank").found == 1
    (kept,) = (tmp_path / "cache" / "words").iterdir()
    before = kept.stat().st_mtime_ns
    assert find_usages(features, "bank").found == 1
    assert kept.stat().st_mtime_ns == before
    monkeypatch.setenv("BERTFEAT_CACHE", "")
    assert find_usages(features, "bank").found == 1
    assert not file_of(features).exists()


@pytest.mark.slow
def test_several_processes_make_it_at_once(extract: Callable[..., FeatureSet]) -> None:
    features = extract([f"the bank number {number}" for number in range(40)])
    code = f"from bertfeat import find_usages; print(find_usages({str(features.folder)!r}, 'bank').found)"
    runs = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [run.communicate()[0].strip() for run in runs] == ["40"] * 3
    assert sorted(os.listdir(file_of(features).parent)) == ["kind", "manifest.json", "words.arrow"]


def test_a_new_extraction_removes_it(extract: Callable[..., FeatureSet], tmp_path: Path) -> None:
    """So no words stay behind where the texts are not kept any more."""
    features = extract(["a bank", "b"])
    find_usages(features, "bank")
    Extractor(features.header.model.name, device="cpu").extract(
        memory_corpus(["c"]), file_of(features).parent.parent, overwrite=True, keep_text=False
    )
    assert not file_of(features).exists()


def test_an_interrupted_one_leaves_nothing(extract: Callable[..., FeatureSet], monkeypatch: pytest.MonkeyPatch) -> None:
    features = extract(["a bank", "b", "c", "d"])

    def stop(progress: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_word_index(features, progress=stop)
    assert sorted(os.listdir(file_of(features).parent)) == ["kind", "manifest.json"]
    assert find_usages(features, "bank").found == 1


def test_blocks_of_places_are_sorted_as_one(
    extract: Callable[..., FeatureSet], monkeypatch: pytest.MonkeyPatch
) -> None:
    features = extract(["the bank of the river the bank", "a bank", "river, bank the"])
    whole = open_word_index(features)
    expected = {name: np.array(getattr(whole, name)) for name in ("words", "places", "ends", "starts", "lengths")}
    file_of(features).unlink()
    monkeypatch.setattr("bertfeat.usages.word_index_file._AT_ONCE", 3)
    blocks = open_word_index(features)
    for name, array in expected.items():
        np.testing.assert_array_equal(getattr(blocks, name), array)
