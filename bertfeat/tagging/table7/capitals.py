"""Whether a model ignores capitals, and how many words of a corpus have one."""

from itertools import islice

import numpy as np

from bertfeat.features import FeatureSet
from bertfeat.models import Model
from bertfeat.tokens import Tokenizer

_SAMPLE = 2000  # sentences


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
