"""Left context: each word as transformers sees it at the end of the words before it."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bertfeat.core.corpus import CorpusSettings
from bertfeat.core.extraction import Extractor, Progress, verify_features
from bertfeat.core.features import FeatureSet, FeatureSettings
from bertfeat.core.words import split_words
from bertfeat.errors import SettingsDifferError, UsageError
from tests.support.runs import accounted, jsonl_file, lines, text_file
from tests.support.tiny_models import POSITIONS, SENTENCES, TEXTS, Tiny, reference_states, reference_tokenizer

Floats = NDArray[np.float32]


def by_hand(tiny: Tiny, text: str, left: int, room: int = 10**6) -> dict[str, list[Floats]]:
    """The last layer of each word that has pieces: of its first and last piece, and their mean."""
    tokenizer = reference_tokenizer(tiny.folder)
    plain = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    before, after = (tokenizer("a")["input_ids"][0], tokenizer("a")["input_ids"][-1])
    words = split_words(text)
    pieces = [
        [at for at, (s, e) in enumerate(plain["offset_mapping"]) if s < end and e > start]
        for start, end in zip(words.start.tolist(), words.end.tolist(), strict=True)
    ]
    found: dict[str, list[Floats]] = {"first": [], "mean": [], "last": []}
    for number, own in enumerate(pieces):
        if not own:
            continue
        context = pieces[max(0, number - left)]
        begin = max(min(context or own) if number > left else 0, own[-1] + 1 - room)
        ids = [before, *plain["input_ids"][begin : own[-1] + 1], after]
        states = reference_states(tiny.folder, ids, [0] * len(ids))[-1]
        rows = states[[at - begin + 1 for at in own]]
        for name, vector in (("first", rows[0]), ("mean", rows.mean(0)), ("last", rows[-1])):
            found[name].append(vector)
    return found


@pytest.mark.sampled(2)
@pytest.mark.parametrize("left", [0, 1, 3, 100])
def test_each_word_is_read_after_those_before_it(bert: Tiny, left: int) -> None:
    texts = [TEXTS[0], *TEXTS[2:], " ".join(SENTENCES)]
    wanted = [by_hand(bert, text, left, room=POSITIONS - 2) for text in texts]
    for subword in ("first", "mean", "last"):
        extractor = Extractor(
            bert.folder, pooling="word", precision="fp32", dtype="float32", subword=subword, context=f"left:{left}"
        )
        for vectors, found in zip(wanted, extractor.features(texts), strict=True):
            assert found.words is not None
            aligned = found.matrix("last_word")[found.words.aligned]
            np.testing.assert_allclose(aligned, np.stack(vectors[subword]), atol=3e-5)


def test_what_stands_after_a_word_changes_nothing(packed_tiny: Tiny) -> None:
    extractor = Extractor(packed_tiny.folder, pooling="word", precision="fp32", dtype="float32", context="left:4")
    short, long = extractor.features(["He went to the bank", "He went to the bank to ask for money again"])
    np.testing.assert_allclose(short.matrix("last_word"), long.matrix("last_word")[:5], atol=3e-5)


def test_contexts_that_do_not_fit(bert: Tiny) -> None:
    text = " ".join(SENTENCES)

    def extractor(max_length: int, long: str) -> Extractor:
        given = {"precision": "fp32", "dtype": "float32", "context": "left:9", "long": long}
        return Extractor(bert.folder, pooling="word", max_length=max_length, **given)  # type: ignore[arg-type]

    (found,) = extractor(12, "window").features([text])
    assert found.words is not None
    wanted = by_hand(bert, text, 9, room=10)["first"]
    inside = np.flatnonzero([len(pieces) <= 10 for pieces in words_in_pieces(bert, text)])
    found_rows = found.matrix("last_word")[found.words.aligned]
    np.testing.assert_allclose(found_rows[inside], np.stack(wanted)[inside], atol=3e-5)
    with pytest.raises(UsageError, match=r"it has \d+ tokens and the model reads 12"):
        extractor(12, "error").features([text])
    (whole,) = extractor(POSITIONS, "error").features([text])
    assert whole.words is not None  # the text is longer than that, and no word with its context is


def words_in_pieces(tiny: Tiny, text: str) -> list[list[int]]:
    offsets = reference_tokenizer(tiny.folder)(text, add_special_tokens=False, return_offsets_mapping=True)
    words = split_words(text)
    found = [
        [at for at, (s, e) in enumerate(offsets["offset_mapping"]) if s < end and e > start]
        for start, end in zip(words.start.tolist(), words.end.tolist(), strict=True)
    ]
    return [pieces for pieces in found if pieces]


def test_a_run_records_it_and_refuses_another(bert: Tiny, tmp_path: Path) -> None:
    corpus, folder = text_file(tmp_path / "a.txt", lines(12)), tmp_path / "a.features"
    Extractor(bert.folder, pooling="word,mean", precision="fp32", context="left:2").extract(corpus, folder)
    features = FeatureSet(folder)
    assert features.header.settings.context == "left:2"
    assert verify_features(folder).holds
    with pytest.raises(SettingsDifferError, match="context"):
        Extractor(bert.folder, pooling="word,mean", precision="fp32").extract(corpus, folder)
    header = features.header
    again = Extractor.from_record(header.model, header.settings, header.columns, name=bert.folder)
    assert again.token_settings.left_words == 2
    assert Extractor(**asdict(again.settings)).token_settings == again.token_settings


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("left", "max_length"), [(1, 8), (3, POSITIONS), (999_999, POSITIONS)])
def test_pretokenized_rows_between_failed_ones_in_parts_of_one_row(
    bert: Tiny, tmp_path: Path, left: int, max_length: int
) -> None:
    """Rows are documents: no context reaches over their boundary, a failed row, a blank line or a part."""
    odd = ["bank", "\u200b", "naïve", "x" * 30, "don't", "\u00ad", "New York", "은행에서", ".", " ", "the"]
    rows: list[Any] = [odd[at % 7 :] + odd[: at % 5] for at in range(6)]
    records: list[Any] = [{"id": str(at), "words": row} for at, row in enumerate(rows)]
    corpus = jsonl_file(
        tmp_path / "a.jsonl", [*records[:2], "{broken", records[2], "", {"id": "no", "words": "list"}, *records[3:]]
    )
    extractor = Extractor(
        bert.folder,
        pooling="word",
        precision="fp32",
        dtype="float32",
        context=f"left:{left}",
        max_length=max_length,
    )
    reading = CorpusSettings(text_columns=("words",), pretokenized=True, id_column="id")
    with pytest.raises(KeyboardInterrupt):  # in the middle, and goes on
        extractor.extract(corpus, tmp_path / "o", corpus_settings=reading, part_rows=1, progress=_interrupt)
    report = extractor.extract(corpus, tmp_path / "o", corpus_settings=reading, part_rows=1)
    assert report.kept_parts > 0
    assert accounted(report) == 9
    assert (report.failed, report.blank) == (2, 1)
    for row, found in zip(rows, FeatureSet(tmp_path / "o"), strict=True):
        assert found.words is not None
        wanted = by_hand_of_words(bert, row, left, max_length - 2)
        assert np.flatnonzero(np.asarray(found.words.aligned)).tolist() == sorted(wanted)
        for at, vector in wanted.items():
            if vector is not None:
                np.testing.assert_allclose(found.matrix("last_word")[at], vector, atol=3e-5)


def _interrupt(progress: Progress) -> None:
    if progress.documents >= 3:
        raise KeyboardInterrupt


def by_hand_of_words(tiny: Tiny, words: list[str], left: int, room: int) -> dict[int, Floats | None]:
    """The last layer of the first piece of each word that has pieces; None where these do not fit together."""
    tokenizer = reference_tokenizer(tiny.folder)
    pieces = [tokenizer(word, add_special_tokens=False)["input_ids"] for word in words]
    before, after = tokenizer("a")["input_ids"][0], tokenizer("a")["input_ids"][-1]
    found: dict[int, Floats | None] = {}
    for at, own in enumerate(pieces):
        ids = [piece for word in pieces[max(0, at - left) : at + 1] for piece in word][-room:]
        if len(own) > room:
            found[at] = None
        elif own:
            states = reference_states(tiny.folder, [before, *ids, after], [0] * (len(ids) + 2))[-1]
            found[at] = states[1 + len(ids) - len(own)]
    return found


def test_features_with_other_context_cannot_be_compared() -> None:
    plain, left = FeatureSettings(), FeatureSettings(context="left:2")
    assert [str(each) for each in left.incomparable_with(plain)] == ["context 'left:2' and none"]
    assert not left.incomparable_with(FeatureSettings(context="left:2"))


@pytest.mark.parametrize(
    "context", ["8", "left", "left:", "left:-1", "left:x", "right:2", "left:1234567", "LEFT:2", ""]
)
def test_another_spelling_is_refused(bert: Tiny, context: str) -> None:
    with pytest.raises(UsageError, match="not a number of words before each word; write left:8"):
        Extractor(bert.folder, pooling="word", context=context)


def test_what_it_cannot_stand_beside(bert: Tiny, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="both stand before a word"):
        Extractor(bert.folder, pooling="word", context="left:2", prompt="query: ")
    with pytest.raises(UsageError, match="reads its first word only"):
        Extractor(bert.folder, pooling="word,cls", context="left:2")
    extractor = Extractor(bert.folder, pooling="word", context="left:2")
    with pytest.raises(UsageError, match="it is a pair"):
        extractor.features([("a", "b")])
    corpus = tmp_path / "a.conll"
    corpus.write_text("-DOCSTART- O\n\nHe O\nwent O\n\n")
    with pytest.raises(UsageError, match="both stand before a text"):
        extractor.extract(corpus, tmp_path / "a.features", corpus_settings=_with_neighbors())


def _with_neighbors() -> CorpusSettings:
    return CorpusSettings(document_context=True)
