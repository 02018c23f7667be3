"""Folders and names → a service: what is served, by which model."""

from collections.abc import Sequence
from pathlib import Path

from bertfeat.arguments import checked
from bertfeat.errors import UsageError, parameter
from bertfeat.extraction import Extractor
from bertfeat.features import FeatureSet
from bertfeat.io import Address, ResultKind, as_location, result_kind
from bertfeat.learning import Tagger
from bertfeat.search import Index, open_query_encoder
from bertfeat.server.encoder import SharedEncoder
from bertfeat.server.service import Service
from bertfeat.server.settings import ServerSettings


@checked
def open_service(
    folders: Sequence[str | Path | Address],
    settings: ServerSettings,
    *,
    model: str | Path | None = None,
    tagger: str | Path | None = None,
    layers: str | Sequence[str] | None = None,
    pooling: str | Sequence[str] | None = None,
    precision: str | None = None,
    device: str | None = None,
) -> Service:
    """Open an index, feature sets of words and a tagger, all of one model, or a model alone.

    Raises:
        UsageError: folders of other kinds, or several indexes.
        IndexFolderError, FeatureSetError, HeadError: a folder is not sound, or of another model.
    """
    kinds = {folder: result_kind(folder) for folder in map(as_location, folders)}
    indexes = [folder for folder, kind in kinds.items() if kind is ResultKind.INDEX]
    sets = [folder for folder, kind in kinds.items() if kind is ResultKind.FEATURES]
    for folder, kind in kinds.items():
        if kind not in (ResultKind.INDEX, ResultKind.FEATURES):
            raise UsageError("is neither an index nor a feature set", where=folder)
    if len(indexes) > 1:
        raise UsageError("a server has one index", where=indexes[1], remedy="start another server for it")
    features = [FeatureSet(folder) for folder in sets]
    index: Index | None = None
    recorded: Extractor | None = None
    if indexes:
        index = Index(indexes[0], model=model, device=device)
        opened = open_query_encoder(index.vectors.folder, index.settings, model, device)
        assert isinstance(opened, Extractor)
        recorded = opened
    elif features:
        header = features[0].header
        recorded = Extractor.from_record(
            header.model, header.settings, header.columns, name=model, device=device, where=features[0].folder
        )
    extractor = _own_extractor(recorded, model, layers, pooling, precision, device)
    for each in features:
        if each.header.model.fingerprint != extractor.model.fingerprint:
            raise UsageError(
                f"was made by {each.header.model.name}, and this server has {extractor.model.name}",
                where=each.folder,
                remedy="start another server for it",
            )
    service = Service(extractor, settings)
    service.features = tuple(features)
    if index is not None and recorded is not None:
        index.encoder = SharedEncoder(recorded, service.batcher, settings.request_seconds)
        service.index = index
    if tagger is not None:
        service.tagger = Tagger(tagger, model=model or extractor.location, device=device)
    return service


def _own_extractor(
    recorded: Extractor | None,
    model: str | Path | None,
    layers: str | Sequence[str] | None,
    pooling: str | Sequence[str] | None,
    precision: str | None,
    device: str | None,
) -> Extractor:
    """The extractor of requests that say nothing of layers and pooling."""
    if recorded is None:
        return Extractor(
            model,
            layers=layers or "last",
            pooling=pooling,
            precision=precision or "auto",
            device=device,
            dtype="float32",
        )
    if precision is not None and precision != recorded.precision.value:
        raise UsageError(
            f"the index or features were made with {recorded.precision.value}", where=parameter("precision", precision)
        )
    extractor = Extractor(
        recorded.location,
        layers=layers or "last",
        pooling=pooling,
        precision=recorded.precision.value,
        device=device,
        dtype="float32",
    )
    if not layers and pooling is None:  # as recorded, and so named
        documents = [column for column in recorded.columns if column.pooling.per_document]
        extractor.columns = tuple(documents[:1]) or extractor.columns
    return extractor
