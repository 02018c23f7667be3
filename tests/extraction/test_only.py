"""Vectors of chosen words: the very ones that transformers gives them, and none of other words."""

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bertfeat.core.corpus import CorpusSettings, memory_corpus
from bertfeat.core.extraction import Extractor, Progress, verify_features
from bertfeat.core.features import FeatureSet
from bertfeat.core.words import split_words
from bertfeat.errors import BertfeatError, NotDerivableError, SettingsDifferError, UsageError
from bertfeat.learning import GridPoint, Tagger, train_head
from bertfeat.search import Index, MaxSim, build_index
from bertfeat.study import ChangeSettings, measure_change, probe_layers
from bertfeat.usages import find_senses, find_usages
from tests.support.runs import contents, jsonl_file, text_file
from tests.support.tiny_models import SENTENCES, TEXTS, Tiny, reference_states, reference_tokenizer

Floats = NDArray[np.float32]
ONLY = ("Bank", "wat*", "don't", "은행*")
CHOSEN = ("bank", "water", "don", "'", "t", "은행에서")  # the words of the texts that these choose, without case
CHANGE = ChangeSettings(slices="2", least=2)


def extractor(tiny: Tiny, **settings: Any) -> Extractor:
    return Extractor(tiny.folder, **{"pooling": "word", "precision": "fp32", "dtype": "float32", **settings})


def by_hand(tiny: Tiny, text: str) -> dict[str, list[Floats]]:
    """Each occurrence of a chosen word with the mean of its pieces in the last layer, as transformers gives them."""
    read = reference_tokenizer(tiny.folder)(text, return_offsets_mapping=True)
    states = reference_states(tiny.folder, read["input_ids"], [0] * len(read["input_ids"]))[-1]
    found: dict[str, list[Floats]] = {}
    words = split_words(text)
    chosen = [range(*match.span()) for match in re.finditer(r"(?i)\bbank\b|\bwat\w*|\bdon't\b|\b은행\w*", text)]
    for start, end in zip(words.start.tolist(), words.end.tolist(), strict=True):
        if any(start in span for span in chosen):
            rows = [at for at, (s, e) in enumerate(read["offset_mapping"]) if s < end and e > start and s < e]
            found.setdefault(text[start:end], []).append(states[rows].mean(0))
    return found


def test_vectors_are_those_of_transformers(packed_tiny: Tiny) -> None:
    chosen = extractor(packed_tiny, subword="mean", only=ONLY)
    for text, document in zip(TEXTS, chosen.features(TEXTS), strict=True):
        assert document.words is not None
        wanted = by_hand(packed_tiny, text)
        assert document.words.strings is not None
        assert sorted(document.words.strings) == sorted(word for word, vectors in wanted.items() for _ in vectors)
        for word, vector in zip(document.words.strings, document.matrix("last_word"), strict=True):
            np.testing.assert_allclose(vector, wanted[word].pop(0), atol=3e-5)


@pytest.mark.parametrize("settings", [{"max_length": 16}, {"context": "left:3"}, {"pooling": "word,mean,token"}, {}])
def test_they_are_those_of_all_words(bert: Tiny, settings: dict[str, Any]) -> None:
    """In texts of several windows, and beside other features, too."""
    texts = [*TEXTS, " ".join(SENTENCES), " ".join([*SENTENCES, "the water"] * 3)]
    every, chosen = extractor(bert, **settings), extractor(bert, **settings, only=["bank", "wat*"])
    seen = 0
    for all_words, some in zip(every.features(texts), chosen.features(texts), strict=True):
        assert all_words.words is not None
        assert some.words is not None
        kept = [
            at
            for at, word in enumerate(all_words.words.strings or ())
            if word.lower() == "bank" or word.lower().startswith("wat")
        ]
        assert some.words.start.tolist() == all_words.words.start[kept].tolist()
        np.testing.assert_allclose(some.matrix("last_word"), all_words.matrix("last_word")[kept], atol=3e-5)
        seen += len(kept)
        for column in every.columns[1:]:
            np.testing.assert_allclose(some.stored[column.name], all_words.stored[column.name], atol=3e-5)
    assert seen > 5


def test_windows_without_them_are_not_computed(bert: Tiny) -> None:
    texts = ["The bank.", *["He went out."] * 50, "a " * 300 + "bank " + "a " * 300]
    rows = list(memory_corpus(texts).rows())

    def computed(**settings: Any) -> int:
        made = extractor(bert, max_length=32, **settings)
        told, tokenized = [0], made.tokenize_rows(rows)
        made.compute_rows(tokenized, on_batch=lambda tokens, _: told.append(tokens))
        assert sum(told) == tokenized.token_count
        return sum(told)

    assert computed(only="bank") < 100 < computed() // 5
    assert computed(only="nowhere") == 0
    assert computed(only="bank", pooling="word,mean") == computed()
    assert 0 < computed(only="bank", context="left:4") <= 12


def test_a_run_resumes_verifies_and_records_them(bert: Tiny, tmp_path: Path) -> None:
    corpus, folder = text_file(tmp_path / "a.txt", [*TEXTS, *SENTENCES] * 3), tmp_path / "a.features"
    made = extractor(bert, only=ONLY)

    def interrupt(progress: Progress) -> None:
        if progress.documents >= 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        made.extract(corpus, folder, part_rows=4, progress=interrupt)
    again = extractor(bert, only="don't,은행*,BANK,bank,wat*")  # the same words
    assert again.extract(corpus, folder, part_rows=4).kept_parts > 0
    made.extract(corpus, tmp_path / "b.features", part_rows=4)
    assert contents(folder) == contents(tmp_path / "b.features")
    features = FeatureSet(folder)
    assert features.header.settings.only == ("bank", "don't", "wat*", "은행*")
    assert {word.lower() for document in features for word in document.words.strings or ()} == set(CHOSEN)  # type: ignore[union-attr]
    assert verify_features(folder).holds
    for other in (extractor(bert, only="bank"), extractor(bert)):
        with pytest.raises(SettingsDifferError, match="only"):
            other.extract(corpus, folder, part_rows=4)
    assert Extractor(**asdict(made.settings)).token_settings == made.token_settings


def test_words_and_tags_of_the_corpus(bert: Tiny, tmp_path: Path) -> None:
    """The corpus's own words are chosen, as they are, and their tags with them."""
    rows = [["The", "bank-note", "and", "bank"], ["don't", "go"], ["a", "b"], ["Bank", "wat"]]
    conll = tmp_path / "a.conll"
    conll.write_text("\n".join("".join(f"{word} T{len(word)}\n" for word in row) for row in rows))
    records = jsonl_file(tmp_path / "a.jsonl", [{"text": row} for row in rows])
    wanted = [["bank"], ["don't"], [], ["Bank", "wat"]]
    for corpus, reading in ((conll, CorpusSettings()), (records, CorpusSettings(pretokenized=True))):
        folder = tmp_path / f"{corpus.name}.features"
        extractor(bert, only=ONLY).extract(corpus, folder, corpus_settings=reading)
        features = FeatureSet(folder)
        assert [list(document.words.strings or ()) for document in features] == wanted  # type: ignore[union-attr]
        assert verify_features(folder).holds
        if corpus is conll:
            tags = [[f"T{len(word)}" for word in row] for row in wanted]
            assert [list(document.tags or ()) for document in features] == tags


@pytest.mark.slow
def test_readers_of_all_words_refuse_them(bert: Tiny, tmp_path: Path) -> None:
    conll = tmp_path / "a.conll"
    conll.write_text("He O\nwent B-X\nbank O\n\n" * 6)
    folder = tmp_path / "a.features"
    extractor(bert, only="went,bank", pooling="word,mean").extract(conll, folder)
    for options in ({}, {"fine_tune": GridPoint(8, 3e-5, 1)}):
        with pytest.raises(BertfeatError, match=r"some words only \(bank, went\), and a tagger"):
            train_head("tag", folder, folder, tmp_path / "tagger", **options)  # type: ignore[arg-type]
    whole = tmp_path / "whole.features"
    extractor(bert).extract(conll, whole)
    for options in ({}, {"fine_tune": GridPoint(8, 3e-5, 1)}):
        head = train_head("tag", whole, whole, tmp_path / f"tagger-{len(options)}", **options).folder  # type: ignore[arg-type]
        with pytest.raises(BertfeatError, match=r"some words only \(bank, went\), and a tagger"):
            Tagger(head).predict(folder)
    index = tmp_path / "a.index"
    build_index(folder, index, "last_mean")
    with pytest.raises(NotDerivableError, match="some words only, and maxsim compares all"):
        Index(index, model=bert.folder).search("bank", rerank=MaxSim())
    report = probe_layers(folder, "tags")
    assert (report.examples, report.unaligned) == (12, 0)


def test_usages_are_those_of_a_set_of_all_words(bert: Tiny, tmp_path: Path) -> None:
    records = [{"text": text, "year": year} for year, text in enumerate([*TEXTS, *SENTENCES] * 2)]
    corpus, folders = jsonl_file(tmp_path / "a.jsonl", records), (tmp_path / "some", tmp_path / "all")
    reading = CorpusSettings(keep=("year",))
    for folder, only in zip(folders, (ONLY, None), strict=True):
        extractor(bert, only=only).extract(corpus, folder, corpus_settings=reading)
    some, every = map(FeatureSet, folders)
    like = "He went to the bank."
    for word, given in (
        ("bank", {}),
        ("BANK", {"like": like}),
        ("wat*", {}),
        ("water", {"like": "The water ran."}),
        ("Don't", {}),
        ("은행에서", {}),
        ("은행*", {}),
        ("bank", {"like": "the *river* is wide"}),
    ):
        found, wanted = (find_usages(features, word, k=100, **given) for features in (some, every))  # type: ignore[arg-type]
        assert (found.found, len(found.usages)) == (wanted.found, len(wanted.usages)) != (0, 0)
        for one, other in zip(found.usages, wanted.usages, strict=True):
            assert (one.row, one.start, one.end) == (other.row, other.start, other.end)
            assert one.score == pytest.approx(other.score, abs=1e-5)
    assert find_senses(some, "bank", 2).found == find_senses(every, "bank", 2).found
    assert measure_change(some, ["bank"], "year", CHANGE).words[0].counts == (
        measure_change(every, ["bank"], "year", CHANGE).words[0].counts
    )
    nearest = find_usages(some, "*", like="He went to the *bank*.", k=100)
    assert {usage.word.lower() for usage in nearest.usages} <= set(CHOSEN)
    refused = (
        "is not among the words that the set keeps: bank, don't, wat\\*, 은행\\*; extract the corpus again with only="
    )
    for word in ("river", "wa*", "bank water's", "은*"):
        for search in (find_usages, lambda features, word: find_senses(features, word, 2)):
            with pytest.raises(UsageError, match=refused):
                search(some, word)
        with pytest.raises(UsageError, match=refused):
            measure_change(some, ["bank", word], "year", CHANGE)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"only": "bank", "pooling": "mean"},
            "chooses the words that get vectors, and words get none; add pooling='word'",
        ),
        ({"only": []}, "a list without words chooses nothing"),
        ({"only": ""}, "word 1 of the list is empty"),
        ({"only": "a,,b"}, "word 2 of the list is empty"),
        ({"only": ["a", "*"]}, "an asterisk alone chooses every word"),
        ({"only": ["a", "\ud800"]}, "word 2 of the list holds bytes that are no UTF-8 text"),
        ({"only": 3}, "must be"),
        ({"only": ["a", 3]}, "must be"),
    ],
)
def test_lists_that_choose_nothing(bert: Tiny, settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem.replace("*", "\\*")):
        extractor(bert, **settings)
