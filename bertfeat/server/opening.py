"""Opening of a service: folders and names → the index, feature sets, tagger and encoders that it has.

Everything that cannot be served together is refused here, before the server listens.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bertfeat.arguments import checked
from bertfeat.core import Extractor, FeatureSet, find_model
from bertfeat.errors import UsageError, parameter, pluralize
from bertfeat.io import Address, ResultKind, as_location, result_kind
from bertfeat.learning import Tagger, read_head_record
from bertfeat.search import Index, RecordedVectors, read_index_settings
from bertfeat.server.following import Followed
from bertfeat.server.service import Service
from bertfeat.server.settings import ServerSettings, check_served_name


@checked
def open_service(
    folders: Sequence[str | Path | Address],
    settings: ServerSettings,
    *,
    model: str | Path | None = None,
    also_models: Mapping[str, str | Path] | None = None,
    tagger: str | Path | None = None,
    layers: str | Sequence[str] | None = None,
    pooling: str | Sequence[str] | None = None,
    precision: str | None = None,
    device: str | None = None,
) -> Service:
    """Open an index, feature sets of words and a tagger with the model that made them, or a model alone.

    ``also_models`` are more models, by the names that requests find them by.

    Raises:
        UsageError: folders of other kinds, several indexes, a folder of a model that the server does not have, a
            model that is there twice, or a name of two models.
        IndexFolderError, FeatureSetError, HeadError: a folder is not sound.
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
        recorded = _recorded_by_index(index, model, device)
    elif features:
        recorded = _recorded_by(features[0], model, device)
    extractor = _own_extractor(recorded, model, layers, pooling, precision, device)
    also = {}
    for name, other in (also_models or {}).items():
        check_served_name(name, "also_models")
        fingerprint = find_model(other).fingerprint
        made = [each for each in features if each.header.model.fingerprint == fingerprint]
        of_set = _recorded_by(made[0], other, device) if made else None
        also[name] = _own_extractor(of_set, other, layers, pooling, precision, device)
    service = Service(extractor, settings, also=also)
    try:
        for each in features:
            service.serve_folder(each.header.model, each.folder)
        service.followed_features = tuple(_follow_features(service, each) for each in features)
        if index is not None and recorded is not None:
            service.serve_folder(index.settings.model, index.folder)
            index.encoder = service.share_encoder(recorded)
            service.followed_index = _follow_index(service, index, model, device)
        if tagger is not None:
            service.followed_tagger = _follow_tagger(service, Path(tagger), device)
    except BaseException:
        service.batcher.close(0.0)
        raise
    return service


def _recorded_by(features: FeatureSet, model: str | Path | None, device: str | None) -> Extractor:
    header = features.header
    return Extractor.from_record(
        header.model, header.settings, header.columns, name=model, device=device, where=features.folder
    )


def _recorded_by_index(index: Index, model: str | Path | None, device: str | None) -> Extractor:
    opened = RecordedVectors.of_index(index.folder, index.settings).open_encoder(model, device)
    assert isinstance(opened, Extractor)
    return opened


def _follow_index(service: Service, index: Index, model: str | Path | None, device: str | None) -> Followed[Index]:
    folder = index.folder

    def reopen() -> Index:
        opened = Index(folder, model=model, device=device)
        service.check_folder(opened.settings.model, folder)
        opened.encoder = service.share_encoder(_recorded_by_index(opened, model, device))
        opened.search_vectors(np.ones((1, opened.settings.width)), 1)  # reads what a search reads
        return opened

    return Followed(
        folder,
        index,
        version=lambda opened: opened.settings,
        newest=lambda: read_index_settings(folder),
        reopen=reopen,
        describe=lambda opened: f"{opened.settings.version}, {pluralize(opened.count().documents, 'document')}",
    )


def _follow_features(service: Service, features: FeatureSet) -> Followed[FeatureSet]:
    folder = features.folder

    def reopen() -> FeatureSet:
        opened = FeatureSet(folder)
        service.check_folder(opened.header.model, folder)
        return opened

    return Followed(
        folder,
        features,
        version=lambda opened: opened.entries,
        newest=lambda: FeatureSet(folder).entries,
        reopen=reopen,
        describe=lambda opened: pluralize(len(opened), "document"),
    )


def _follow_tagger(service: Service, folder: Path, device: str | None) -> Followed[Tagger]:
    def reopen() -> Tagger:
        record = Tagger(folder, device=device).record
        if record.network is None:
            raise UsageError("is a fine-tuned model, and /tag reads features of a model of the server", where=folder)
        served = service.check_folder(record.reads().model, folder)
        return Tagger(folder, model=served.extractor.location, device=device)

    tagger = reopen()
    service.serve_folder(tagger.record.reads().model, folder)
    return Followed(
        folder,
        tagger,
        version=lambda opened: opened.record,
        newest=lambda: read_head_record(folder),
        reopen=reopen,
        describe=lambda opened: pluralize(len(opened.labels.names), "label"),
    )


def _own_extractor(
    recorded: Extractor | None,
    model: str | Path | None,
    layers: str | Sequence[str] | None,
    pooling: str | Sequence[str] | None,
    precision: str | None,
    device: str | None,
) -> Extractor:
    """An extractor of the server, whose columns are those of requests that name no layers and no pooling."""
    own = None if recorded is None else recorded.precision.value
    if own is not None and precision not in (None, own):
        raise UsageError(f"the index or features were made with {own}", where=parameter("precision", precision))
    extractor = Extractor(
        model if recorded is None else recorded.location,
        layers=layers or "last",
        pooling=pooling,
        precision=precision or own or "auto",
        device=device,
        dtype="float32",
    )
    if recorded is not None and not layers and pooling is None:  # the recorded column, under its recorded name
        documents = [column for column in recorded.columns if column.pooling.per_document]
        extractor.columns = tuple(documents[:1]) or extractor.columns
    return extractor
