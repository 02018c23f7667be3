"""Table 7 of the BERT paper on one's own data: which layers make the best features for tagging.

Every row is trained from the same stored layers, once for each seed; results are kept by row and seed, so that what was
done is not done again.
"""

import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from bertfeat.errors import TaggerError, UsageError
from bertfeat.features import FeatureSet, locked
from bertfeat.features.files import atomic
from bertfeat.models import Model
from bertfeat.tagging.finetune import PAPER_GRID, Grid, Sentence, fine_tune
from bertfeat.tagging.inputs import parse_input
from bertfeat.tagging.scores import Scores
from bertfeat.tagging.settings import TrainingSettings
from bertfeat.tagging.tagger import Tagger
from bertfeat.tagging.training import OnEpoch, digest, train

SETTINGS_NAME = "_settings.json"
RUNS_NAME = "runs"
RESULTS_NAME = "table7.json"
FINE_TUNING = "fine-tuning"
PAPER_SOURCE = "Devlin et al. 2019, Table 7: BERT base (cased), development set of CoNLL-2003, mean of 5 runs"


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: a way to make features of layers, or fine-tuning."""

    name: str  # as on the command line: a layer specification, or "fine-tuning"
    title: str
    paper: float | None = None  # F1 in the paper, 0 to 100

    @property
    def folder(self) -> str:
        """The name of the folder that its runs are kept in."""
        return self.name.replace("=", "_").replace("..", "to").replace("+", "_")


PAPER_ROWS = (
    Row("embeddings", "Embeddings", 91.0),
    Row("second-to-last", "Second-to-Last Hidden", 95.6),
    Row("last", "Last Hidden", 94.9),
    Row("mix4", "Weighted Sum Last Four Hidden", 95.9),
    Row("concat4", "Concat Last Four Hidden", 96.1),
    Row("mix-all", "Weighted Sum All Layers", 95.5),
)
FINE_TUNED_ROW = Row(FINE_TUNING, "Fine-tuned", 96.4)
"""The paper's row of BERT base; BERT large came to 96.6."""


@dataclass(frozen=True, slots=True)
class Run:
    """One training of one row."""

    row: str
    seed: int
    dev: float  # span F1, or accuracy of plain tags, 0 to 1
    test: float | None
    best_epoch: int
    epochs: int
    seconds: float
    grid: Grid | None = None  # of fine-tuning


@dataclass(frozen=True, slots=True)
class RowResult:
    """What the runs of a row came to."""

    row: Row
    runs: tuple[Run, ...]

    @property
    def dev(self) -> tuple[float, ...]:
        """The score of each run on the development set."""
        return tuple(run.dev for run in self.runs)

    @property
    def test(self) -> tuple[float, ...]:
        """The score of each run on the test set; empty where there is none."""
        return tuple(run.test for run in self.runs if run.test is not None)


@dataclass(frozen=True, slots=True)
class Table:
    """The rows that were trained, in order, and what they were trained on."""

    model: str
    measure: str  # "span F1" or "accuracy"
    settings: Mapping[str, Any]
    rows: tuple[RowResult, ...]


OnRun = Callable[[Row, Run, bool], None]
"""Called after each run; the last argument says whether it was there already."""


def table_rows(names: Iterable[str], num_layers: int) -> tuple[Row, ...]:
    """The rows that are meant: ``paper`` for the paper's six, ``all`` for every single layer, or specifications.

    Raises:
        RecipeError: a name that is neither.
    """
    known = {row.name: row for row in PAPER_ROWS}
    found: dict[str, Row] = {}
    for name in names:
        if name == "paper":
            found |= {row.name: row for row in PAPER_ROWS}
        elif name == "all":
            found |= {str(layer): Row(str(layer), f"Layer {layer}") for layer in range(num_layers + 1)}
        else:
            parse_input(name, num_layers)
            found[name] = known.get(name) or Row(name, name)
    return tuple(found.values())


def train_table(
    train_set: FeatureSet,
    dev_set: FeatureSet,
    test_set: FeatureSet | None,
    folder: str | Path,
    *,
    rows: Sequence[Row] = PAPER_ROWS,
    seeds: Sequence[int] = (1, 2, 3, 4, 5),
    settings: TrainingSettings | None = None,
    tuned: Model | None = None,
    grid: Sequence[Grid] = PAPER_GRID,
    device: str | None = None,
    on_run: OnRun | None = None,
    on_epoch: OnEpoch | None = None,
) -> Table:
    """Train every row with every seed, those that are not done yet, and write ``table7.json``.

    With ``tuned``, that model is fine-tuned too: the first seed chooses the best point of the ``grid`` on the
    development set, and all seeds are run with it.

    Raises:
        TaggerError: the folder holds a table of other data or settings; or see :func:`bertfeat.tagging.train`.
        UsageError: no rows or no seeds.
    """
    if not (rows or tuned) or not seeds:
        raise UsageError("a table needs at least one row and one seed")
    made = _TableRun(train_set, dev_set, test_set, Path(folder), settings or TrainingSettings(), device, on_epoch)
    with locked(made.folder):
        made.check_folder()
        results = []
        for row in rows:
            runs = []
            for seed in seeds:
                run, there = made.run(row, seed)
                runs.append(run)
                if on_run is not None:
                    on_run(row, run, there)
            results.append(RowResult(row, tuple(runs)))
        if tuned is not None:
            results.append(made.fine_tuned(tuned, grid, seeds, on_run))
        table = Table(train_set.header.model.name, made.measure, made.identity, tuple(results))
        write_json(made.folder / RESULTS_NAME, asdict(table) | {"paper": PAPER_SOURCE})
    return table


class _TableRun:
    def __init__(
        self,
        train_set: FeatureSet,
        dev_set: FeatureSet,
        test_set: FeatureSet | None,
        folder: Path,
        settings: TrainingSettings,
        device: str | None,
        on_epoch: OnEpoch | None,
    ) -> None:
        self.sets, self.test_set, self.folder = (train_set, dev_set), test_set, folder
        self.settings, self.device, self.on_epoch = settings, device, on_epoch
        named = {"train": train_set, "dev": dev_set} | ({"test": test_set} if test_set is not None else {})
        self.identity: dict[str, Any] = {
            "data": {name: digest(features) for name, features in named.items()},
            "model": train_set.header.model.fingerprint,
            "training": {name: value for name, value in asdict(settings).items() if name != "seed"},
        }
        self.measure = "span F1"

    def check_folder(self) -> None:
        """Refuse a folder with runs of another table."""
        path = self.folder / SETTINGS_NAME
        try:
            there = json.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            write_json(path, self.identity)
            return
        except (OSError, ValueError) as error:
            raise TaggerError(f"{path}: cannot be read ({error}); name another folder with -o") from error
        differ = [name for name in self.identity if there.get(name) != self.identity[name]]
        if differ:
            raise TaggerError(
                f"{self.folder} holds a table with other {' and '.join(differ)}; name another folder with -o, or "
                f"remove that one"
            )

    def run(self, row: Row, seed: int) -> tuple[Run, bool]:
        """One row with one seed, and whether it was there already."""
        path = self.folder / RUNS_NAME / row.folder / f"seed-{seed}.json"
        if (there := _read_run(path)) is not None:
            self.measure = there[1]
            return there[0], True
        tagger_folder = path.with_suffix(".tagger")
        done = train(
            *self.sets,
            tagger_folder,
            layers=row.name,
            settings=replace(self.settings, seed=seed),
            device=self.device,
            on_epoch=self.on_epoch,
        )
        tagger = Tagger(tagger_folder, device=self.device)
        self.measure = "span F1" if tagger.labels.has_spans else "accuracy"
        test = None if self.test_set is None else tagger.score(self.test_set, memory=self.settings.memory).value
        history = done.settings.history
        seconds = sum(epoch["seconds"] for epoch in history)
        run = Run(row.name, seed, done.settings.score, test, done.settings.best_epoch, len(history), seconds)
        self._keep(path, run)
        shutil.rmtree(tagger_folder)
        return run, False

    def fine_tuned(self, model: Model, grid: Sequence[Grid], seeds: Sequence[int], on_run: OnRun | None) -> RowResult:
        """The fine-tuning row: the best point of the grid, with every seed."""
        train_words, dev_words = (_sentences(features) for features in self.sets)
        test = None if self.test_set is None else _sentences(self.test_set)

        def run(point: Grid, seed: int) -> Run:
            name = f"batch-{point.batch_size}-rate-{point.learning_rate:g}-epochs-{point.epochs}-seed-{seed}.json"
            path = self.folder / RUNS_NAME / FINE_TUNING / name
            there = _read_run(path)
            if there is None:
                done = fine_tune(model, train_words, dev_words, test, **asdict(point), seed=seed, device=self.device)
                scores: Scores | None = done.test
                value = None if scores is None else scores.value
                self.measure = "span F1" if done.labels.has_spans else "accuracy"
                made = Run(FINE_TUNING, seed, done.dev.value, value, point.epochs, point.epochs, done.seconds, point)
                self._keep(path, made)
            else:
                made, self.measure = there
            if on_run is not None:
                on_run(FINE_TUNED_ROW, made, there is not None)
            return made

        points = grid if len(grid) == 1 else [max(grid, key=lambda point: run(point, seeds[0]).dev)]
        return RowResult(FINE_TUNED_ROW, tuple(run(points[0], seed) for seed in seeds))

    def _keep(self, path: Path, run: Run) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, asdict(run) | {"measure": self.measure})


def mean_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation (of the sample, n-1) of percentages; the spread of one value is 0."""
    percent = [100 * value for value in values]
    return fmean(percent), stdev(percent) if len(percent) > 1 else 0.0


def markdown(table: Table) -> str:
    """The table in Markdown, with the paper's numbers beside it."""
    has_test = any(result.test for result in table.rows)
    head = ["features", "layers", f"dev {table.measure}", *([f"test {table.measure}"] if has_test else []), "paper*"]
    lines = [_line(head), _line(["---", "---", *["---:"] * (len(head) - 2)])]
    for result in table.rows:
        scores = [_shown(result.dev), *([_shown(result.test)] if has_test else [])]
        paper = "" if result.row.paper is None else f"{result.row.paper:.1f}"
        lines.append(_line([result.row.title, result.row.name, *scores, paper]))
    seeds = max(len(result.runs) for result in table.rows)
    notes = [
        f"{table.model}; mean ± standard deviation over {seeds} seed{'' if seeds == 1 else 's'}; the development set "
        f"also chose the epoch.",
        f"* Another model and other data: {PAPER_SOURCE}. Its fine-tuned BERT large: 96.6.",
    ]
    if tuned := [result.runs[0].grid for result in table.rows if result.row.name == FINE_TUNING]:
        point = tuned[0]
        assert point is not None  # every run of that row has one
        notes.insert(
            1, f"Fine-tuned with batches of {point.batch_size}, rate {point.learning_rate:g}, {point.epochs} epochs."
        )
    return "\n".join([*lines, "", *(line for note in notes for line in (note, ""))])


def write_json(path: Path, value: object) -> None:
    """Write a small JSON file, whole or not at all."""
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _shown(values: Sequence[float]) -> str:
    if not values:
        return ""
    mean, spread = mean_and_spread(values)
    return f"{mean:.1f} ± {spread:.1f}" if len(values) > 1 else f"{mean:.1f}"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _read_run(path: Path) -> tuple[Run, str] | None:
    try:
        raw = json.loads(path.read_text("utf-8"))
        measure = str(raw.pop("measure"))
        grid = None if raw["grid"] is None else Grid(**raw.pop("grid"))
        return Run(**{**raw, "grid": grid}), measure
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TaggerError(f"{path}: cannot be read ({error!r}); remove it, and that run is done again") from error


def _sentences(features: FeatureSet) -> list[Sentence]:
    """Words and tags of a feature set.

    Raises:
        TaggerError: it was made with --no-text.
    """
    if "words" not in features.names:
        raise TaggerError(f"{features.folder}: made with --no-text, and fine-tuning needs the words")
    found: list[Sentence] = []
    for batch in features.stream(["words", "tags"]):
        words, tags = batch.column("words").to_pylist(), batch.column("tags").to_pylist()
        found.extend((each, tags[at]) for at, each in enumerate(words) if each)
    return found
