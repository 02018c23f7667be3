"""The scikit-learn transformer: scikit-learn's own checks, pipelines and searches, and Hugging Face's numbers."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline, make_union
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import estimator_checks_generator

from bertfeat.adapters.scikit_learn import FeatureTransformer
from bertfeat.errors import UsageError
from tests.support.runs import extractor
from tests.support.tiny_models import TEXTS, Tiny, text_states


def transformer(bert: Tiny, **settings: Any) -> FeatureTransformer:
    return FeatureTransformer(bert.folder, **{"precision": "fp32", "device": "cpu", "pooling": "mean"} | settings)


@pytest.mark.filterwarnings("ignore:Can't test estimator:sklearn.exceptions.SkipTestWarning")
def test_what_scikit_learn_checks_of_a_transformer_of_texts(bert: Tiny) -> None:
    for estimator, check in estimator_checks_generator(transformer(bert)):
        check(estimator)


@pytest.mark.parametrize(
    "name",
    [
        "check_do_not_raise_errors_in_init_or_set_params",
        "check_estimator_cloneable",
        "check_estimator_repr",
        "check_estimator_tags_renamed",
        "check_estimators_unfitted",
        "check_get_params_invariance",
        "check_mixin_order",
        "check_no_attributes_set_in_init",
        "check_parameters_default_constructible",
        "check_set_params",
        "check_transformer_n_iter",
        "check_valid_tag_types",
    ],
)
def test_all_its_checks_that_give_no_numbers(bert: Tiny, name: str) -> None:
    getattr(estimator_checks, name)("FeatureTransformer", transformer(bert))


@pytest.mark.parametrize("name", ["check_estimators_pickle", "check_dont_overwrite_attributes"])
def test_more_of_its_checks_given_texts(bert: Tiny, name: str) -> None:
    """Checks that scikit-learn itself would run with numbers, done by hand with texts."""
    made = transformer(bert)
    texts = list(TEXTS)
    if name == "check_estimators_pickle":
        before = made.fit(texts).transform(texts)
        held = pickle.dumps(made)
        assert len(held) < 2000  # settings only
        assert np.array_equal(pickle.loads(held).transform(texts), before)
    else:
        public = set(vars(made))
        made.fit(texts)
        made.transform(texts)
        assert {key for key in vars(made) if not key.startswith("_")} == public


def test_vectors_are_hugging_faces(bert: Tiny) -> None:
    found = transformer(bert, layers="last,1", pooling="mean,cls").fit_transform(list(TEXTS))
    assert found.dtype == np.float32
    for text, vector in zip(TEXTS, found, strict=True):
        states = text_states(bert.folder, text)
        parts = [states[5].mean(0), states[5][0], states[1].mean(0), states[1][0]]
        names = ["last_mean", "last_cls", "layer1_mean", "layer1_cls"]
        expected = dict(zip(names, parts, strict=True))
        order = [column.name for column in extractor(bert, layers="last,1", pooling="mean,cls").columns]
        assert np.allclose(vector, np.concatenate([expected[name] for name in order]), atol=3e-5)


def test_feature_names(bert: Tiny) -> None:
    made = transformer(bert, layers="last,1").fit(["a"])
    names = made.get_feature_names_out()
    assert names.dtype == object
    assert (len(names), names[0], names[-1]) == (64, "last_mean_0", "layer1_mean_31")
    made.set_output(transform="pandas")
    frame = made.transform(["a", "b"])
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == list(names)


def test_in_a_pipeline_searched_and_united(bert: Tiny) -> None:
    texts = [f"the bank of the river {at}" for at in range(9)] + [f"money in the bank {at}" for at in range(9)]
    kinds = [0] * 9 + [1] * 9
    pipeline = make_pipeline(transformer(bert), LogisticRegression(max_iter=500))
    search = GridSearchCV(pipeline, {"featuretransformer__layers": ["last", "concat4", "embeddings"]}, cv=3)
    search.fit(texts, kinds)
    assert search.best_score_ > 0.9
    assert search.predict(["the river bank", "bank money"]).shape == (2,)
    united = make_union(transformer(bert), transformer(bert, pooling="max")).fit_transform(texts)
    assert united.shape == (18, 64)


def test_settings_that_change_count_at_once(bert: Tiny) -> None:
    made = transformer(bert)
    before = made.transform(["a bank"])
    assert made.set_params(layers="concat4").transform(["a bank"]).shape == (1, 4 * before.shape[1])
    assert np.array_equal(clone(made).set_params(layers="last").transform(["a bank"]), before)


@pytest.mark.parametrize(
    "give",
    [
        pytest.param(tuple, id="tuple"),
        pytest.param(np.array, id="array"),
        pytest.param(lambda texts: np.array(texts, dtype=object), id="objects"),
        pytest.param(pd.Series, id="series"),
        pytest.param(iter, id="iterator"),
    ],
)
def test_texts_in_any_container(bert: Tiny, give: Any) -> None:
    texts = ["a bank", "", "은행"]
    made = transformer(bert)
    assert np.array_equal(made.transform(give(texts)), made.transform(texts))


def test_normalized(bert: Tiny) -> None:
    found = transformer(bert, layers="last,1", normalize=True).transform(["a bank", "river"])
    assert np.allclose(np.linalg.norm(found, axis=1), 1.0, atol=1e-6)


def test_no_texts(bert: Tiny) -> None:
    assert transformer(bert, layers="last,1").transform([]).shape == (0, 64)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("a text", "not one string"),
        (3, "one int"),
        (b"a", "decode"),
        ({"text": ["a"]}, "a mapping .* keys"),
        ({"a", "b"}, "no order"),
        ([1, 2], "item 1 is of type int"),
        (["a", None], "item 2 is missing"),
        ([("a", "b")], "text 1 is of type tuple"),
        ([{"text": "a"}], "text 1 is of type dict"),
        (np.array([["a", "b"]]), r"shape \(1, 2\)"),
        (pd.DataFrame({"text": ["a"]}), r"shape \(1, 1\)"),
    ],
)
def test_other_things_than_texts_are_refused(bert: Tiny, given: Any, told: str) -> None:
    with pytest.raises(TypeError, match=told):
        transformer(bert).fit(given)
    with pytest.raises(TypeError, match=told):
        transformer(bert).transform(given)


def test_token_features_are_refused(bert: Tiny) -> None:
    with pytest.raises(UsageError, match="last_token"):
        transformer(bert, pooling="token").fit(["a"])


def test_a_text_that_cannot_be_embedded(bert: Tiny) -> None:
    with pytest.raises(UsageError, match="1 texts cannot be embedded"):
        transformer(bert, long="error", max_length=8).transform(["a", "bank " * 20])
