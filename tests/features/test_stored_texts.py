"""StoredTexts: found by enumeration too, whatever the order, duplicates, and the size of its buckets."""

import random
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertfeat.core.corpus import Document, memory_corpus, text_digest
from bertfeat.core.features import StoredTexts, list_parts
from bertfeat.errors import FeatureSetError
from tests.support.features_toy import toy_set
from tests.support.runs import extractor, text_file
from tests.support.tiny_models import Tiny


@pytest.mark.parametrize("bucket", [1, 3, 1 << 16])
def test_texts_are_found_as_by_enumeration(
    bert: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bucket: int
) -> None:
    monkeypatch.setattr("bertfeat.core.features.stored_texts._BUCKET", bucket)
    draw = random.Random(bucket)
    texts = [f"text {draw.randrange(25)}" for _ in range(40)]
    extractor(bert).extract(memory_corpus(texts), tmp_path / "set", part_rows=7)
    monkeypatch.setattr("bertfeat.core.features.stored_texts._AT_ONCE", 11)
    stored = StoredTexts.of_parts(list_parts(tmp_path / "set"))
    assert len(stored) == len(texts)
    asked = [f"text {number}" for number in range(-5, 30)]
    numbers = stored.find([text_digest(Document(0, "", text)) for text in asked])
    for text, number in zip(asked, numbers.tolist(), strict=True):
        rows = [row for row, one in enumerate(texts) if one == text]
        assert (number >= 0) == bool(rows)
        if rows:
            assert stored.rows[stored.equals(number)].tolist() == rows
            assert stored.owners[stored.equals(number)].tolist() == [row // 7 for row in rows]
    met = np.zeros(len(stored), np.bool_)
    met[numbers[(numbers >= 0) & (np.arange(len(numbers)) % 2 == 0)]] = True
    known = set(asked[::2])
    assert stored.count_unmet(met) == sum(text not in known for text in texts)


def test_a_part_of_no_texts(tmp_path: Path, bert: Tiny) -> None:
    extractor(bert).extract(text_file(tmp_path / "c.txt", ["", "", "bank"]), tmp_path / "empty", part_rows=2)
    stored = StoredTexts.of_parts(list_parts(tmp_path / "empty")[:1])
    assert len(stored) == 0
    assert stored.find([text_digest(Document(0, "", "a"))]).tolist() == [-1]


def test_without_digests_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(FeatureSetError, match="no digests"):
        StoredTexts.of_parts(list_parts(toy_set(tmp_path)))


FIELDS: list[dict[str, Any]] = [
    {"text": "other"},
    {"pair": "p"},
    {"pair": ""},
    {"words": ("bank",)},
    {"words": ("bank",), "tags": ("O",)},
    {"before": "x"},
    {"after": "x"},
    {"text": "1:ba"},
]


def test_a_digest_covers_what_features_are_made_of() -> None:
    digests = [text_digest(Document(0, "1", **{"text": "bank", **fields})) for fields in [{}, *FIELDS]]
    assert len(set(digests)) == len(digests)
    assert digests[0] == blake2b(b"4:bank", digest_size=16).digest()
    assert all(len(digest) == 16 for digest in digests)
    assert text_digest(Document(7, "another", "bank", kept=(1, "x"))) == digests[0]
    document = Document(0, "1", "bank")
    assert [text_digest(document), text_digest(document)] == digests[:1] * 2
    assert [text_digest(replace(document, **fields)) for fields in FIELDS] == digests[1:]
    assert document == Document(0, "1", "bank")
    assert "digest" not in repr(document)
