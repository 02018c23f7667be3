"""The plan of a Table 7: rows, seeds, settings, and the sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Unpack

from bertfeat.corpus import CorpusSettings
from bertfeat.errors import UsageError, parameter
from bertfeat.features import FeatureSet
from bertfeat.models import Model, find_model
from bertfeat.tagging.dataset_extractors import ExtractorArguments
from bertfeat.tagging.datasets import DatasetOptions, OpenSource, SentenceSource, open_source, refuse_unused_options
from bertfeat.tagging.settings import TrainingSettings
from bertfeat.tagging.table7.rows import TableRow, parse_rows
from bertfeat.training import PAPER_GRID, GridPoint

SEEDS = (1, 2, 3, 4, 5)


@dataclass(frozen=True, slots=True)
class Table7Plan:
    """The rows, seeds, settings and sentences of a table.

    Raises:
        UsageError: no rows, or no seeds.
    """

    sources: Mapping[str, OpenSource]  # train, dev and perhaps test
    rows: tuple[TableRow, ...]
    seeds: tuple[int, ...]
    settings: TrainingSettings
    num_layers: int  # of the model
    model: Model | None  # its files, where a corpus has to be extracted or the model is fine-tuned
    tuned: Model | None  # the model that is fine-tuned
    grid: tuple[GridPoint, ...]
    options: DatasetOptions  # whose layers are every single one, so that rows can be added later

    def __post_init__(self) -> None:
        if not (self.rows or self.tuned) or not self.seeds:
            raise UsageError("a table needs at least one row and one seed")


def plan_table7(
    train: SentenceSource,
    dev: SentenceSource,
    test: SentenceSource | None,
    *,
    rows: Sequence[str | TableRow],
    seeds: Sequence[int],
    settings: TrainingSettings | None,
    fine_tune: bool,
    grid: Sequence[GridPoint] | None,
    corpus_settings: CorpusSettings | None,
    **extractor: Unpack[ExtractorArguments],
) -> Table7Plan:
    """Find the model and parse the rows; nothing is computed.

    Raises:
        UsageError: options that have no effect, no rows, or no seeds.
        RecipeError: a row that is no layer specification.
        ModelError: the model cannot be found.
    """
    if grid and not fine_tune:
        raise UsageError(f"{parameter('grid')} is of fine-tuning", remedy=f"add {parameter('fine_tune', True)}")
    sources = {"train": open_source(train), "dev": open_source(dev)}
    sources |= {} if test is None else {"test": open_source(test)}
    options = DatasetOptions(None, corpus_settings or CorpusSettings(), extractor)
    refuse_unused_options(sources, options, but=("model", "revision") if fine_tune else ())
    first = sources["train"]
    recorded = first.header.model if isinstance(first, FeatureSet) else None
    if recorded is not None and extractor.get("model") is None:
        extractor = extractor | {"model": recorded.name, "revision": recorded.revision}
    needs_model = recorded is None or fine_tune
    model = find_model(extractor.get("model"), revision=extractor.get("revision")) if needs_model else None
    num_layers = model.num_layers if model is not None else recorded.num_layers if recorded is not None else 0
    return Table7Plan(
        sources=sources,
        rows=parse_rows(rows, num_layers),
        seeds=tuple(seeds),
        settings=_as_the_paper(settings or TrainingSettings()),
        num_layers=num_layers,
        model=model,
        tuned=model if fine_tune else None,
        grid=tuple(grid or PAPER_GRID),
        options=replace(options, layers=",".join(map(str, range(num_layers + 1))), extractor=extractor),
    )


def _as_the_paper(settings: TrainingSettings) -> TrainingSettings:
    """Without a CRF, unless one is asked for."""
    return replace(settings, crf=bool(settings.crf))
