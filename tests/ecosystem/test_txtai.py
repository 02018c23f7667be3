"""txtai: an index finds with an Extractor what brute force finds with SentenceTransformer's vectors."""

# mypy: disable-error-code="import-not-found, misc, no-any-return"

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertfeat import Extractor
from bertfeat.adapters.txtai import txtai_transform
from bertfeat.errors import UsageError

pytest.importorskip("txtai", reason="make ecosystem installs it")
from txtai import Embeddings


def test_an_index(ours: Extractor, theirs: Any, texts: list[str], tmp_path: Path) -> None:
    transform = txtai_transform(ours)
    index = Embeddings(method="external", transform=transform)
    index.index(texts)
    vectors = theirs.encode(texts)
    questions = ["where does the river flow", "how do bats find their prey"]
    for found, question in zip(index.batchsearch(questions, 6), theirs.encode(questions), strict=True):
        scores = vectors @ question
        best = np.argsort(-scores)[:6]
        assert [row for row, _ in found] == best.tolist()
        assert np.allclose([score for _, score in found], scores[best], atol=1e-5)


def test_encode_itself_says_what_to_do(ours: Extractor) -> None:
    with pytest.raises(UsageError, match="adapters"):
        Embeddings(method="external", transform=ours.encode).index(["a", "b"])
