"""The output of ``bertfeat info`` of a head."""

from pathlib import Path

from .info_description import Description


def describe_head(folder: Path) -> Description:
    """What a head reads and predicts, and how it was trained."""
    from bertfeat.heads import Head

    record = Head(folder).record
    frozen, outputs = record.network is not None, record.outputs
    value: dict[str, object] = {
        "kind": "head",
        "head": record.kind,
        "approach": record.approach,
        "layers": record.input.name if frozen else None,
        "pooling": record.pooling,
        "model": record.model,
        "pairs": record.pairs,
        "labels": outputs.labels,
        "regression": record.training.regression,
        "threshold": record.threshold,
        "columns": record.columns,
        "training": record.training,
        "best_epoch": record.best_epoch,
        "epochs": len(record.history),
        "measure": record.measure,
        "score": record.score,
        "seconds": record.seconds,
        "versions": record.versions,
    }
    epoch = f", in epoch {record.best_epoch} of {len(record.history)}" if frozen else ""
    rows: list[tuple[str, object]] = [
        ("head", f"{folder}: {record.kind.noun}"),
        ("reads", f"{record.input.name} ({record.pooling}) of {record.model.name}" if frozen else None),
        ("fine-tuned", None if frozen else record.model.name),
        ("pairs", record.pairs),
        ("labels", f"{len(outputs.labels)}: {', '.join(outputs.labels)}" if outputs.labels else None),
        ("numbers", f"mean {outputs.mean:.4g}, spread {outputs.spread:.4g}" if record.training.regression else None),
        ("no answer", None if record.threshold is None else f"where its score is above {record.threshold:.4g}"),
        (f"dev {record.measure}", f"{record.score:.4f}{epoch}"),
    ]
    return Description(value, rows)
