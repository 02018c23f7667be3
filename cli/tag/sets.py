"""What the commands of ``bertfeat tag`` are given: feature sets, or corpora that become some."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bertfeat.io import real_path

from ..app import Decorator, option
from ..console import Console, format_duration, pluralize
from ..options import ModelOptions
from ..progress import progress_display, view_extraction

if TYPE_CHECKING:
    from bertfeat.corpus import CorpusSettings
    from bertfeat.features import FeatureSet

PAIRS = ("pairs", "pair_column")
"""Options of reading that no tagger has a use for: it reads single texts."""

_ANY_DEVICE = "a GPU if there is one"
_READING = {
    "format": "--format",
    "encoding": "--encoding",
    "text_columns": "--text-column",
    "pair_column": "--pair-column",
    "id_column": "--id-column",
    "tag_column": "--tag-column",
    "keep": "--keep",
    "pairs": "--pairs",
    "pretokenized": "--pretokenized",
    "document_context": "--document-context",
}


def sentences_option(name: str, told: str, *, required: bool = False) -> Decorator:
    """Declare an option that takes tagged sentences; ``--train`` reaches its command as ``train_given``."""
    given, kind = f"{name.removeprefix('--')}_given", click.Path(path_type=Path)
    return option(name, given, required=required, type=kind, metavar="CONLL|FEATURES", help=told)


def tagger_options(function: Any) -> Any:
    """Declare where a tagger finds its model, and where it runs; they reach the command as ``model`` and ``device``."""
    runs = option("--device", metavar="DEVICE", further=True, show_default=_ANY_DEVICE, help="cpu, cuda, cuda:1.")
    where = option("--model", metavar="DIR", further=True, help="Where the tagger's model is now, if not where it was.")
    return where(runs(function))


def refuse_reading(reading: "CorpusSettings", what: str) -> None:
    """Refuse options that say how a corpus is read, where none is.

    Raises:
        click.UsageError: names them.
    """
    from bertfeat.corpus import CorpusSettings

    plain = CorpusSettings()
    given = [name for field, name in _READING.items() if getattr(reading, field) != getattr(plain, field)]
    if given:
        raise click.UsageError(f"{', '.join(given)}: for corpora, and {what}; leave it out")


def refuse_unused(source: str, model: str | None, reading: "CorpusSettings") -> None:
    """Refuse options that nothing would come of where a tagger's input is a feature set.

    Raises:
        click.UsageError: names them.
    """
    from bertfeat.tagging import is_feature_set

    if is_feature_set(Path(source)):
        refuse_reading(reading, f"{source} is a feature set")
        if model is not None:
            raise click.UsageError(f"--model: for texts, and {source} is a feature set; leave it out")


def refuse_model(model: ModelOptions, *, but: tuple[str, ...] = ()) -> None:
    """Refuse options of extraction beside a feature set, which records its own, but for those named.

    Raises:
        click.UsageError: names them.
    """
    plain = {"model": None, "revision": None, "precision": "auto", "batch_tokens": None}
    given = [name for name, default in plain.items() if name not in but and getattr(model, name) != default]
    if given:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise click.UsageError(f"{names}: for corpora; the feature set that is given records its own")


def refuse_one_place(given: Mapping[str, Path]) -> None:
    """Refuse two corpora whose features would be kept in one folder.

    Raises:
        click.UsageError: names both.
    """
    from bertfeat.tagging import features_beside, is_feature_set

    places: dict[Path, Path] = {}
    for path in given.values():
        if not is_feature_set(path):
            other = places.setdefault(real_path(features_beside(path)), path)
            if real_path(other) != real_path(path):
                raise click.UsageError(
                    f"the features of {other} and {path} would both be kept in {features_beside(path)}; rename one of "
                    f"them, or extract one with bertfeat extract -o"
                )


def prepared_pair(
    train_given: Path,
    dev_given: Path,
    layers: str | None,
    model: ModelOptions,
    reading: "CorpusSettings",
    console: Console,
) -> tuple["FeatureSet", "FeatureSet"]:
    """Open or extract both sets; a corpus beside a feature set is extracted as that was."""
    from bertfeat.tagging import is_feature_set

    given = (train_given, dev_given)
    sets = [is_feature_set(path) for path in given]
    if any(sets):
        refuse_model(model)
    if all(sets):
        refuse_reading(reading, "both sets are features")
    refuse_one_place({"train": train_given, "dev": dev_given})
    found: dict[int, FeatureSet] = {}
    for number in sorted((0, 1), key=lambda at: not sets[at]):  # a feature set first: it says how
        like = next(iter(found.values())) if any(sets) and found else None
        found[number] = opened(given[number], layers, model, reading, console, like)
    return found[0], found[1]


def opened(
    given: Path,
    layers: str | None,
    model: ModelOptions,
    reading: "CorpusSettings",
    console: Console,
    like: "FeatureSet | None" = None,
    folder: Path | None = None,
) -> "FeatureSet":
    """Open a feature set or extract a corpus, and tell what happened."""
    from bertfeat.tagging import prepared

    with progress_display(console, view_extraction) as progress:
        made = prepared(
            given, layers=layers, reading=reading, like=like, folder=folder, progress=progress, **asdict(model)
        )
    if made.report is not None:
        report = made.report
        done = "nothing to do" if report.nothing_to_do else format_duration(report.seconds)
        console.say(f"{report.folder}: {pluralize(report.counts.documents, 'sentence')}, {done}")
        if report.failed:
            console.warn(f"{pluralize(report.failed, 'sentence')} of {given} failed; see {report.failure_list}")
    return made.features
