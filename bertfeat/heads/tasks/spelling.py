"""Labels as texts and as stored values: a CSV file has texts, a kept column of it numbers and truth values."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from bertfeat.corpus import format_of, parse_cell
from bertfeat.errors import HeadError, parameter
from bertfeat.features import FeatureSet
from bertfeat.heads.settings import Outputs


class StoredLabel(str):
    """The spelling of a label that is stored as a number or a truth value; texts that stand for the value fit it."""

    __slots__ = ()


def spell_label(value: object) -> str:
    """A label as it is read: a text as it is, a truth value as CSV and JSON have it, a whole number without a point."""
    if isinstance(value, str):
        return value
    whole = isinstance(value, float) and value.is_integer()  # 1.0 in one file and 1 in another are one label
    return StoredLabel(f"{value:.0f}" if whole else str(value).lower())


def align_labels(labels: Iterable[str], outputs: Outputs, *, where: str, column: str) -> Iterator[str]:
    """The labels of a column as a head spells them, of which ``outputs`` says what it predicts.

    Where only one side is stored as values, labels of one value are one label; texts on both sides are compared as they
    are. What fits nothing stays as it is.

    Raises:
        HeadError: a stored value that several labels of the head stand for.
    """
    spellings: dict[object, list[str]] = {}
    for known in outputs.labels:
        spellings.setdefault(_value_of(known), []).append(known)
    for label in labels:
        if isinstance(label, StoredLabel) is outputs.stored:
            yield label
            continue
        fitting = spellings.get(_value_of(label), [label])
        if len(fitting) > 1:
            raise HeadError(
                f"the label {label} is stored as a value, and may be {' or '.join(map(repr, fitting))}",
                where=where,
                remedy=f"extract it anew with {parameter('keep', (f'{column}:string',))}, which keeps texts",
            )
        yield fitting[0]


def merged_labels_warnings(sources: Iterable[tuple[FeatureSet, ...] | Path], column: str | None) -> tuple[str, ...]:
    """Warnings of feature sets in which texts of a CSV file that were different labels may have become one number.

    The type of a column is decided by the first rows of its file, and how the number of a later row was spelled is not
    kept.
    """
    firsts = [source[0] for source in sources if not isinstance(source, Path)]
    merging = dict.fromkeys(features.folder for features in firsts if _stores_numbers(features, column))
    told = "the labels are stored as numbers, so that texts such as 1.1 and 1.10 are one label"
    remedy = parameter("keep", (f"{column}:string",))
    return tuple(f"{folder}: {told}; extract with {remedy} to keep texts" for folder in merging)


def _stores_numbers(features: FeatureSet, column: str | None) -> bool:
    """Whether a column has numbers with a point, read of texts."""
    types = {kept.name: kept.type for kept in features.kept}
    return types.get(column or "") == "float64" and any(format_of(source).cells for source in features.sources)


def _value_of(label: str) -> object:
    """The value of a label; True is not 1."""
    value = parse_cell(label)
    return (isinstance(value, bool), value)
