"""The state that the page needs before it shows anything: the model, the index, the feature sets of words."""

from collections.abc import Sequence

import bertfeat
from bertfeat.errors import NotDerivableError
from bertfeat.features import FeatureSet
from bertfeat.recipe import Pooling
from bertfeat.search import Index, IndexSettings
from bertfeat.server.page_facets import Facet
from bertfeat.server.service import Service


def describe_service(service: Service, facets: Sequence[Facet] | None) -> dict[str, object]:
    """Describe a service as JSON values; ``facets`` are None while they are read."""
    model = service.extractor.model
    sets = (describe_words(features) for features in service.features)
    return {
        "version": bertfeat.__version__,
        "model": {
            "name": service.name,
            "fingerprint": model.fingerprint,
            "layers": model.num_layers,
            "hidden_size": model.hidden_size,
        },
        "precision": service.extractor.precision.value,
        "index": None if service.index is None else index_state(service.index, facets),
        "features": [each for each in sets if each is not None],
        "tagger": service.tagger is not None,
    }


def index_state(index: Index, facets: Sequence[Facet] | None) -> dict[str, object]:
    """An index: its size and kind, the recall that was measured, and its kept columns."""
    settings = index.settings
    return {
        "name": index.vectors.folder.name,
        "documents": settings.documents,
        "vectors": len(index),
        "unit": settings.column.pooling.unit.value,
        "column": settings.column.name,
        "metric": settings.metric.value,
        "type": settings.type,
        "factory": settings.factory,
        "has_text": settings.has_text,
        "recall": _describe_recall(settings),
        "facets": None if facets is None else [facet.to_json() for facet in facets],
    }


def describe_words(features: FeatureSet) -> dict[str, object] | None:
    """A feature set in which words can be looked up, or None: its columns, and the single layers that they contain."""
    stored = [column for column in features.columns if not column.pooling.per_document]
    if not stored or "text" not in features.names:
        return None
    pooling = Pooling.WORD if any(column.pooling is Pooling.WORD for column in stored) else Pooling.TOKEN
    return {
        "name": features.folder.name,
        "documents": len(features),
        "unit": pooling.unit.value,
        "columns": [column.name for column in stored if column.pooling is pooling],
        "layers": _single_layers(features, pooling),
        "kept": [{"name": column.name, "kind": column.type} for column in features.kept],
    }


def _single_layers(features: FeatureSet, pooling: Pooling) -> list[dict[str, object]]:
    stored = {column.recipe: column.name for column in features.columns if column.pooling is pooling}
    layers: list[dict[str, object]] = []
    for layer in range(features.header.model.num_layers + 1):
        try:
            found = features.find(str(layer), pooling)
        except NotDerivableError:
            continue
        layers.append({"layer": layer, "column": stored.get(found.recipe, found.name)})
    return layers


def _describe_recall(settings: IndexSettings) -> dict[str, object] | None:
    measured = settings.evaluation
    if measured is None:
        return None
    return {
        "at": dict(measured.recall),
        "of": measured.of,
        "own": measured.own,
        "queries": measured.queries,
        "queries_per_second": measured.queries_per_second,
        "exact_queries_per_second": measured.exact_queries_per_second,
        "threads": measured.threads,
        "changed_since": settings.changed_since_evaluation,
    }
