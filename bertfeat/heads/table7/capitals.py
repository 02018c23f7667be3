"""Whether a model ignores capitals, and how many words of a corpus have one."""

import logging
from itertools import islice
from pathlib import Path

import numpy as np

from bertfeat.features import FeatureSet
from bertfeat.models import Model, find_model
from bertfeat.tokens import Tokenizer

_SAMPLE = 2000  # sentences
_MANY_CAPITALS = 0.01  # share of the words, above which a model that lower-cases them is warned of

_log = logging.getLogger("bertfeat")


def warn_of_lower_case(name: str | Path | None, revision: str | None, features: FeatureSet) -> None:
    """Warn where a model lower-cases words whose capitals may mark names."""
    model = find_model(name, revision=revision)
    if lower_cases(model) and (share := share_of_capitals(features)) > _MANY_CAPITALS:
        _log.warning(
            "%s lower-cases its input, and %.0f%% of the words here have capitals, which mark names; the paper's is a "
            "cased model: google-bert/bert-base-cased",
            model.name,
            100 * share,
        )


def lower_cases(model: Model) -> bool:
    """Whether a model's tokenizer makes no difference between capitals and small letters."""
    tokenizer = Tokenizer(model)
    pair = tokenizer.pieces(["Paris", "paris"], offsets=False)
    return bool(np.array_equal(pair[0].ids, pair[1].ids))


def share_of_capitals(features: FeatureSet) -> float:
    """The share of words with a capital letter among the first sentences; 0 where no words are stored."""
    if "words" not in features.names:
        return 0.0
    sentences = (words for batch in features.stream(["words"]) for words in batch.column("words").to_pylist())
    words = [word for sentence in islice(sentences, _SAMPLE) for word in sentence]
    return sum(1 for word in words if word != word.lower()) / max(1, len(words))
