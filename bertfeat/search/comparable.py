"""Which vectors can be compared: those of one model, recipe and pooling, that were made of texts in the same way.

What counts is the meaning of a vector: which text, in which context, it stands for. ``prompt``, ``special_tokens``,
``subword`` and ``document_context`` decide that, and so do ``long`` and ``max_length``, which say how much of a long
text it stands for and how far its tokens see. ``precision``, ``dtype`` and the kernels' version change its last digits
only (docs/numerics.md); ``keep``, ``text``, ``batch_tokens`` and ``part_rows`` do not touch it.
"""

from collections.abc import Mapping
from typing import Any

from bertfeat.features import FoundColumn, PartHeader
from bertfeat.recipe import FeatureColumn, Pooling

_ALWAYS = ("prompt", "document_context", "long", "max_length")
_UNDER = {
    Pooling.MEAN: ("special_tokens",),
    Pooling.MAX: ("special_tokens",),
    Pooling.TOKEN: ("special_tokens",),
    Pooling.WORD: ("subword",),
    Pooling.CLS: (),
}

Column = FoundColumn | FeatureColumn


def incomparable(
    model: str, settings: Mapping[str, Any], column: Column, header: PartHeader, other: Column
) -> str | None:
    """Why vectors of a model (its fingerprint), settings and column cannot be compared with those of another set.

    None if they can.
    """
    theirs = header.model.fingerprint
    if model != theirs:
        return f"they come from different models (fingerprints {model[:12]} and {theirs[:12]})"
    if (column.recipe, column.pooling) != (other.recipe, other.pooling):
        return f"{column.name} and {other.name} are different things"
    if column.width != other.width:
        return f"vectors of {column.width} and of {other.width} values"
    shared = [name for name in (*_ALWAYS, *_UNDER[column.pooling]) if name in settings and name in header.settings]
    pairs = [(name, settings[name], header.settings[name]) for name in shared]
    differ = [
        f"{name} {_setting_text(ours)} and {_setting_text(others)}" for name, ours, others in pairs if ours != others
    ]
    if differ:
        return f"they were extracted with {', '.join(differ)}; extract one of them again like the other"
    return None


def _setting_text(value: Any) -> str:
    return {None: "none", True: "on", False: "off"}[value] if value is None or isinstance(value, bool) else repr(value)
