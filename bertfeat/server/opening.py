"""Opening of a service: folders and names → the index, feature sets, tagger and encoders that it has.

Everything that cannot be served together is refused here, before the server listens.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from bertfeat.arguments import checked
from bertfeat.core import Extractor, FeatureSet, find_model
from bertfeat.errors import UsageError, parameter, pluralize
from bertfeat.io import Address, Location, ResultKind, as_location, result_kind
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
    """Open indexes, feature sets of words and a tagger with the models that made them, or a model alone.

    ``also_models`` are more models, by the names that requests find them by. The first index is the one that requests
    search if they name none; its model, or else that of the first feature set, is the first one.

    Raises:
        UsageError: folders of other kinds, two with one name, a folder of a model that the server does not have, a
            model that is there twice, or a name of two models.
        IndexFolderError, FeatureSetError, HeadError: a folder is not sound.
    """
    kinds = {folder: result_kind(folder) for folder in map(as_location, folders)}
    _refuse_namesakes(kinds)
    indexes = [folder for folder, kind in kinds.items() if kind is ResultKind.INDEX]
    sets = [folder for folder, kind in kinds.items() if kind is ResultKind.FEATURES]
    for folder, kind in kinds.items():
        if kind not in (ResultKind.INDEX, ResultKind.FEATURES):
            raise UsageError("is neither an index nor a feature set", where=folder)
    features = [FeatureSet(_target(folder)) for folder in sets]
    opened = [Index(_target(folder), device=device) for folder in indexes]
    recorded = _recorded_extractor(opened, features, None, model, device)
    extractor = _own_extractor(recorded, model, layers, pooling, precision, device)
    also = {}
    for name, other in (also_models or {}).items():
        check_served_name(name, "also_models")
        fingerprint = find_model(other).fingerprint
        made = _recorded_extractor(opened, features, fingerprint, other, device)
        also[name] = _own_extractor(made, other, layers, pooling, precision, device)
    service = Service(extractor, settings, also=also)
    try:
        service.followed_features = tuple(map(partial(_follow_features, service), sets, features))
        service.followed_indexes = tuple(
            _follow_index(service, folder, index, device) for folder, index in zip(indexes, opened, strict=True)
        )
        if tagger is not None:
            service.followed_tagger = _follow_tagger(service, Path(tagger), device)
    except BaseException:
        service.batcher.close(0.0)
        raise
    return service


def _recorded_extractor(
    indexes: Sequence[Index],
    sets: Sequence[FeatureSet],
    fingerprint: str | None,
    model: str | Path | None,
    device: str | None,
) -> Extractor | None:
    """The extractor that the first index, or else the first feature set, of a model was made by; None if none was.

    Without a ``fingerprint`` it is the first of all. The model is read from ``model``, or else from where it was then.
    """
    for index in indexes:
        if fingerprint in (None, index.settings.model.fingerprint):
            return _recorded_by_index(index, model, device)
    for features in sets:
        header, folder = features.header, features.folder
        if fingerprint in (None, header.model.fingerprint):
            return Extractor.from_record(
                header.model, header.settings, header.columns, name=model, device=device, where=folder
            )
    return None


def _recorded_by_index(index: Index, model: str | Path | None, device: str | None) -> Extractor:
    opened = RecordedVectors.of_index(index.folder, index.settings).open_encoder(model, device)
    assert isinstance(opened, Extractor)
    return opened


def _refuse_namesakes(folders: Iterable[Location]) -> None:
    """Refuse two folders with one name, by which requests choose among them."""
    names = dict[str, Location]()
    for folder in folders:
        if (other := names.setdefault(folder.name, folder)) is not folder:
            remedy = "rename one, or name it by a link of another name"
            raise UsageError(
                f"has the name of {other}, and requests choose folders by name", where=folder, remedy=remedy
            )


def _target(folder: Location) -> Location:
    """The folder that a symbolic link points to now; what is opened of it stays in it when the link is set anew."""
    return folder.resolve() if isinstance(folder, Path) else folder


def _follow_index(service: Service, folder: Location, index: Index, device: str | None) -> Followed[Index]:
    def share_encoder(opened: Index) -> None:
        location = service.model_that_made(opened.settings.model, opened.folder).extractor.location
        opened.encoder = service.share_encoder(_recorded_by_index(opened, location, device))

    def reopen() -> Index:
        opened = Index(_target(folder), device=device)
        service.check_folder(opened.settings.model, folder)
        share_encoder(opened)
        opened.search_vectors(np.ones((1, opened.settings.width)), 1)  # reads what a search reads
        return opened

    service.serve_folder(index.settings.model, index.folder)
    share_encoder(index)
    return Followed(
        folder,
        index,
        version=lambda opened: opened.settings,
        newest=lambda: read_index_settings(folder),
        reopen=reopen,
        describe=lambda opened: f"{opened.settings.version}, {pluralize(opened.count().documents, 'document')}",
    )


def _follow_features(service: Service, folder: Location, features: FeatureSet) -> Followed[FeatureSet]:
    def reopen() -> FeatureSet:
        opened = FeatureSet(_target(folder))
        service.check_folder(opened.header.model, folder)
        return opened

    service.serve_folder(features.header.model, features.folder)
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
        layers=layers or None,
        pooling=pooling,
        precision=precision or own or "auto",
        device=device,
        dtype="float32",
    )
    if recorded is not None and not layers and pooling is None:  # the recorded column, under its recorded name
        documents = [column for column in recorded.columns if column.pooling.per_document]
        extractor.columns = tuple(documents[:1]) or extractor.columns
    return extractor
