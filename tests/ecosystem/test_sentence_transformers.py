"""sentence-transformers: its evaluators with the default model, as a published one is evaluated."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bertfeat import Extractor

pytest.importorskip("sentence_transformers", reason="make ecosystem installs it")


@pytest.mark.slow
def test_vectors(ours: Extractor, theirs: Any, texts: list[str]) -> None:
    long = " ".join(texts[:60])
    assert np.abs(ours.encode([*texts, long], normalize_embeddings=True) - theirs.encode([*texts, long])).max() < 1e-6


@pytest.mark.slow
def test_similarity_and_retrieval(ours: Extractor, theirs: Any, texts: list[str]) -> None:
    from sentence_transformers.sentence_transformer import evaluation

    half = len(texts) // 2
    grades = [abs(half - 2 * row) / half for row in range(half)]
    queries = {str(row): texts[row] for row in range(0, len(texts), 20)}
    corpus = {str(row): text for row, text in enumerate(texts) if str(row) not in queries}
    relevant = {query: {str(int(query) + near) for near in (1, 2, 3)} for query in queries}
    quiet: dict[str, Any] = {"write_csv": False, "show_progress_bar": False}
    makers: tuple[Callable[[], Any], ...] = (
        lambda: evaluation.EmbeddingSimilarityEvaluator(texts[:half], texts[half : 2 * half], grades, **quiet),
        lambda: evaluation.InformationRetrievalEvaluator(queries, corpus, relevant, **quiet),
    )
    for make in makers:
        found, wanted = ours.evaluate(make()), theirs.evaluate(make())
        assert found == pytest.approx(wanted, abs=1e-6)
