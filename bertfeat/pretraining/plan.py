"""What is decided before the first step, and kept for a run that goes on; and what the user should know by then."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bertfeat.errors import PretrainingError, parameter
from bertfeat.io import JsonFormat
from bertfeat.models import Model
from bertfeat.pretraining.report import CorpusFigures, HeldOutScores, PretrainingIdentity
from bertfeat.pretraining.result_files import is_sentence_model
from bertfeat.pretraining.settings import Objective, PretrainingSettings

PLAN_NAME = "plan.json"
PLAN_VERSION = 1


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """``plan.json``: what was decided before the first step."""

    format_version: int
    identity: PretrainingIdentity
    stamps: tuple[str, ...]
    steps: int
    figures: CorpusFigures
    before: HeldOutScores | None


_PLAN = JsonFormat(
    TrainingPlan,
    PLAN_VERSION,
    error=PretrainingError,
    remedy=lambda: f"train anew with {parameter('overwrite', True)}",
    digest_from=0,
)


def read_plan(state: Path) -> TrainingPlan | None:
    """Read what a training decided that was begun; None where none was.

    Raises:
        PretrainingError: it cannot be read.
    """
    try:
        return _PLAN.read(state / PLAN_NAME)
    except (FileNotFoundError, NotADirectoryError):
        return None


def warnings_before(model: Model | None, settings: PretrainingSettings) -> Iterator[str]:
    """What the user should know before the first step."""
    if settings.goal is Objective.LTR:
        yield (
            "a left-to-right model is no encoder: each vector knows only what stands before it. transformers opens it "
            f"(AutoModelForCausalLM); extract {parameter('model')} refuses it"
        )
    if model is not None and settings.anchor is None and is_sentence_model(model):
        yield (
            f"{model.name} was trained to give one vector a text. Going on without {parameter('anchor')} its last "
            f"layer forgets that and will serve search less well; {parameter('anchor', 10)} holds it"
        )
