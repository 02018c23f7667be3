"""``bertfeat info``: describe a feature set, an index, a head, a model or a corpus, or what is installed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bertfeat.core import CorpusSettings, Recipe
from bertfeat.display import format_size
from bertfeat.errors import UsageError, pluralize, shell_value, shorten

from .app import Command, option
from .bundles import on_command_line, settings_options
from .console import Console, fields_of, two_columns
from .index import recall_line, tokens_line, transform_line
from .options import output_options, refuse_reading_options
from .pretrain import pretraining_rows

_LONGEST_SETTING = 400  # characters of a setting that are shown, such as a list of words

if TYPE_CHECKING:
    from bertfeat.core import FeatureColumn, FeatureSet, KeptColumn, ModelIdentity, RunStatus
    from bertfeat.io import Location, ResultKind
    from bertfeat.learning import HeadRecord


@click.command(cls=Command, name="info")
@click.argument("thing", metavar="[PATH|MODEL]", required=False)
@option("--revision", metavar="REV", help="The hub's branch, tag or commit of a model.")
@settings_options("reading", CorpusSettings, fields=("text_columns", "keep", "format", "encoding", "pretokenized"))
@output_options
def command(thing: str | None, revision: str | None, reading: CorpusSettings, console: Console) -> None:
    """Show what a feature set, index, tagger, head, model or corpus is, or what is installed.

    A corpus is read to its end and counted. What is not a path is taken for a model's name. Without an argument:
    versions, kernels, hardware, the default model.

    \b
    bertfeat info
    bertfeat info corpus.features
    bertfeat info s3://bucket/corpus.features
    bertfeat info sentence-transformers/all-MiniLM-L6-v2
    bertfeat info news.jsonl.gz --text-column title,body
    """
    from bertfeat.io import as_location, result_kind

    place = as_location(thing) if thing else None
    kind = result_kind(place) if place is not None else None
    is_corpus = place is not None and kind is None and _is_corpus(place)
    is_model = thing is not None and kind is None and not is_corpus
    if not is_corpus:
        refuse_reading_options("and this is none")
    if on_command_line("revision") and not is_model:
        raise click.UsageError("--revision goes with a model's name, and this is none")
    if thing is None:
        description = _describe_installation()
    elif place is not None and kind is not None:
        description = _describe_result(kind, place)
    elif is_corpus:
        description = _describe_corpus(thing, reading)
    else:
        description = _describe_model(thing, revision)
    console.result(description.value, two_columns(description.rows))


def _is_corpus(place: "Location") -> bool:
    """Whether a place is that of a corpus: an address, or an existing path that is not the folder of a model."""
    from bertfeat.io import Address

    names = ("config.json", "modules.json")  # of a model, and of one whose encoder lies in a folder below
    return isinstance(place, Address) or (place.exists() and not any((place / name).exists() for name in names))


@dataclass(frozen=True, slots=True)
class _Description:
    """The output of ``bertfeat info``: ``value`` as JSON, ``rows`` as a table."""

    value: dict[str, object]
    rows: Sequence[tuple[str, object]]


def _describe_installation() -> _Description:
    """The installed libraries, and the hardware of the machine."""
    from bertfeat.core import installation

    machine = installation()
    versions = [f"{name} {version}" for name, version in machine.versions.items()]
    rows = [
        ("bertfeat", f"{machine.bertfeat}, Python {machine.python}"),
        ("system", machine.system),
        ("processor", f"{machine.processor}; {machine.processors} for this process"),
        ("device", f"{machine.device}, computes in {machine.precision} by default"),
        ("bf16", "multiplied in hardware" if machine.bf16 else "not in hardware, so fp32 is the default"),
        ("kernels", machine.kernels_note or {"none": "none for this processor"}.get(machine.kernels, machine.kernels)),
        ("libraries", "\n".join(versions)),
        ("missing", ", ".join(machine.missing) or None),
        ("default model", machine.default_model),
    ]
    return _Description({"kind": "installation", **fields_of(machine)}, rows)


def _describe_corpus(source: str, reading: CorpusSettings) -> _Description:
    """The counts of a corpus, which is read to its end."""
    from bertfeat.core import Document, Failure, open_corpus

    corpus = open_corpus([source], reading)
    numbers = dict.fromkeys(("documents", "failed", "blank", "characters", "words"), 0)
    first: Failure | None = None
    for row in corpus.rows():
        if isinstance(row, Document):
            numbers["documents"] += 1
            numbers["characters"] += len(row.text)
            numbers["words"] += len(row.words or ())
        elif isinstance(row, Failure):
            numbers["failed"] += 1
            first = first or row
        else:
            numbers["blank"] += 1
    counts = "{documents:,}; unreadable {failed:,}; blank lines {blank:,}"
    rows = [
        ("corpus", "\n".join(corpus.sources)),
        ("documents", counts.format(**numbers)),
        ("characters", f"{numbers['characters']:,}"),
        ("words", f"{numbers['words']:,}, given" if numbers["words"] else None),
        ("kept", _kept_column_lines(corpus.kept)),
        ("first failure", f"row {first.row}: {first.reason}" if first else None),
    ]
    return _Description({"kind": "corpus", "sources": corpus.sources, **numbers, "kept": corpus.kept}, rows)


def _describe_result(kind: "ResultKind", folder: "Location") -> _Description:
    """The content of a folder that bertfeat wrote."""
    if kind == "features":
        return _describe_features(folder)
    if kind == "index":
        return _describe_index(folder)
    path = local_result(kind, folder)
    if kind == "model":
        return _describe_pretrained(path)
    if kind == "head":
        return _describe_head(path)
    return _describe_table7(path)


def local_result(kind: "ResultKind", folder: "Location") -> Path:
    """The folder of a result that is read on this machine only; one at an address is refused."""
    if isinstance(folder, Path):
        return folder
    raise UsageError(f"this is {kind.noun}, which is read on this machine only", where=folder, remedy="copy it here")


def _describe_features(folder: "Location") -> _Description:
    """The content of a feature set, finished or not."""
    from bertfeat.core import FeatureSet, list_parts

    if not list_parts(folder) and (begun := _describe_work(folder, 0)).lines:
        value = {"kind": "features", "finished": False, "run": begun.status, "documents": 0, "parts": 0}
        return _Description(value, [("feature set", f"{folder} (begun, without a part yet)"), ("at work", begun.lines)])
    features = FeatureSet(folder, allow_unfinished=True)
    counts, model, entries = features.counts, features.header.model, features.entries
    failed, blank = (sum(getattr(entry, kind) for entry in entries) for kind in ("failed", "blank"))
    stored, settings = sum(entry.bytes for entry in entries), features.header.settings.plain
    work = _describe_work(folder, len(entries))
    at_work = None if features.manifest else work
    value = {
        "kind": "features",
        "finished": features.manifest is not None,
        "run": None if features.manifest and not work.is_begun else work.status,
        "documents": len(features),
        "failed": failed,
        "blank": blank,
        "parts": len(entries),
        "bytes": stored,
        "counts": counts,
        "model": model,
        "columns": [
            {
                "name": c.name,
                "width": c.width,
                "dtype": c.dtype,
                "layers": c.recipe.layers,
                "site": c.recipe.site,
                "components": c.basis and c.basis.width,
                "kept": c.basis and c.basis.kept,
            }
            for c in features.columns
        ],
        "kept": features.kept,
        "settings": settings,
        "sources": features.sources,
        "times": features.manifest.times if features.manifest else {},
        "versions": features.manifest.versions if features.manifest else {},
    }
    unfinished = "" if at_work is None else f" (not finished: {at_work.summary})"
    columns = [f"{c.name}  {c.width} × {c.dtype}  {_places(c.recipe)}{_basis_note(c)}" for c in features.columns]
    rows = [
        ("feature set", f"{folder}{unfinished}"),
        ("at work", work.lines),
        ("update", work.update if features.manifest else None),
        ("documents", f"{len(features):,}; failed {failed:,}; blank lines {blank:,}"),
        ("tokens", _token_counts(features)),
        (
            "words",
            f"{counts.words:,} with punctuation marks; {counts.unaligned_words:,} without a vector"
            if counts.words
            else None,
        ),
        ("parts", f"{len(entries):,}, {format_size(stored)}"),
        ("model", f"{model.name}, {model.num_layers} layers of {model.hidden_size}"),
        ("", f"fingerprint {model.fingerprint[:16]}…" + (f", revision {model.revision}" if model.revision else "")),
        ("computed", _computer_line(model)),
        ("copied", _copied_line(features)),
        ("layers", _choice_line(features)),
        ("columns", "\n".join(columns)),
        ("kept", _kept_column_lines(features.kept)),
        ("settings", "\n".join(f"{key} = {shorten(str(shown), _LONGEST_SETTING)}" for key, shown in settings.items())),
        ("sources", "\n".join(features.sources)),
    ]
    return _Description(value, rows)


def _describe_index(folder: "Location") -> _Description:
    """The content of an index; its files are checked to be whole."""
    from bertfeat.search import VectorIndex

    settings = VectorIndex(folder).settings
    removed = f", of which {settings.tombstones:,} are removed" if settings.tombstones else ""
    rows = [
        ("index", folder),
        ("vectors", f"{settings.count:,} of {settings.width:,} values, {settings.contents}{removed}"),
        ("documents", f"{settings.documents:,}{'' if settings.has_text else ', without texts'}"),
        ("tokens", tokens_line(settings)),
        ("metric", settings.metric),
        ("transform", transform_line(settings)),
        ("type", f"{settings.factory}: {settings.reason}"),
        ("recall", recall_line(settings)),
        ("model", settings.model.name),
        ("query prompt", repr(settings.query_prompt) if settings.query_prompt is not None else None),
        ("sources", "\n".join(source.path for source in settings.sources)),
    ]
    return _Description({"kind": "index", **fields_of(settings)}, rows)


def _describe_table7(folder: Path) -> _Description:
    """Describe a Table 7 (see ``cli/learning/table7.py``): its runs so far, and whether it is finished."""
    runs = sorted(str(path.relative_to(folder / "runs")) for path in folder.glob("runs/*/*.json"))
    finished = (folder / "table7.json").exists()
    rows = [
        ("Table 7", f"{folder}{'' if finished else ' (not finished: run the same command again)'}"),
        ("runs", "\n".join(runs) or "none yet"),
    ]
    return _Description({"kind": "table7", "finished": finished, "runs": runs}, rows)


def _copied_line(features: "FeatureSet") -> str | None:
    """The number of documents whose features the run that finished the set copied from parts of before."""
    copied = features.manifest.times.get("copied", 0) if features.manifest else 0
    return f"{copied:,} of the documents, by the last run" if isinstance(copied, int) and copied else None


def _choice_line(features: "FeatureSet") -> str | None:
    """The task for which ``--layers auto`` chose the layers, and their score; None where it did not."""
    chosen = features.manifest.times.get("chosen") if features.manifest else None
    if not isinstance(chosen, dict):
        return None
    score = next(each["score"] for each in chosen["trials"] if each["layers"] == chosen["layers"])
    return f"chosen for {chosen['task']}: {chosen['measure']} {score:.3f} of {chosen['examples']:,} examples"


def _computer_line(model: "ModelIdentity") -> str | None:
    """The precision and kernels of the first part, and whether the other texts of a batch change a vector's bytes."""
    canary = model.canary
    if canary is None:
        return None
    by = canary.computed_by
    where = "" if by.get("kernels", "none") == "none" else f" by {by['kernels']} kernels"
    company = f"; a text in company has {by['in company']}" if "in company" in by else ""
    return f"in {canary.precision}{where}{company}"


def _places(recipe: Recipe) -> str:
    """The layers of a recipe, and the site within their blocks: ``attn of layers 1, 2``."""
    site = f"{recipe.site} of " if recipe.within_blocks else ""
    return f"{site}layers {', '.join(map(str, recipe.layers))}"


def _basis_note(column: "FeatureColumn") -> str:
    basis = column.basis
    return "" if basis is None else f", by {basis.width} components that keep {basis.kept:.1%}"


def _kept_column_lines(columns: Iterable["KeptColumn"]) -> str | None:
    return "\n".join(f"{column.name}  {column.type}" for column in columns) or None


def _token_counts(features: "FeatureSet") -> str:
    counts = features.counts
    unknown = counts.unknown_tokens / max(counts.tokens, 1)
    shown = f"{counts.tokens:,}; unknown {counts.unknown_tokens:,} ({unknown:.2%})"
    cut = f"; cut off {counts.truncated_tokens:,} in {counts.truncated_documents:,} documents"
    return shown + (cut if counts.truncated_tokens else "")


@dataclass(frozen=True, slots=True)
class _UnfinishedWork:
    """The progress of an unfinished set or of an update, and who is at work on it."""

    status: "RunStatus"
    summary: str
    lines: str | None

    @property
    def is_begun(self) -> bool:
        """Whether somebody is at work on the set, or an update was stopped."""
        return bool(self.status.at_work or self.status.updated_parts)

    @property
    def update(self) -> str | None:
        """The progress of an update of a finished set; None where there is none."""
        if not self.status.updated_parts:
            return None
        made = f"{pluralize(self.status.updated_parts, 'part')} made beside the set"
        return made if self.lines else f"{made}, and nobody is at work: the same extract command goes on"


def _describe_work(folder: "Location", parts: int) -> _UnfinishedWork:
    """Describe the work on an unfinished set, of which ``parts`` parts are there."""
    from bertfeat.core import run_status

    status = run_status(folder)
    lines = "\n".join(f"{worker.task}: {worker.owner}" for worker in status.at_work) or None
    if status.parts is not None:
        share = f"{parts / max(1, status.parts):.0%}"
        return _UnfinishedWork(status, f"{parts:,} of {status.parts:,} parts are there, {share}", lines)
    return _UnfinishedWork(status, "others are at work on it" if lines else "run the same extract command again", lines)


# ── heads ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _describe_head(folder: Path) -> _Description:
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
        "choice": record.choice,
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
        ("chosen of", _tried_layers(record.choice)),
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
    return _Description(value, rows)


def _tried_layers(choice: Mapping[str, object] | None) -> str | None:
    """The layers that a head was given several of, with their scores on the development set."""
    trials = choice.get("trials") if choice else None
    if not isinstance(trials, list):
        return None
    return ", ".join(f"{each['layers']} {each['score']:.3f}" for each in trials)


def kept_line(record: "HeadRecord") -> str | None:
    """The candidate that was kept, and why; if there was no other, its epoch or name; None for a fine-tuned model."""
    if len(record.candidates) == 1 and record.best_epoch:
        return f"epoch {record.best_epoch} of {len(record.history)}"
    if len(record.candidates) < 2:
        return None if record.chosen is None else str(record.chosen)
    return f"{record.chosen}: the least loss of {len(record.candidates)}"


# ── models ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _describe_pretrained(folder: Path) -> _Description:
    """A model that bertfeat pre-trained: what it is, and how it learned."""
    from bertfeat.pretraining import Objective, read_record

    record = read_record(folder)
    if record is None:
        rows = [("model", f"{folder} (not finished: run the same pretrain command again)")]
        return _Description({"kind": "model", "finished": False, "pretraining": None}, rows)
    weights = {name: file.bytes for name, file in record.files.items() if name.endswith(".safetensors")}
    changed = [name for name, size in weights.items() if not _has_size(folder / name, size)]
    if record.identity.settings.goal is Objective.LTR:  # a left-to-right model is no encoder
        known = _Description({"kind": "model"}, [("model", f"{folder}, which reads from left to right")])
    elif changed:  # a model with changed weights may not open
        known = _Description({"kind": "model"}, [("model", str(folder))])
    else:
        known = _describe_model(str(folder), None)
    total = format_size(sum(file.bytes for file in record.files.values()))
    changed_note = f"; {', '.join(changed)} not as written: bertfeat verify {shell_value(folder)}" if changed else ""
    value = {**known.value, "finished": True, "changed": changed, "pretraining": record}
    files = ("files", f"{len(record.files)} with {total}{changed_note}")
    return _Description(value, [*known.rows, *pretraining_rows(record), files])


def _has_size(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


def _told_or_why_not(tell: Callable[[], str]) -> str:
    from bertfeat.errors import ModelError

    try:
        return tell()
    except ModelError as error:
        return f"none ({error})"


def _describe_model(name: str, revision: str | None) -> _Description:
    """The properties of a model, and which of its own settings are used."""
    from bertfeat.core import find_model, planned_path

    model = find_model(name, revision=revision)
    path = planned_path(model)
    pooling = _told_or_why_not(lambda: str(model.pooling))
    sentence = _told_or_why_not(lambda: model.sentence_described)
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
        "sentence": sentence,
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
        ("sentence", sentence),
        ("prompts", "\n".join(f"{key}: {prompt!r}" for key, prompt in model.prompts.items()) or None),
        ("folder", model.folder),
        ("fingerprint", model.fingerprint),
        ("revision", model.revision),
    ]
    return _Description(value, rows)
