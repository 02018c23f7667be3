"""SetFit: a frozen body and a logistic regression, which is what an Extractor can be in it."""

# mypy: disable-error-code="import-not-found, misc, no-any-return"

from typing import Any

import numpy as np
import pytest

from bertfeat import Extractor

pytest.importorskip("setfit", reason="make ecosystem installs it")
from setfit import SetFitHead, SetFitModel, Trainer, TrainingArguments
from sklearn.linear_model import LogisticRegression


def test_a_frozen_body(ours: Extractor, theirs: Any, texts: list[str]) -> None:
    labels = [row // 60 for row in range(len(texts))]  # the corpus goes from topic to topic
    found, wanted = (
        SetFitModel(model_body=body, model_head=LogisticRegression(max_iter=500), normalize_embeddings=True)
        for body in (ours, theirs)
    )
    for model in (found, wanted):
        model.fit(texts[::2], labels[::2], num_epochs=1)
    rest = texts[1::2]
    assert np.array_equal(found.predict(rest), wanted.predict(rest))
    assert np.allclose(found.predict_proba(rest), wanted.predict_proba(rest), atol=1e-4)
    assert (np.asarray(found.predict(rest)) == labels[1::2]).mean() > 0.5


def test_what_would_train_the_body_is_refused(ours: Extractor, tmp_path: Any) -> None:
    from datasets import Dataset

    rows = Dataset.from_dict({"text": ["a", "b", "c", "d"], "label": [0, 1, 0, 1]})
    settings = TrainingArguments(num_epochs=1, report_to="none", output_dir=str(tmp_path))
    model = SetFitModel(model_body=ours, model_head=LogisticRegression())
    with pytest.raises(AttributeError, match="frozen"):
        Trainer(model=model, args=settings, train_dataset=rows).train()
    head = SetFitHead(in_features=ours.get_embedding_dimension(), out_features=2)
    with pytest.raises(AttributeError, match="frozen"):
        SetFitModel(model_body=ours, model_head=head).fit(["a", "b"], [0, 1], num_epochs=1)
