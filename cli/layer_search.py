"""The options by which ``extract --layers auto`` chooses layers, and the choice."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from bertfeat.core import CorpusSettings, ExtractorSettings
from bertfeat.errors import FeatureSetError
from bertfeat.options import Option

from .console import Console, progress_display
from .result_lines import choice_table

if TYPE_CHECKING:
    from bertfeat.io import Location
    from bertfeat.study import ChosenLayers, LayerTask

AUTO = ("auto", ("auto",))  # as --layers has it


@dataclass(slots=True)
class LayerSearch:
    """The examples by which layers are chosen."""

    for_task: Annotated[
        str | None,
        Option(
            "Of --layers auto: tags, labels, pairs, search or senses; with the column of the label, if not label.",
            metavar="TASK[:COL]",
        ),
    ] = None
    dev: Annotated[
        str | None,
        Option("Of --layers auto: examples with tags or labels; of search a BEIR folder.", metavar="FILE|DIR"),
    ] = None

    def settle(
        self,
        settings: ExtractorSettings,
        reading: CorpusSettings,
        folder: "Location",
        console: Console,
        *,
        overwrite: bool,
    ) -> tuple[ExtractorSettings, Mapping[str, object] | None]:
        """The settings with layers in the place of ``auto``, and how they were chosen.

        A folder that has features already keeps its layers.
        """
        if settings.layers not in AUTO:
            if self.for_task is not None or self.dev is not None:
                raise click.UsageError("--for and --dev are for --layers auto; leave them out")
            return settings, None
        if self.for_task is None or self.dev is None:
            raise click.UsageError("--layers auto needs a task and examples of it: --for tags --dev dev.conll")
        from bertfeat.study import as_layer_task

        name, _, label = self.for_task.partition(":")
        task = as_layer_task(name)
        if task.is_of_words and settings.pooling is None:
            settings = replace(settings, pooling="word")
        if not overwrite and (known := _known_layers(folder)) is not None:
            console.say(f"{folder} keeps its layers: {known[0]}")
            return replace(settings, layers=known[0]), known[1]
        chosen = _choose(settings, reading, Path(self.dev), task, label or "label", console)
        for line in choice_table(chosen):
            console.say(line)
        return replace(settings, layers=chosen.layers), chosen.to_json()


def _known_layers(folder: "Location") -> tuple[str, Mapping[str, object] | None] | None:
    """The layers of the features in a folder, finished or not, and how they were chosen; None where there are none."""
    from bertfeat.core import FeatureSet

    try:
        features = FeatureSet(folder, allow_unfinished=True)
    except FeatureSetError:
        return None
    chosen = features.manifest.times.get("chosen") if features.manifest else None
    layers = ",".join(dict.fromkeys(column.recipe.spelling for column in features.columns))
    return layers, chosen if isinstance(chosen, Mapping) else None


def _choose(
    settings: ExtractorSettings, reading: CorpusSettings, dev: Path, task: "LayerTask", label: str, console: Console
) -> "ChosenLayers":
    from bertfeat.core import Extractor
    from bertfeat.study import choose_layers

    extractor = Extractor(**asdict(replace(settings, layers="last")))
    with progress_display(console) as progress:
        return choose_layers(extractor, dev, task, label=label, corpus_settings=reading, progress=progress)
