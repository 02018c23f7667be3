"""``bertfeat info``: what a feature set, an index, a model or a corpus is."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .app import Command, option
from .command_line import on_command_line, options_on_command_line
from .console import Console, fields_of, format_size, two_columns
from .index_output import recall_line
from .options import output_options, reading_options

if TYPE_CHECKING:
    from bertfeat.corpus import CorpusSettings


@dataclass(frozen=True, slots=True)
class Description:
    """What is said of a thing: for programs, and for people."""

    value: dict[str, Any]
    rows: list[tuple[str, Any]]


@click.command(cls=Command, name="info")
@click.argument("thing", metavar="[PATH|MODEL]", required=False)
@option("--revision", metavar="REV", help="The hub's branch, tag or commit, where a model is asked about.")
@reading_options
@output_options
def command(thing: str | None, revision: str | None, reading: "CorpusSettings", console: Console) -> None:
    """Tell what a feature set, index, tagger, model or corpus is, or what is installed.

    A corpus is read to its end and counted. What is no path is taken for a model's name. Without an argument: versions,
    kernels, hardware, the default model.

    \b
    bertfeat info
    bertfeat info corpus.features
    bertfeat info sentence-transformers/all-MiniLM-L6-v2
    bertfeat info news.jsonl.gz --text-column title,body
    """
    from bertfeat.io import ResultKind, result_kind

    describe = {
        ResultKind.FEATURES: describe_features,
        ResultKind.INDEX: describe_index,
        ResultKind.TAGGER: describe_tagger,
        ResultKind.TABLE7: describe_table7,
    }
    path = Path(thing or "")
    kind = result_kind(path) if thing else None
    is_corpus = thing is not None and kind is None and path.exists() and not (path / "config.json").exists()
    is_model = thing is not None and kind is None and not is_corpus
    if (typed := options_on_command_line(but=("as_json", "quiet", "revision"))) and not is_corpus:
        raise click.UsageError(f"{typed[0]} says how a corpus is read, and this is none; leave it out")
    if on_command_line("revision") and not is_model:
        raise click.UsageError("--revision goes with a model's name, and this is none")
    if thing is None:
        described = describe_installation()
    elif kind is not None:
        described = describe[kind](path)
    else:
        described = describe_corpus(thing, reading) if is_corpus else describe_model(thing, revision)
    console.result(described.value, two_columns(described.rows))


def describe_installation() -> Description:
    """What is installed here, and what the machine has."""
    from bertfeat.installation import installation

    found = installation()
    versions = [f"{name} {version}" for name, version in found.versions.items()]
    rows = [
        ("bertfeat", f"{found.bertfeat}, Python {found.python}"),
        ("system", found.system),
        ("processor", f"{found.processor}; {found.processors} for this process"),
        ("device", f"{found.device}, computes in {found.precision} by default"),
        ("bf16", "multiplied in hardware" if found.bf16 else "not in hardware, so fp32 is the default"),
        ("kernels", found.kernels_note or {"none": "none for this processor"}.get(found.kernels, found.kernels)),
        ("libraries", "\n".join(versions)),
        ("missing", ", ".join(found.missing) or None),
        ("default model", found.default_model),
    ]
    return Description({"kind": "installation", **fields_of(found)}, rows)


def describe_features(folder: Path) -> Description:
    """What a feature set holds, finished or not."""
    from bertfeat.features import FeatureSet

    features = FeatureSet(folder, allow_unfinished=True)
    counts, model, entries = features.counts, features.header.model, features.entries
    failed, blank = (sum(getattr(entry, kind) for entry in entries) for kind in ("failed", "blank"))
    stored = sum(entry.bytes for entry in entries)
    value = {
        "kind": "features",
        "finished": features.manifest is not None,
        "documents": len(features),
        "failed": failed,
        "blank": blank,
        "parts": len(entries),
        "bytes": stored,
        "counts": counts,
        "model": model,
        "columns": [
            {"name": c.name, "width": c.width, "dtype": c.dtype, "layers": c.recipe.layers} for c in features.columns
        ],
        "kept": features.kept,
        "settings": features.header.settings.encode(),
        "sources": features.sources,
        "times": features.manifest.times if features.manifest else {},
        "versions": features.manifest.versions if features.manifest else {},
    }
    unfinished = "" if features.manifest else " (not finished: run the same extract command again)"
    columns = [f"{c.name}  {c.width} × {c.dtype}  layers {_layers(c.recipe.layers)}" for c in features.columns]
    rows = [
        ("feature set", f"{folder}{unfinished}"),
        ("documents", f"{len(features):,}; failed {failed:,}; blank lines {blank:,}"),
        ("tokens", _tokens(counts)),
        ("words", f"{counts.words:,}; {counts.unaligned_words:,} without a vector" if counts.words else None),
        ("parts", f"{len(entries):,}, {format_size(stored)}"),
        ("model", f"{model.name}, {model.num_layers} layers of {model.hidden_size}"),
        ("", f"fingerprint {model.fingerprint[:16]}…" + (f", revision {model.revision}" if model.revision else "")),
        ("columns", "\n".join(columns)),
        ("kept", "\n".join(f"{column.name}  {column.type}" for column in features.kept) or None),
        ("settings", "\n".join(f"{key} = {shown}" for key, shown in features.header.settings.encode().items())),
        ("sources", "\n".join(features.sources)),
    ]
    return Description(value, rows)


def describe_index(folder: Path) -> Description:
    """What an index holds; its files are checked to be whole."""
    from bertfeat.search import VectorIndex

    settings = VectorIndex(folder).settings
    removed = f", of which {settings.tombstones:,} are removed" if settings.tombstones else ""
    rows = [
        ("index", folder),
        ("vectors", f"{settings.count:,} of {settings.width:,} values, {settings.column.name}{removed}"),
        ("documents", f"{settings.documents:,}{'' if settings.has_text else ', without texts'}"),
        ("metric", settings.metric),
        ("type", f"{settings.factory}: {settings.reason}"),
        ("recall", recall_line(settings)),
        ("model", settings.model.name),
        ("query prompt", repr(settings.query_prompt) if settings.query_prompt is not None else None),
        ("sources", "\n".join(source.path for source in settings.sources)),
    ]
    return Description({"kind": "index", **fields_of(settings)}, rows)


def describe_tagger(folder: Path) -> Description:
    """What a tagger reads and gives, and how it was trained."""
    from bertfeat.tagging import Tagger

    settings = Tagger(folder).settings
    measure = "span F1" if settings.labels.has_spans else "accuracy"
    value = {
        "kind": "tagger",
        "layers": settings.input.name,
        "model": settings.model,
        "labels": settings.labels.names,
        "scheme": settings.labels.scheme,
        "training": settings.training,
        "best_epoch": settings.best_epoch,
        "epochs": len(settings.history),
        "score": settings.score,
        "versions": settings.versions,
    }
    rows = [
        ("tagger", folder),
        ("reads", f"{settings.input.name} of {settings.model.name}, {settings.network.width} values a word"),
        ("labels", f"{len(settings.labels)} ({settings.labels.scheme}): {', '.join(settings.labels.names)}"),
        ("network", f"LSTM of {settings.network.hidden} a direction{', CRF' if settings.network.crf else ''}"),
        (f"dev {measure}", f"{settings.score:.4f}, in epoch {settings.best_epoch} of {len(settings.history)}"),
    ]
    return Description(value, rows)


def describe_table7(folder: Path) -> Description:
    """Which runs of a Table 7 there are."""
    runs = sorted(str(path.relative_to(folder / "runs")) for path in folder.glob("runs/*/*.json"))
    finished = (folder / "table7.json").exists()
    rows = [
        ("Table 7", f"{folder}{'' if finished else ' (not finished: run the same command again)'}"),
        ("runs", "\n".join(runs) or "none yet"),
    ]
    return Description({"kind": "table7", "finished": finished, "runs": runs}, rows)


def describe_model(name: str, revision: str | None) -> Description:
    """What a model is, and which of its own settings are followed."""
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


def describe_corpus(source: str, reading: "CorpusSettings") -> Description:
    """What a corpus holds, counted to its end."""
    from bertfeat.corpus import Document, Failure, open_corpus

    corpus = open_corpus([source], reading)
    counted: Counter[str] = Counter()
    first_failure = None
    for row in corpus.rows():
        if isinstance(row, Document):
            counted.update(documents=1, characters=len(row.text), words=len(row.words or ()))
        elif isinstance(row, Failure):
            counted["failed"] += 1
            first_failure = first_failure or row
        else:
            counted["blank"] += 1
    numbers = {name: counted[name] for name in ("documents", "failed", "blank", "characters", "words")}
    value = {"kind": "corpus", "sources": corpus.sources, **numbers, "kept": corpus.kept}
    rows = [
        ("corpus", "\n".join(corpus.sources)),
        ("documents", f"{counted['documents']:,}; unreadable {counted['failed']:,}; blank lines {counted['blank']:,}"),
        ("characters", f"{counted['characters']:,}"),
        ("words", f"{counted['words']:,}, given" if counted["words"] else None),
        ("kept", "\n".join(f"{column.name}  {column.type}" for column in corpus.kept) or None),
        ("first failure", f"row {first_failure.row}: {first_failure.reason}" if first_failure else None),
    ]
    return Description(value, rows)


def _tokens(counts: Any) -> str:
    unknown = counts.unknown_tokens / max(counts.tokens, 1)
    said = f"{counts.tokens:,}; unknown {counts.unknown_tokens:,} ({unknown:.2%})"
    cut = f"; cut off {counts.truncated_tokens:,} in {counts.truncated_documents:,} documents"
    return said + (cut if counts.truncated_tokens else "")


def _layers(layers: tuple[int, ...]) -> str:
    return ", ".join(map(str, layers))
