"""The settings that decide the features that something was trained on, and whether other features are like them."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from bertfeat.errors import AnotherCorpusError, RemovalError, SettingsDifferError, TrainingError, parameter
from bertfeat.features import FeatureSet, FeatureSettings, ModelIdentity
from bertfeat.io import JsonError, from_plain, to_plain
from bertfeat.recipe import Pooling
from bertfeat.tokens import LongTextPolicy, Subword

FOLDER_REFUSALS = (AnotherCorpusError, RemovalError, SettingsDifferError)
"""Messages of an extraction about a folder that it does not go on in; remedies are options of ``extract`` itself."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """The settings that decide the features, for a given model; named as in a feature set's settings."""

    long: LongTextPolicy
    max_length: Annotated[int, Meta(ge=1)]
    prompt: str
    document_context: bool
    subword: Subword | None  # of words
    precision: Literal["fp32", "bf16", "fp16", "int8"]
    dtype: Literal["float16", "float32"]
    special_tokens: bool
    context: str | None

    @property
    def settings(self) -> FeatureSettings:
        """The same as settings of a feature set."""
        return from_plain(to_plain(self), FeatureSettings)


def extraction_of(features: FeatureSet, pooling: Pooling) -> Extraction:
    """The settings of a feature set that decide what its features of that pooling are.

    Raises:
        TrainingError: they lack something.
    """
    recorded = features.header.settings.plain
    try:
        values = {field.name: recorded[field.name] for field in fields(Extraction)}
        extraction = from_plain(values, Extraction)
        if pooling is Pooling.WORD and extraction.subword is None:
            raise JsonError("they lack subword")
        return extraction
    except JsonError as error:
        problem = f"its settings do not say how it was extracted ({error})"
        raise TrainingError(problem, where=features.folder, remedy="extract it again") from error


def count_failed_rows(sources: Mapping[str, object], sets: Mapping[str, FeatureSet | tuple[FeatureSet, ...]]) -> int:
    """The number of rows that failed in the corpora (paths) among the sources, whose feature sets are ``sets``."""
    failed: set[tuple[str, int]] = set()
    for name in (name for name, source in sources.items() if isinstance(source, Path)):
        made = sets[name]
        for features in made if isinstance(made, tuple) else (made,):
            failed |= {(name, failure.row) for failure in features.failures()}
    return len(failed)


def check_same_features(
    ours: FeatureSet, model: ModelIdentity, extraction: Extraction, what: str, pooling: Pooling
) -> None:
    """Refuse features that were made by another model or in another way than those of ``what``.

    Raises:
        TrainingError: names what differs.
    """
    header = ours.header
    if header.model.fingerprint != model.fingerprint:
        raise TrainingError(
            f"{ours.folder} was made by {header.model.name} (fingerprint {header.model.fingerprint[:12]}…), and {what} "
            f"by {model.name} ({model.fingerprint[:12]}…)",
            remedy=f"extract it again with {parameter('model', model.name)}",
        )
    if (header.model.num_layers, header.model.hidden_size) != (model.num_layers, model.hidden_size):
        raise TrainingError(
            f"{ours.folder} says that {model.name} has {header.model.num_layers} layers of width "
            f"{header.model.hidden_size}, and {what} that it has {model.num_layers} of width {model.hidden_size}",
            remedy="make again what was changed",
        )
    theirs = replace(extraction.settings, model=header.settings.model)  # which is compared above
    differences = header.settings.incomparable_with(theirs, pooling)
    if differences:
        listed = ", ".join(
            f"{difference.name} is {difference.ours!r}, not {difference.theirs!r}" for difference in differences
        )
        problem = f"{ours.folder} was extracted in another way than {what}: {listed}"
        raise TrainingError(problem, remedy="extract it again as that")
    extraction_of(ours, pooling)  # which refuses settings that lack something
