"""The choice among several layers that a head is given: by its development set, before the head is trained."""

from collections.abc import Callable, Sequence

from bertfeat.core import FeatureSet
from bertfeat.errors import HeadError, UsageError, needed_library, parameter
from bertfeat.learning.datasets import Training
from bertfeat.learning.examples import head_input
from bertfeat.learning.tasks.labels import Labels
from bertfeat.learning.tasks.tags import Tags
from bertfeat.progress import AnyProgress
from bertfeat.study import ChosenLayers, LayerTask, choose_stored_layers


def are_several(layers: str | None) -> bool:
    """Whether a specification names several choices of layers."""
    return layers is not None and "," in layers


def check_several(training: Training, layers: str) -> None:
    """Refuse several layers of which none can be chosen, before anything is extracted.

    Raises:
        UsageError: it is another task than tags and labels, or one of them is a mix.
        MissingLibraryError: scikit-learn is not installed.
    """
    if training.task.name not in (Tags.name, Labels.name):
        raise UsageError(
            f"layers are chosen for tags and labels, and this head learns {training.task.name}",
            where=parameter("layers", layers),
            remedy="name one",
        )
    if any(spec.strip().startswith("mix") for spec in layers.split(",")):
        problem = "a mix of layers is learned, and not read by a solved head"
        raise UsageError(problem, where=parameter("layers", layers), remedy="name it alone")
    with needed_library("a choice of layers needs scikit-learn", "bertfeat[analysis]"):
        import sklearn  # noqa: F401


def choose_among(
    training: Training, dev: Sequence[FeatureSet], layers: str, tell: Callable[[AnyProgress], None]
) -> ChosenLayers:
    """Choose among the layers of a development set, which are separated by commas.

    Raises:
        UsageError: too few examples of a label.
        NotDerivableError: the set does not hold the layers.
    """
    specs = [spec.strip() for spec in layers.split(",")]
    reads = head_input(tuple(dev), training, specs[0])
    if training.task.name == Tags.name:
        return choose_stored_layers(dev[0], LayerTask.TAGS, specs, str(reads.pooling), progress=tell)
    columns = training.task.gold_columns(training.asked.label, [column.name for column in dev[0].kept])
    if len(columns) != 1 or columns[0] not in dev[0].names:
        raise HeadError("it holds no labels", where=dev[0].folder, remedy=f"name theirs with {parameter('label')}")
    task = LayerTask.PAIRS if len(dev) == 2 else LayerTask.LABELS
    return choose_stored_layers(dev, task, specs, str(reads.pooling), label=columns[0], progress=tell)
