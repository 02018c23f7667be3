"""Tags of words: schemes and scores, and the models that learn them from stored features.

What a name needs is imported when the name is first asked for, so that schemes and scores need no torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bertfeat.tagging.schemes import Scheme, Span, detect_scheme, read_spans, to_bio, to_iobes
    from bertfeat.tagging.scores import LabelScores, Scores, score

_HOMES = {
    "LabelScores": "bertfeat.tagging.scores",
    "Scheme": "bertfeat.tagging.schemes",
    "Scores": "bertfeat.tagging.scores",
    "Span": "bertfeat.tagging.schemes",
    "detect_scheme": "bertfeat.tagging.schemes",
    "read_spans": "bertfeat.tagging.schemes",
    "score": "bertfeat.tagging.scores",
    "to_bio": "bertfeat.tagging.schemes",
    "to_iobes": "bertfeat.tagging.schemes",
}

__all__ = [
    "LabelScores",
    "Scheme",
    "Scores",
    "Span",
    "detect_scheme",
    "read_spans",
    "score",
    "to_bio",
    "to_iobes",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bertfeat.tagging' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
