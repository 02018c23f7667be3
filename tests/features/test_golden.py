"""Feature sets of every format version are read."""

import json
from pathlib import Path

import numpy as np
import pytest

from bertfeat.core.features import FORMAT_VERSION, FeatureSet

GOLDEN = Path(__file__).parents[1] / "golden"


def test_every_version_has_its_golden_set() -> None:
    found = sorted(path.name for path in GOLDEN.iterdir() if path.name.startswith("v"))
    assert found == [f"v{version}" for version in range(1, FORMAT_VERSION + 1)]


@pytest.mark.parametrize("version", range(1, FORMAT_VERSION + 1))
def test_a_golden_set_reads_as_when_it_was_written(version: int) -> None:
    folder = GOLDEN / f"v{version}"
    features = FeatureSet(folder / "features")
    assert [header.format_version for header in features.check()] == [version] * 3
    assert [(failure.row, failure.reason) for failure in features.failures()] == [(4, "the field 'text' is null")]
    assert (features.header.model.name, features.header.settings.layers) == ("toy/model", ("concat4,last",))
    documents = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    assert len(features) == len(documents)
    for found, expected in zip(features, documents, strict=True):
        assert [found.row, found.id, found.text, found.pair] == [expected[key] for key in ("row", "id", "text", "pair")]
        assert list(found.values.values()) == expected["kept"]
        assert found.tokens is not None
        assert found.words is not None
        assert list(found.tokens.strings or ()) == expected["tokens"]
        assert list(found.words.strings or ()) == expected["words"]
        spans = np.stack([found.words.start, found.words.end], axis=1).tolist()
        assert spans == expected["spans"]
        assert found.tags == ["O"] * len(expected["words"])
        width = features.header.model.hidden_size
        for name in ("last_word", "sum4_token"):
            wanted = np.array(expected[name], np.float32).reshape(-1, width)
            np.testing.assert_allclose(found.matrix(name), wanted, atol=1e-6)
        np.testing.assert_allclose(found.vector("concat4_mean"), expected["concat4_mean"], atol=1e-6)
