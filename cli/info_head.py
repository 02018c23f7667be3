"""The output of ``bertfeat info`` of a head."""

from pathlib import Path
from typing import TYPE_CHECKING

from .info_description import Description

if TYPE_CHECKING:
    from bertfeat.learning import HeadRecord


def describe_head(folder: Path) -> Description:
    """Describe a head: what it reads and predicts, and how it was trained."""
    from bertfeat.learning import Head

    record = Head(folder).record
    shape, outputs, threshold = record.network, record.outputs, record.threshold
    frozen = shape is not None
    scheme = f" ({outputs.scheme})" if outputs.scheme else ""
    value: dict[str, object] = {
        "kind": "head",
        "head": record.kind,
        "approach": record.approach,
        "layers": record.input.name if frozen else None,
        "pooling": record.pooling,
        "model": record.model,
        "pairs": record.pairs,
        "labels": outputs.labels,
        "scheme": outputs.scheme,
        "task": record.training.task,
        "threshold": record.threshold,
        "columns": record.columns,
        "training": record.training,
        "candidates": record.candidates,
        "chosen": record.chosen,
        "best_epoch": record.best_epoch,
        "epochs": len(record.history),
        "measure": record.measure,
        "score": record.score,
        "seconds": record.seconds,
        "versions": record.versions,
    }
    rows: list[tuple[str, object]] = [
        ("head", f"{folder}: {record.kind.noun}"),
        ("task", record.training.task),
        ("reads", f"{record.input.name} ({record.pooling}) of {record.model.name}" if frozen else None),
        ("fine-tuned", None if frozen else record.model.name),
        ("pairs", record.pairs),
        ("labels", f"{len(outputs.labels)}{scheme}: {', '.join(outputs.labels)}" if outputs.labels else None),
        (
            "network",
            f"BiLSTM of {shape.hidden} a direction{', CRF' if shape.crf else ''}"
            if shape and shape.recurrent
            else None,
        ),
        (
            "numbers",
            f"mean {outputs.mean:.4g}, spread {outputs.spread:.4g}" if outputs.spread != 1.0 else None,
        ),
        ("no answer", f"where its score is above {threshold:.4g}" if isinstance(threshold, float) else None),
        ("thresholds", ", ".join(f"{value:.4g}" for value in threshold) if isinstance(threshold, tuple) else None),
        (f"dev {record.measure}", f"{record.score:.4f}"),
        ("kept", kept_line(record)),
    ]
    return Description(value, rows)


def kept_line(record: "HeadRecord") -> str | None:
    """The candidate that was kept, and why, or the epoch where there is no other; None of a fine-tuned model."""
    if len(record.candidates) == 1 and record.best_epoch:
        return f"epoch {record.best_epoch} of {len(record.history)}"
    if len(record.candidates) < 2:
        return None if record.chosen is None else str(record.chosen)
    return f"{record.chosen}: the least loss of {len(record.candidates)}"
