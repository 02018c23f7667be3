"""The record that sentence-transformers' evaluators write about a model."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class ModelCard:
    """The results of evaluations, under the names that sentence-transformers' model cards have."""

    base_model: str | None
    eval_results_dict: dict[object, dict[str, float]] = field(default_factory=dict)  # evaluator → metric → score
    training_logs: list[dict[str, float]] = field(default_factory=list)  # the evaluators' primary metrics, in order

    def set_evaluation_metrics(
        self, evaluator: object, metrics: Mapping[str, float], epoch: int = 0, step: int = 0
    ) -> None:
        """Keep the newest metrics of each evaluator."""
        self.eval_results_dict[evaluator] = dict(metrics)
        primary = getattr(evaluator, "primary_metric", None)
        names = [primary] if isinstance(primary, str) else list(primary or ())
        self.training_logs.append({"Epoch": epoch, "Step": step, **{n: metrics[n] for n in names if n in metrics}})
