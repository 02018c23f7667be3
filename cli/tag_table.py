"""``bertfeat tag table7``: which layers make the best features, as Table 7 of the BERT paper asks."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .frame import Command, option
from .options import Listed, ModelOptions, listed_option, model_options, reading_options, talk_options
from .sources import default_output
from .tag_train import draw_if_possible, opened, sentences_option, set_aside, training_options
from .talk import Talk, duration, table

if TYPE_CHECKING:
    from bertfeat.corpus import CorpusSettings
    from bertfeat.features import FeatureSet
    from bertfeat.models import Model
    from bertfeat.tagging import Grid, Row, Run, TableEstimate


class GridPoints(Listed):
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
@option("-o", "--output", type=click.Path(path_type=Path), metavar="DIR", help="Default: train.table7.")
@listed_option(
    "--rows",
    metavar="ROW[,ROW]",
    help="paper (default): its six; all: every layer; others: sum4, sum-all, mix=1..3, 7, …",
)
@option("--seeds", type=click.IntRange(min=1), default=5, metavar="N", help="Trainings of each row; default: 5.")
@option("--fine-tune", is_flag=True, help="Fine-tune the model itself, too, with the paper's grid of settings.")
@option("--dry-run", is_flag=True, help="Say the hours, and write nothing.")
@option(
    "--grid",
    type=GridPoints(),
    further=True,
    metavar="B:RATE:E,…",
    help="Batch sizes, learning rates and epochs that --fine-tune tries, such as 32:5e-5:3; default: the paper's 18.",
)
@training_options
@model_options
@reading_options
@talk_options
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
    talk: Talk,
) -> None:
    """Compare layers as features for tagging, as Table 7 of the BERT paper does, on your own data.

    The layers are extracted once; every row is trained with every seed (--seed and those after it). What is done is
    kept in DIR by row and seed: interrupted, or asked for more rows or seeds, the same command does the rest.

    \b
    bertfeat tag table7 --train train.conll --dev dev.conll --test test.conll
    bertfeat tag table7 --train train.conll --dev dev.conll --model google-bert/bert-base-cased --fine-tune
    bertfeat tag table7 --train train.conll --dev dev.conll --rows all,sum4,concat4 --seeds 3 --dry-run
    """
    if grid and not fine_tune:
        raise click.UsageError("--grid is of fine-tuning; add --fine-tune")
    settings = training()
    from bertfeat.features import FeatureSet
    from bertfeat.models import find_model
    from bertfeat.tagging import PAPER_GRID, Grid, is_feature_set, table_rows, train_table

    recorded = FeatureSet(train_given).header.model if is_feature_set(train_given) else None
    if recorded is not None and model.model is None:
        model = replace(model, model=recorded.name, revision=recorded.revision)
    files = find_model(model.model, revision=model.revision) if recorded is None or fine_tune else None
    num_layers = files.num_layers if files is not None else recorded.num_layers if recorded is not None else 0
    chosen = table_rows(rows or ("paper",), num_layers)
    layers = ",".join(map(str, range(num_layers + 1)))  # all, so that rows can be added later
    points = tuple(Grid(*point) for point in grid or ()) or PAPER_GRID
    folder = output or default_output([train_given], ".table7")
    given = {"train": train_given, "dev": dev_given} | ({"test": test_given} if test_given is not None else {})
    if dry_run:
        _tell_estimate(
            given, chosen, seeds, settings, files if fine_tune else None, points, model, reading, layers, talk
        )
        return
    sets: dict[str, FeatureSet] = {}
    for name, path in given.items():
        place = folder / "features" / f"{name}.features"
        like = next((sets[one] for one in sets if is_feature_set(given[one])), None)
        sets[name] = opened(path, layers, model, reading, talk, like, place)
    _warn_of_lower_case(files, sets["train"], talk)
    made = train_table(
        sets["train"],
        sets["dev"],
        sets.get("test"),
        folder,
        rows=chosen,
        seeds=range(settings.seed, settings.seed + seeds),
        settings=settings,
        tuned=files if fine_tune else None,
        grid=points,
        device=model.device,
        on_run=lambda row, run, there: talk.say(_run_line(row, run, there)),
    )
    _tell(made, folder, talk)


set_aside(command, "hidden", "crf", "seed", "precision", "text_columns", "keep")


def _run_line(row: "Row", run: "Run", there: bool) -> str:
    test = "" if run.test is None else f", test {run.test:.4f}"
    how = "there already" if there else f"epoch {run.best_epoch} of {run.epochs}, {duration(run.seconds)}"
    point = "" if run.grid is None else f" {run.grid.batch_size}:{run.grid.learning_rate:g}:{run.grid.epochs}"
    return f"{row.title}{point}, seed {run.seed}: dev {run.dev:.4f}{test} ({how})"


def _tell(made: Any, folder: Path, talk: Talk) -> None:
    from bertfeat.tagging import markdown

    text = markdown(made)
    (folder / "table7.md").write_text(text, encoding="utf-8")
    draw_if_possible("draw_table", made, folder / "table7.png", talk=talk)
    talk.result(asdict(made), [text.rstrip()])
    talk.say(f"{folder}: table7.md, table7.json, table7.png")


def _warn_of_lower_case(files: "Model | None", features: "FeatureSet", talk: Talk) -> None:
    from bertfeat.tagging import lower_cases, share_of_capitals

    if files is not None and lower_cases(files) and (share := share_of_capitals(features)) > 0.01:
        talk.warn(
            f"{files.name} lower-cases its input, and {share:.0%} of the words here have capitals, which tell names; "
            f"the paper's is a cased model: --model google-bert/bert-base-cased"
        )


def _tell_estimate(
    given: dict[str, Path],
    rows: "tuple[Row, ...]",
    seeds: int,
    settings: Any,
    tuned: "Model | None",
    grid: "tuple[Grid, ...]",
    model: ModelOptions,
    reading: "CorpusSettings",
    layers: str,
    talk: Talk,
) -> None:
    from bertfeat.tagging import estimate_table

    found: TableEstimate = estimate_table(
        given, rows, seeds, settings, tuned=tuned, grid=grid, reading=reading, layers=layers, extractor=asdict(model)
    )
    talk.result(
        found,
        table(
            [
                ("rows", f"{len(rows)} of {seeds} trainings each, on {found.words:,} words"),
                ("extraction", f"about {duration(found.extraction)}"),
                ("training", f"about {duration(found.training)}, if each takes {found.epochs} epochs"),
                ("fine-tuning", None if tuned is None else f"about {duration(found.fine_tuning)}"),
                ("together", f"about {found.hours:.1f} hours"),
            ]
        ),
    )
