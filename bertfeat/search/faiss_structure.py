"""What a FAISS index is made of, so that one that was read can be held against the factory string of its settings."""

from itertools import zip_longest
from typing import Any

from bertfeat.errors import UsageError
from bertfeat.search import faiss_index
from bertfeat.search.faiss_factory import create_faiss_index
from bertfeat.search.faiss_import import faiss
from bertfeat.search.faiss_transforms import chained_transforms
from bertfeat.search.index_types import clusters_named
from bertfeat.search.settings import IndexSettings

FaissPart = tuple[str, ...]  # the name of a class, and numbers that its instances have before they are trained

_ALIKE = {  # FAISS makes the one and reads the other back, or the other way round
    "IndexFlatIP": "IndexFlat",
    "IndexFlatL2": "IndexFlat",
    "IndexRefineFlat": "IndexRefine",
    "OPQMatrix": "LinearTransform",
}
_INNER = ("index", "base_index", "refine_index", "storage", "quantizer")
_NUMBERS = ("d", "metric_type", "code_size", "nlist", "nbits")
_NOTHING = ("nothing",)


def find_mismatch(index: Any, settings: IndexSettings, *, whole: bool) -> str | None:
    """What an index is that its factory string does not make: the ``whole`` of it, or its outermost class alone.

    None if it is what it should be.
    """
    clusters, inverted = clusters_named(settings.factory), faiss_index.inverted_index(index)
    if clusters and (inverted is None or inverted.nlist != clusters):
        return f"it does not have the lists of {settings.factory}"  # and so many are not made only to see it
    try:
        made = create_faiss_index(settings.factory, settings.width, settings.metric)
    except UsageError as error:
        return str(error)
    for found, expected in zip_longest(faiss_parts(index), faiss_parts(made), fillvalue=_NOTHING):
        if found[0] != expected[0] or (whole and found != expected):
            return f"it is {' '.join(found)}, where {settings.factory} has {' '.join(expected)}"
        if not whole:
            break
    return None


def faiss_parts(index: Any) -> list[FaissPart]:
    """The parts of an index from the outside in: those that transform, list, refine and store its vectors."""
    index = faiss.downcast_index(index)
    parts = [_describe_part(index, _NUMBERS)]
    if isinstance(index, faiss.IndexPreTransform):
        parts += [_describe_part(step, ("d_in", "d_out")) for step in chained_transforms(index)]
    for name in _INNER:
        inner = getattr(index, name, None)
        if inner is not None:
            parts += faiss_parts(inner)
    return parts


def _describe_part(part: Any, numbers: tuple[str, ...]) -> FaissPart:
    name = type(part).__name__
    return (_ALIKE.get(name, name), *(f"{each} {getattr(part, each)}" for each in numbers if hasattr(part, each)))
