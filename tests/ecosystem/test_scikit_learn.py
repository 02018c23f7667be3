"""scikit-learn: a search over layers with FeatureTransformer scores what SentenceTransformer's vectors score."""

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from bertfeat.adapters.scikit_learn import FeatureTransformer


@pytest.mark.hostile
def test_a_pipeline_searched(theirs: Any, texts: list[str]) -> None:
    labels = [row // 60 for row in range(len(texts))]
    features = FeatureTransformer(precision="fp32", device="cpu", max_length=256, long="truncate", normalize=True)
    pipeline = make_pipeline(features, LogisticRegression(max_iter=500))
    search = GridSearchCV(pipeline, {"featuretransformer__layers": ["last", "3"]}, cv=3).fit(texts, labels)
    wanted = cross_val_score(LogisticRegression(max_iter=500), theirs.encode(texts), labels, cv=3)
    found = [search.cv_results_[f"split{fold}_test_score"][0] for fold in range(3)]
    assert np.allclose(found, wanted)
    assert search.predict(texts[:5]).shape == (5,)
