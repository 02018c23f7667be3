"""The output of ``bertfeat info`` of a model, pre-trained by bertfeat or not."""

from pathlib import Path

from bertfeat.display import format_size

from .info_description import Description
from .pretrain_output import pretraining_rows


def describe_pretrained(folder: Path) -> Description:
    """A model that bertfeat pre-trained: what it is, and how it learnt."""
    from bertfeat.pretraining import Objective, read_record

    record = read_record(folder)
    if record is None:
        rows = [("model", f"{folder} (not finished: run the same pretrain command again)")]
        return Description({"kind": "model", "finished": False, "pretraining": None}, rows)
    weights = {name: file.bytes for name, file in record.files.items() if name.endswith(".safetensors")}
    changed = [name for name, size in weights.items() if not _has_size(folder / name, size)]
    if record.identity.settings.goal is Objective.LTR:  # which is no encoder
        known = Description({"kind": "model"}, [("model", f"{folder}, which reads from left to right")])
    elif changed:  # and may not open
        known = Description({"kind": "model"}, [("model", str(folder))])
    else:
        known = describe_model(str(folder), None)
    total = format_size(sum(file.bytes for file in record.files.values()))
    told = f"; {', '.join(changed)} not as written: bertfeat verify {folder}" if changed else ""
    value = {**known.value, "finished": True, "changed": changed, "pretraining": record}
    files = ("files", f"{len(record.files)} with {total}{told}")
    return Description(value, [*known.rows, *pretraining_rows(record), files])


def _has_size(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


def describe_model(name: str, revision: str | None) -> Description:
    """The properties of a model, and which of its own settings are followed."""
    from bertfeat.encoder import planned_path
    from bertfeat.errors import ModelError
    from bertfeat.models import find_model

    model = find_model(name, revision=revision)
    path = planned_path(model)
    try:
        pooling = str(model.pooling)
    except ModelError as error:
        pooling = f"none ({error})"
    value = {
        "kind": "model",
        "name": model.name,
        "folder": model.folder,
        "revision": model.revision,
        "fingerprint": model.fingerprint,
        "type": model.config.model_type,
        "num_layers": model.num_layers,
        "hidden_size": model.hidden_size,
        "max_tokens": model.max_tokens,
        "pooling": pooling,
        "path": path,
        "prompts": model.prompts,
        "default_prompt": model.default_prompt,
        "heads_not_applied": model.heads_not_applied,
        "stored_limits": model.stored_limits,
    }
    rows = [
        ("model", f"{model.name}, of the {model.config.model_type} family"),
        ("layers", f"0 (embeddings) to {model.num_layers}, each {model.hidden_size} wide"),
        ("positions", f"{model.max_tokens:,} tokens at once; longer texts are read in windows"),
        (
            "switched off",
            "\n".join(f"{limit} tokens, says {file}" for file, limit in model.stored_limits.items()) or None,
        ),
        ("pooling", f"{pooling}, as its own configuration says, or by default"),
        ("path", path.sentence),
        ("notes", "\n".join(path.notes) or None),
        ("not applied", ", ".join(model.heads_not_applied) or None),
        ("prompts", "\n".join(f"{key}: {prompt!r}" for key, prompt in model.prompts.items()) or None),
        ("folder", model.folder),
        ("fingerprint", model.fingerprint),
        ("revision", model.revision),
    ]
    return Description(value, rows)
