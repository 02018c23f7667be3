"""What a choice of layers is held against: Hugging Face's hidden states, and scikit-learn's readers of them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tests.support.tiny_models import Tiny, text_states

TELLING = 2  # the layer that tells the label
WORDS = "river bank money water house tree stone bird".split()  # noqa: SIM905


def means(tiny: Tiny, text: str) -> NDArray[np.float32]:
    """Hugging Face's mean vector of each layer: ``[L+1, H]``."""
    vectors: NDArray[np.float32] = text_states(tiny.folder, text).mean(axis=1)
    return vectors


def label_texts(tiny: Tiny, texts: Sequence[str]) -> list[dict[str, str]]:
    """Texts with a label that follows from the first value of one layer's mean."""
    values = [float(means(tiny, text)[TELLING, 0]) for text in texts]
    return [
        {"text": text, "label": "high" if value > np.median(values) else "low"}
        for text, value in zip(texts, values, strict=True)
    ]


def macro_f1(vectors: NDArray[np.floating], labels: Sequence[str]) -> float:
    """The macro F1 of a ridge classifier in three folds."""
    reader = make_pipeline(StandardScaler(), RidgeClassifier(alpha=0.02 * len(labels) * 2 / 3))
    predicted = cross_val_predict(reader, vectors, labels, cv=StratifiedKFold(3, shuffle=True, random_state=1))
    return float(f1_score(labels, predicted, average="macro"))
