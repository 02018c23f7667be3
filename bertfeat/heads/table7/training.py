"""One call to a Table 7 of heads."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

from bertfeat.corpus import CorpusSettings
from bertfeat.errors import UsageError, parameter
from bertfeat.extraction import OnProgress
from bertfeat.heads.datasets import ALL_LAYERS, HeadOptions, HeadSource, open_sets
from bertfeat.heads.kinds import HeadKind, PairForm
from bertfeat.heads.settings import HeadSettings
from bertfeat.heads.table7.report import PICTURE_NAME, HeadTable, write_head_table
from bertfeat.heads.table7.runs import HeadRuns
from bertfeat.heads.table7.table import HeadTableTraining, OnHeadRun
from bertfeat.heads.training import OpenSources, extracted_sets, open_sources
from bertfeat.io import ResultKind, to_plain
from bertfeat.models import find_model
from bertfeat.plots import draw_table7
from bertfeat.tagging import ExtractorArguments, OnDataset, TableRow, parse_rows
from bertfeat.training import PAPER_GRID, GridPoint, OnEpoch, draw_if_possible, hold_result_folder


@dataclass(frozen=True, slots=True)
class HeadTableReport:
    """A Table 7 of heads that is done."""

    folder: Path
    table: HeadTable
    warnings: tuple[str, ...]


def train_head_table7(
    kind: HeadKind | str,
    train: HeadSource,
    dev: HeadSource,
    test: HeadSource | None,
    folder: str | Path,
    *,
    rows: Sequence[str | TableRow] = ("paper",),
    seeds: Sequence[int] = (1, 2, 3, 4, 5),
    label: str | None = None,
    choices: tuple[str, ...] = (),
    pooling: str | None = None,
    embed_pairs: PairForm | str | None = None,
    settings: HeadSettings | None = None,
    fine_tune: bool = False,
    grid: Sequence[GridPoint] = (),
    corpus_settings: CorpusSettings | None = None,
    picture: bool = True,
    progress: OnProgress | None = None,
    on_dataset: OnDataset | None = None,
    on_run: OnHeadRun | None = None,
    on_epoch: OnEpoch | None = None,
    **extractor: Unpack[ExtractorArguments],
) -> HeadTableReport:
    """Compare layers as features for a head, as Table 7 of the BERT paper does for tagging.

    Corpora are extracted into the folder with every layer. Every row is trained with every seed; beside them stand the
    most frequent answer, of numbers of pairs the cosine of their vectors, and with ``fine_tune`` the model fine-tuned:
    the first seed chooses the best point of the ``grid`` (default: the paper's) on ``dev``, and all seeds are run with
    it. What is done is kept, and not done again.

    Raises:
        HeadError: the folder holds a table of other data or settings; or see :func:`train_head`.
        UsageError: no rows or no seeds; options that have no effect.
    """
    if grid and not fine_tune:
        raise UsageError(f"{parameter('grid')} is of fine-tuning", remedy=f"add {parameter('fine_tune', True)}")
    if not seeds or not (rows or fine_tune):
        raise UsageError("a table needs at least one row and one seed")
    folder, settings = Path(folder), settings or HeadSettings()
    reading, form = corpus_settings or CorpusSettings(), None if embed_pairs is None else PairForm(embed_pairs)
    options = HeadOptions(HeadKind(kind), None, pooling, form, label, choices, reading, extractor, progress, on_dataset)
    sources = {"train": open_sets(train), "dev": open_sets(dev)} | ({} if test is None else {"test": open_sets(test)})
    with hold_result_folder(folder, ResultKind.TABLE7):
        sets = extracted_sets(sources, replace(options, layers=ALL_LAYERS), folder)
        model = sets["train"][0].header.model
        tuned = find_model(extractor.get("model") or model.name, revision=model.revision) if fine_tune else None
        last = open_sources(sets, replace(options, layers="last"), settings)  # refuses sets before anything is written
        runs = HeadRuns(folder, _table_identity(last, options, settings))
        training = HeadTableTraining(sets, options, settings, last, runs, on_run, on_epoch)
        chosen = parse_rows(rows, model.num_layers)
        table = training.run(chosen, tuple(seeds), tuned=tuned, grid=tuple(grid or PAPER_GRID))
        write_head_table(folder, table)
        warnings = draw_if_possible(lambda: draw_table7(table, folder / PICTURE_NAME)) if picture else ()
    return HeadTableReport(folder, table, warnings)


def _table_identity(sources: OpenSources, options: HeadOptions, settings: HeadSettings) -> dict[str, object]:
    """What all runs of a table have in common."""
    reads, opened = sources
    training = {name: value for name, value in to_plain(settings).items() if name != "seed"}
    return {
        "kind": str(options.kind),
        "model": reads.model.fingerprint,
        "pooling": str(reads.pooling),
        "pairs": reads.pairs and str(reads.pairs),
        "label": options.label,
        "extraction": to_plain(reads.extraction),
        "training": training,
        "data": {name: examples.digest for name, examples in opened.items()},
    }
