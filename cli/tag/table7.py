"""``bertfeat tag table7``: which layers make the best features, as Table 7 of the BERT paper asks."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..app import Command, option
from ..bundles import leave_out, set_aside
from ..console import Console, format_duration, pluralize, two_columns
from ..option_types import CommaList, listed_option
from ..options import ModelOptions, model_options, output_options, reading_options
from ..paths import default_output
from .sets import PAIRS, opened, refuse_model, refuse_reading, sentences_option
from .train import draw_if_possible, training_options

if TYPE_CHECKING:
    from bertfeat.corpus import CorpusSettings
    from bertfeat.features import FeatureSet
    from bertfeat.models import Model
    from bertfeat.tagging import GridPoint, Table7, Table7Estimate, TableRow, TableRun


class GridPoints(CommaList):
    """Points ``batch:rate:epochs`` separated by commas."""

    name = "grid"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Any, ...]:
        """Read each point."""
        points = []
        for item in super().convert(value, param, ctx):
            try:
                batch, rate, epochs = item.split(":") if isinstance(item, str) else item
                points.append((int(batch), float(rate), int(epochs)))
            except ValueError:
                self.fail(f"{item!r} is not written as batch:rate:epochs, for example 32:5e-5:3", param, ctx)
        return tuple(points)


@click.command(cls=Command, name="table7")
@sentences_option("--train", "Sentences to learn from: a corpus with tags, or a set of single layers.", required=True)
@sentences_option("--dev", "Sentences that choose the best epoch.", required=True)
@sentences_option("--test", "Scored, never chosen by.")
@option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    show_default="train.table7",
    help="Where the table and its runs go.",
)
@listed_option(
    "--rows",
    metavar="ROW[,ROW]",
    show_default="paper",
    help="paper: its six; all: every layer; others: sum4, sum-all, mix=1..3, 7, …",
)
@option("--seeds", type=click.IntRange(1, 1000), default=5, metavar="N", help="Trainings of each row.")
@option("--fine-tune", is_flag=True, help="Fine-tune the model itself, too, with the paper's grid of settings.")
@option("--dry-run", is_flag=True, help="Say the hours, and write nothing.")
@option(
    "--grid",
    type=GridPoints(),
    further=True,
    metavar="B:RATE:E,…",
    show_default="the paper's 18",
    help="Batch sizes, learning rates and epochs that --fine-tune tries, such as 32:5e-5:3.",
)
@training_options
@model_options
@reading_options
@output_options
def command(
    train_given: Path,
    dev_given: Path,
    test_given: Path | None,
    output: Path | None,
    rows: tuple[str, ...],
    seeds: int,
    fine_tune: bool,
    dry_run: bool,
    grid: tuple[tuple[int, float, int], ...] | None,
    training: Any,
    model: ModelOptions,
    reading: "CorpusSettings",
    console: Console,
) -> None:
    """Compare layers as features for tagging, as Table 7 of the BERT paper does, on your own data.

    The layers are extracted once, unless the features beside the corpora hold them; every row is trained with every
    seed (--seed and those after it). What is done is kept in DIR by row and seed: interrupted, or asked for more rows
    or seeds, the same command does the rest.

    \b
    bertfeat tag table7 --train train.conll --dev dev.conll --test test.conll
    bertfeat tag table7 --train train.conll --dev dev.conll --model google-bert/bert-base-cased --fine-tune
    bertfeat tag table7 --train train.conll --dev dev.conll --rows all,sum4,concat4 --seeds 3 --dry-run
    """
    if grid and not fine_tune:
        raise click.UsageError("--grid is of fine-tuning; add --fine-tune")
    settings = training()
    from bertfeat.features import FeatureSet
    from bertfeat.io import ResultKind
    from bertfeat.models import find_model
    from bertfeat.tagging import PAPER_GRID, GridPoint, TableTraining, hold_result_folder, is_feature_set, parse_rows

    given = {"train": train_given, "dev": dev_given} | ({"test": test_given} if test_given is not None else {})
    _refuse_unused(given, model, reading, fine_tune)
    recorded = FeatureSet(train_given).header.model if is_feature_set(train_given) else None
    if recorded is not None and model.model is None:
        model = replace(model, model=recorded.name, revision=recorded.revision)
    files = find_model(model.model, revision=model.revision) if recorded is None or fine_tune else None
    num_layers = files.num_layers if files is not None else recorded.num_layers if recorded is not None else 0
    chosen = parse_rows(rows or ("paper",), num_layers)
    tuned = files if fine_tune else None
    points = tuple(GridPoint(*point) for point in grid or ()) or PAPER_GRID
    folder = output or default_output([train_given], ".table7")
    if dry_run:
        known = {name: _stored(name, given, folder, chosen, model, reading, {}) for name in given}
        given = {name: path if (there := known[name]) is None else there.folder for name, path in given.items()}
        _tell_estimate(given, chosen, seeds, settings, tuned, points, model, reading, num_layers, console)
        return
    with hold_result_folder(folder, ResultKind.TABLE7):
        sets = _sets(given, folder, chosen, num_layers, model, reading, console)
        _warn_of_lower_case(files, sets["train"], console)
        made = TableTraining(sets["train"], sets["dev"], sets.get("test"), folder, settings, model.device).run(
            chosen,
            range(settings.seed, settings.seed + seeds),
            tuned=tuned,
            grid=points,
            on_run=lambda row, run, there: console.say(_run_line(row, run, there)),
        )
        draw_if_possible("draw_table", made, folder / "table7.png", console=console)
    _tell(made, folder, console)


def _refuse_unused(given: dict[str, Path], model: ModelOptions, reading: "CorpusSettings", fine_tune: bool) -> None:
    """Refuse options that nothing would come of."""
    from bertfeat.tagging import is_feature_set

    sets = [is_feature_set(path) for path in given.values()]
    if any(sets):
        refuse_model(model, but=("model", "revision") if fine_tune else ())
    if all(sets):
        refuse_reading(reading, "all sets are features")


def _all_layers(num_layers: int) -> str:
    """Every layer by itself, so that rows can be added later."""
    return ",".join(map(str, range(num_layers + 1)))


def _sets(
    given: dict[str, Path],
    folder: Path,
    rows: "tuple[TableRow, ...]",
    num_layers: int,
    model: ModelOptions,
    reading: "CorpusSettings",
    console: Console,
) -> "dict[str, FeatureSet]":
    """Open the sets that are given, and those beside corpora that hold what the rows need; extract the others."""
    from bertfeat.tagging import is_feature_set

    sets: dict[str, FeatureSet] = {}
    for name in sorted(given, key=lambda name: not is_feature_set(given[name])):  # they say how the others are made
        place = folder / "features" / f"{name}.features"
        there = None if is_feature_set(place) else _stored(name, given, folder, rows, model, reading, sets)
        if there is None:
            like = _like(given, sets)
            sets[name] = opened(given[name], _all_layers(num_layers), model, reading, console, like, place)
        else:
            console.say(f"{there.folder}: {pluralize(len(there), 'sentence')}, with these layers already")
            sets[name] = there
    return sets


def _like(given: dict[str, Path], sets: "dict[str, FeatureSet]") -> "FeatureSet | None":
    """A set that was given as such: those of corpora are made as it was."""
    from bertfeat.tagging import is_feature_set

    return next((sets[name] for name in sets if is_feature_set(given[name])), None)


def _stored(
    name: str,
    given: dict[str, Path],
    folder: Path,
    rows: "tuple[TableRow, ...]",
    model: ModelOptions,
    reading: "CorpusSettings",
    sets: "dict[str, FeatureSet]",
) -> "FeatureSet | None":
    """Features of a corpus that are there already: those of an earlier run, or those beside it."""
    from bertfeat.errors import BertfeatError
    from bertfeat.features import FeatureSet
    from bertfeat.tagging import is_feature_set, stored_features

    path, place = given[name], folder / "features" / f"{name}.features"
    if is_feature_set(path) or not path.is_file():
        return None
    if is_feature_set(place):
        try:
            return FeatureSet(place)
        except BertfeatError:
            return None
    needed = ",".join(row.name for row in rows)
    like = _like(given, sets)
    return stored_features(path, layers=needed, reading=reading, like=like, **asdict(model)) if needed else None


set_aside(command, "hidden", "crf", "seed", "precision", "text_columns", "keep")
leave_out(command, *PAIRS)


def _run_line(row: "TableRow", run: "TableRun", there: bool) -> str:
    test = "" if run.test is None else f", test {run.test:.4f}"
    how = "there already" if there else f"epoch {run.best_epoch} of {run.epochs}, {format_duration(run.seconds)}"
    point = "" if run.grid is None else f" {run.grid.batch_size}:{run.grid.learning_rate:g}:{run.grid.epochs}"
    return f"{row.title}{point}, seed {run.seed}: dev {run.dev:.4f}{test} ({how})"


def _tell(made: "Table7", folder: Path, console: Console) -> None:
    from bertfeat.tagging import format_markdown

    console.result(made.plain, [format_markdown(made).rstrip()])
    there = [name for name in ("table7.md", "table7.json", "table7.png") if (folder / name).exists()]
    console.say(f"{folder}: {', '.join(there)}")


def _warn_of_lower_case(files: "Model | None", features: "FeatureSet", console: Console) -> None:
    from bertfeat.tagging import lower_cases, share_of_capitals

    if files is not None and lower_cases(files) and (share := share_of_capitals(features)) > 0.01:
        console.warn(
            f"{files.name} lower-cases its input, and {share:.0%} of the words here have capitals, which tell names; "
            f"the paper's is a cased model: --model google-bert/bert-base-cased"
        )


def _tell_estimate(
    given: dict[str, Path],
    rows: "tuple[TableRow, ...]",
    seeds: int,
    settings: Any,
    tuned: "Model | None",
    grid: "tuple[GridPoint, ...]",
    model: ModelOptions,
    reading: "CorpusSettings",
    num_layers: int,
    console: Console,
) -> None:
    from bertfeat.tagging import estimate_table

    found: Table7Estimate = estimate_table(
        given,
        rows,
        seeds,
        settings,
        tuned=tuned,
        grid=grid,
        reading=reading,
        layers=_all_layers(num_layers),
        extractor=asdict(model),
    )
    console.result(
        found,
        two_columns(
            [
                ("rows", f"{len(rows)}, with {pluralize(seeds, 'training')} each, on {found.words:,} words"),
                ("extraction", f"about {format_duration(found.extraction)}"),
                ("training", f"about {format_duration(found.training)}, if each takes {found.epochs} epochs"),
                ("fine-tuning", None if tuned is None else f"about {format_duration(found.fine_tuning)}"),
                ("together", f"about {found.hours:.1f} hours"),
            ]
        ),
    )
