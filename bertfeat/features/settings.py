"""The settings that decide what a feature set contains: one typed object, from the run to the index and the tagger."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Self

from bertfeat.io import JsonForm, canonical_json, from_plain
from bertfeat.recipe import FeatureColumn, Pooling


@dataclass(frozen=True, slots=True)
class SettingDifference:
    """One setting that has two values."""

    name: str
    ours: object
    theirs: object

    def __str__(self) -> str:
        return f"{self.name} {_show_value(self.ours)} and {_show_value(self.theirs)}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeatureSettings(JsonForm):
    """Everything that decides what an extraction writes: equal settings and input give equal bytes.

    The names are the keys of the JSON form. A file may lack some of them: those have their default here and are not in
    ``recorded``. It may also have keys of a later version: ``unknown`` keeps them.
    """

    model: str = ""  # fingerprint of its files
    layers: tuple[str, ...] = ()  # the feature columns: describe_column(column)
    precision: str = "fp32"  # of the computation: fp32, bf16, fp16 or int8
    dtype: str = "float32"  # of token and word matrices: float16 or float32
    long: str = "window"  # window, truncate or error
    max_length: int | None = None  # tokens of a window
    prompt: str | None = None
    document_context: bool = False
    subword: str | None = None  # first, mean or last; None: no words
    special_tokens: bool = True  # whether [CLS] and [SEP] count in pooling over all tokens and in token features
    keep: tuple[str, ...] = ()  # the corpus's own columns: "year:int64"
    text: bool = True  # whether texts are stored
    batch_tokens: int | None = None
    part_rows: int | None = None
    numerics: int | None = None  # version of the numbers; see NUMERICS_VERSION of bertfeat.extraction
    quantization: int | None = None  # version of the integers of int8; see INT8_VERSION of bertfeat.extraction
    context: str | None = None  # "left:8": each word knows of so many words before it; None: of its whole window
    plan: int | None = None  # version of the plan; None: 1, a corpus read from its beginning; 2: ranges of single files
    recorded: tuple[str, ...] | None = None  # the keys of the JSON form, in its order; None: all that are needed
    unknown: Mapping[str, object] = field(default_factory=dict)

    def encode(self) -> dict[str, object]:
        """The settings as JSON values."""
        values: dict[str, object] = {name: getattr(self, name) for name in SETTING_NAMES}
        values |= {"layers": list(self.layers), "keep": list(self.keep), **self.unknown}
        return {name: values[name] for name in (self._needed_names if self.recorded is None else self.recorded)}

    @classmethod
    def decode(cls, mapping: Mapping[str, object]) -> Self:
        """Read settings of any format version; missing keys get their default, unknown ones are kept.

        Raises:
            JsonError: a value is of another type.
        """
        known = {name: value for name, value in mapping.items() if name in SETTING_NAMES}
        unknown = {name: value for name, value in mapping.items() if name not in known}
        return replace(from_plain(known, cls), recorded=tuple(mapping), unknown=unknown)

    @property
    def _needed_names(self) -> tuple[str, ...]:
        """All names but those of later versions that say nothing: equal settings keep the fingerprint they had."""
        return tuple(name for name in SETTING_NAMES if name not in _LATER or getattr(self, name) is not None)

    @property
    def fingerprint(self) -> str:
        """sha256 of the JSON form with sorted keys."""
        return hashlib.sha256(canonical_json(self)).hexdigest()

    def differences(self, other: Self) -> list[SettingDifference]:
        """All settings that differ; one that a file lacks counts as null."""
        ours, theirs = self.encode(), other.encode()
        names = dict.fromkeys([*theirs, *ours])
        pairs = [SettingDifference(name, ours.get(name), theirs.get(name)) for name in names]
        return [pair for pair in pairs if pair.ours != pair.theirs]

    def incomparable_with(self, other: Self, pooling: Pooling | None = None) -> list[SettingDifference]:
        """The settings for which vectors cannot be compared, or given to one tagger; empty if they can.

        What counts is the meaning of a vector: which text, in which context, it represents. ``prompt``,
        ``special_tokens``, ``subword``, ``document_context`` and ``context`` decide that. So do ``long`` and
        ``max_length``: how much of a long text a vector represents, and how far its tokens attend. ``precision``,
        ``dtype``, ``numerics`` and ``quantization`` change its last digits only (docs/numerics.md); ``keep``, ``text``,
        ``batch_tokens``, ``part_rows`` and ``plan`` do not touch it. Only settings that both files have are compared
        (``context`` always), and with ``pooling`` only those that matter under it.
        """
        ours, theirs = self.encode(), other.encode()
        decisive = (*_ALWAYS, *(_ANY_POOLING if pooling is None else pooling.decided_by))
        names = [name for name in decisive if name in _LATER or (name in ours and name in theirs)]
        pairs = [SettingDifference(name, ours.get(name), theirs.get(name)) for name in names]
        return [pair for pair in pairs if pair.ours != pair.theirs]

    def __eq__(self, other: object) -> bool:
        return self.encode() == other.encode() if isinstance(other, FeatureSettings) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.fingerprint)


SETTING_NAMES = tuple(field.name for field in fields(FeatureSettings) if field.name not in ("recorded", "unknown"))

_LATER = ("context", "plan", "quantization")  # settings that came when there were sets without them
_ALWAYS = ("model", "prompt", "document_context", "context", "long", "max_length")
_ANY_POOLING = tuple(dict.fromkeys(name for pooling in Pooling for name in pooling.decided_by))


def describe_column(column: FeatureColumn) -> str:
    """A feature column as the settings name it: ``concat4_mean=concat:9+10+11+12``."""
    return f"{column.name}={column.recipe.operation}:{'+'.join(map(str, column.recipe.layers))}"


def _show_value(value: object) -> str:
    return {None: "none", True: "on", False: "off"}[value] if value is None or isinstance(value, bool) else repr(value)
