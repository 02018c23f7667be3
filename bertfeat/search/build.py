"""A feature set becomes an index, in memory bounded by the index itself."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

import bertfeat
from bertfeat.errors import UsageError
from bertfeat.features import FeatureSet
from bertfeat.recipe import FeatureColumn
from bertfeat.search.build_options import BuildOptions, OnBuildProgress, ignore_build_progress
from bertfeat.search.document_store import IndexStoresWriter
from bertfeat.search.faiss_import import faiss
from bertfeat.search.feature_source import FeatureSource
from bertfeat.search.finish import finish_index_folder
from bertfeat.search.index_types import IndexChoice, choose_index
from bertfeat.search.making import Made, make_index
from bertfeat.search.replacement import hold_index_folder
from bertfeat.search.settings import FORMAT_VERSION, IndexSettings
from bertfeat.search.source_sets import describe_source_set


def build_index(
    features: str | Path | FeatureSet | Sequence[str | Path | FeatureSet],
    folder: str | Path,
    column: str | None = None,
    *,
    options: BuildOptions | None = None,
    progress: OnBuildProgress | None = None,
) -> IndexSettings:
    """Build an index over one column of one or several feature sets; the index that was there is replaced at the end.

    Raises:
        UsageError: no vectors, too few of them for the type asked for, or a type that FAISS does not know.
        NotDerivable: there is no such column.
        IndexFolderError: feature sets that cannot share an index, or a vector that is not finite.
        FolderLocked: another run is at work on the folder.
        StorageError: the folder cannot be written.
    """
    options = options or BuildOptions()
    given = [features] if isinstance(features, (str, Path, FeatureSet)) else list(features)
    sets = [each if isinstance(each, FeatureSet) else FeatureSet(each) for each in given]
    with hold_index_folder(folder, new=True) as place:
        source = FeatureSource(sets, column, keep_text=options.keep_text)
        if not source.count:
            raise UsageError(
                f"{sets[0].folder}: there are no vectors of {source.found.name} in it, so nothing to index"
            )
        choice = choose_index(
            options.type, count=source.count, width=source.width, memory=options.memory, recall=options.target_recall
        )
        with place.replacement() as fresh:
            with IndexStoresWriter(fresh, source.schema, per_document=source.per_document) as stores:
                made = make_index(
                    source, choice, options, fresh, keep=stores.write, progress=progress or ignore_build_progress
                )
            return finish_index_folder(_settings(source, choice, options, made, stores.documents), fresh)


def versions() -> dict[str, str]:
    """The versions of what makes an index."""
    return {"bertfeat": bertfeat.__version__, "faiss": faiss.__version__, "pyarrow": pa.__version__}


def _settings(
    source: FeatureSource, choice: IndexChoice, options: BuildOptions, made: Made, documents: int
) -> IndexSettings:
    header, found = source.sets[0].header, source.found
    return IndexSettings(
        format_version=FORMAT_VERSION,
        column=FeatureColumn(found.recipe, found.pooling, found.width, "float32"),
        metric=options.metric,
        type=options.type,
        factory=choice.factory,
        reason=choice.reason,
        model=header.model,
        extraction=header.settings,
        query_prompt=options.query_prompt,
        sources=tuple(describe_source_set(features) for features in source.sets),
        count=made.count,
        documents=documents,
        zero_vectors=made.zero_vectors,
        skipped=source.skipped,
        tombstones=0,
        has_text=options.keep_text and "text" in source.schema.names,
        effort=made.effort,
        evaluation=made.evaluation,
        versions=versions(),
        seconds=made.seconds,
    )
