"""The settings that decide what a feature set contains, as one typed object that runs, indexes and taggers share."""

import hashlib
from dataclasses import dataclass
from typing import Annotated, Self

from msgspec import Meta

from bertfeat.core.corpus import TEXT_ID
from bertfeat.core.recipe import Pooling, VectorDtype
from bertfeat.core.words import WordRule
from bertfeat.errors import FeatureSetError, shorten
from bertfeat.io import canonical_json, to_plain

_Positive = Annotated[int, Meta(ge=1)]


@dataclass(frozen=True, slots=True)
class SettingDifference:
    """A setting that has different values in two :class:`FeatureSettings`."""

    name: str
    ours: object
    theirs: object

    def __str__(self) -> str:
        return f"{self.name} {_show_value(self.ours)} and {_show_value(self.theirs)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureSettings:
    """The settings that decide what an extraction writes: equal settings and input give equal bytes.

    The names are the keys of the JSON form, which has all of them.
    """

    model: str = ""  # fingerprint of its files
    layers: tuple[str, ...] = ()  # the feature columns: FeatureColumn.described
    precision: Annotated[str, Meta(pattern="^(fp32|bf16|fp16|int8)$")] = "fp32"  # of the computation
    dtype: VectorDtype = "float32"  # of token and word matrices
    long: Annotated[str, Meta(pattern="^(window|truncate|truncate-left|error)$")] = "window"
    max_length: _Positive | None = None  # tokens of a window
    prompt: str | None = None
    document_context: bool = False
    split: str | None = None  # the rule by which documents were split off texts; None: they are whole texts
    subword: Annotated[str, Meta(pattern="^(first|mean|last)$")] | None = None  # None: no words
    special_tokens: bool = True  # whether [CLS] and [SEP] count in pooling over all tokens and in token features
    keep: tuple[str, ...] = ()  # the corpus's own columns: "year:int64"
    text: bool = True  # whether texts are stored
    batch_tokens: _Positive | None = None
    part_rows: _Positive | None = None
    numerics: _Positive = 1  # version of the numbers; see NUMERICS_VERSION of core.extraction
    quantization: _Positive | None = None  # of int8: version of its integers; see INT8_VERSION of core.extraction
    only: tuple[str, ...] = ()  # the words whose vectors are stored, as bertfeat.core.words.WordList has them; (): all
    words: Annotated[str, Meta(pattern=r"^(spaces|korean \S+ \S+)$")] = "spaces"  # WordRule.record
    context: str | None = None  # "left:8": each word sees the 8 words before it; None: its whole window
    plan: _Positive = 1  # version of the plan; see PLAN_VERSION of bertfeat.core.extraction

    @property
    def text_ids(self) -> str:
        """The column with the ids of the texts: of split ones the one that is kept of their spans, else ``id``."""
        return "id" if self.split is None else TEXT_ID

    @property
    def word_rule(self) -> WordRule:
        """The rule by which texts are split that do not bring their own words."""
        return WordRule.from_record(self.words)

    @property
    def needs_words(self) -> bool:
        """Whether texts are split into words when features are computed."""
        return self.subword is not None or self.context is not None

    def check_words(self, where: object) -> None:
        """Refuse to compute the features again with another version of the program that splits words.

        Raises:
            FeatureSetError: it is another version; ``where`` is the set.
            MissingLibraryError: it is not installed.
        """
        if self.needs_words and (installed := self.word_rule.record) != self.words:
            raise FeatureSetError(
                f"its words are split by {self.words!r}, and here is {installed!r}, which may find others",
                where=where,
                remedy="install that version",
            )

    @property
    def plain(self) -> dict[str, object]:
        """The settings as JSON values, by name."""
        lists = ("layers", "keep", "only")
        return to_plain(self) | {name: list(getattr(self, name)) for name in lists}

    @property
    def fingerprint(self) -> str:
        """sha256 of the JSON form with sorted keys."""
        return hashlib.sha256(canonical_json(self)).hexdigest()

    def differences(self, other: Self) -> list[SettingDifference]:
        """All settings that differ."""
        ours, theirs = self.plain, other.plain
        return [SettingDifference(name, ours[name], theirs[name]) for name in ours if ours[name] != theirs[name]]

    def incomparable_with(self, other: Self, pooling: Pooling | None = None) -> list[SettingDifference]:
        """The differing settings because of which vectors cannot be compared, or given to one tagger; empty if none.

        Only the meaning of a vector matters: which text, in which context, it represents. ``prompt``,
        ``special_tokens``, ``subword``, ``document_context`` and ``context`` decide that. So do ``long`` and
        ``max_length``: how much of a long text a vector represents, and how far its tokens attend. ``precision``,
        ``dtype``, ``numerics`` and ``quantization`` change only the last digits of a vector (docs/numerics.md);
        ``keep``, ``split``, ``text``, ``only``, ``batch_tokens``, ``part_rows`` and ``plan`` do not affect its meaning,
        nor does ``words`` without ``context``: which words there are is stored. With ``pooling`` only the settings that
        matter for that pooling are compared.
        """
        counted = () if self.context is None else ("words",)
        always = ("model", "prompt", "document_context", "context", "long", "max_length", *counted)
        poolings = list(Pooling) if pooling is None else [pooling]
        decisive = dict.fromkeys((*always, *(name for each in poolings for name in each.decided_by)))
        different = {difference.name: difference for difference in self.differences(other)}
        return [different[name] for name in decisive if name in different]


def _show_value(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "on", False: "off"}[value]
    return shorten(repr(value))
