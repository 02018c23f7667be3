"""What an index says of itself: ``index.json``, beside the FAISS index."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bertfeat.errors import IndexFolderError
from bertfeat.features import ModelIdentity
from bertfeat.index.metric import Metric
from bertfeat.recipe import FeatureColumn, Operation, Pooling, Recipe

FORMAT_VERSION = 1
SETTINGS_NAME = "index.json"
_REBUILD = "build it again with bertfeat index"


@dataclass(frozen=True, slots=True)
class SourceSet:
    """A feature set that an index was made from."""

    path: str
    documents: int
    digest: str  # of its parts


@dataclass(frozen=True, slots=True)
class FileState:
    """A file of the index as it was written."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Effort:
    """How thoroughly an approximate index is searched: its ``nprobe`` or ``efSearch``."""

    name: str
    value: int
    tuned: bool  # against exact search; else a guess


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How an index does against exact search over the same vectors, on vectors left out of its tuning."""

    recall: Mapping[str, float]  # "1", "10", "100": share of the true nearest that are found
    own: float  # share of the queries, all of them in the index, that find themselves at rank 1
    wanted: float  # recall at 10 that was asked for
    queries: int
    queries_per_second: float
    exact_queries_per_second: float
    threads: int
    vectors: int  # in the index when this was measured


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """Settings and provenance of an index."""

    format_version: int
    column: FeatureColumn  # recipe, pooling, width
    metric: Metric
    type: str  # as asked for
    factory: str  # FAISS's description
    reason: str  # why that one
    model: ModelIdentity
    extraction: Mapping[str, Any]  # settings of the feature sets: how queries are embedded too
    query_prompt: str | None
    sources: tuple[SourceSet, ...]
    count: int  # vectors in index.faiss
    documents: int
    zero_vectors: int
    skipped: int  # tokens and words without a vector of their own
    tombstones: int  # vectors that are in index.faiss but removed
    has_text: bool
    effort: Effort | None  # None: nothing to choose
    evaluation: Evaluation | None
    versions: Mapping[str, str]
    seconds: Mapping[str, float]  # of the build's steps
    files: Mapping[str, FileState] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """Number of values in one vector."""
        return self.column.width

    @property
    def is_exact(self) -> bool:
        """Whether a search compares the query with every whole vector."""
        return self.factory == "Flat"


def write_settings(settings: IndexSettings, folder: Path) -> None:
    """Write ``index.json``."""
    text = json.dumps(settings, default=_plain, indent=1, ensure_ascii=False)
    (folder / SETTINGS_NAME).write_text(text + "\n", encoding="utf-8")


def read_settings(folder: Path) -> IndexSettings:
    """Read ``index.json``.

    Raises:
        IndexFolderError: there is none, it cannot be read, or a newer bertfeat wrote it.
    """
    path = folder / SETTINGS_NAME
    try:
        raw = json.loads(path.read_bytes())
        version = int(raw["format_version"])
    except (FileNotFoundError, NotADirectoryError) as error:
        raise IndexFolderError(
            f"{folder}: this is no index: it has no {SETTINGS_NAME}; bertfeat index makes one from a feature set"
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise IndexFolderError(f"{path}: cannot be read ({error!r}); {_REBUILD}") from error
    if version > FORMAT_VERSION:
        raise IndexFolderError(
            f"{path}: written in format {version} by a newer bertfeat; this one reads formats up to "
            f"{FORMAT_VERSION}: upgrade bertfeat"
        )
    try:
        return _decode(raw)
    except (ValueError, KeyError, TypeError) as error:
        raise IndexFolderError(f"{path}: cannot be read ({error!r}); {_REBUILD}") from error


def _decode(raw: dict[str, Any]) -> IndexSettings:
    column = raw["column"]
    recipe = column["recipe"]
    return IndexSettings(
        **{
            **raw,
            "column": FeatureColumn(
                Recipe(Operation(recipe["operation"]), tuple(recipe["layers"]), recipe["name"]),
                Pooling(column["pooling"]),
                int(column["width"]),
                column["dtype"],
            ),
            "metric": Metric(raw["metric"]),
            "model": ModelIdentity(**raw["model"]),
            "sources": tuple(SourceSet(**source) for source in raw["sources"]),
            "effort": Effort(**raw["effort"]) if raw["effort"] else None,
            "evaluation": Evaluation(**raw["evaluation"]) if raw["evaluation"] else None,
            "files": {name: FileState(**state) for name, state in raw["files"].items()},
        }
    )


def _plain(value: object) -> Any:
    if dataclasses.is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{value!r} has no JSON form")
