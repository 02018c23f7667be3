"""The parts of a FAISS index, to compare an index that was read with the factory string of its settings."""

from itertools import zip_longest

from bertfeat.errors import UsageError
from bertfeat.search.settings import IndexSettings
from bertfeat.search.vectors import faiss_index
from bertfeat.search.vectors.faiss_factory import create_faiss_index
from bertfeat.search.vectors.faiss_import import FaissIndex, faiss
from bertfeat.search.vectors.faiss_transforms import chained_transforms
from bertfeat.search.vectors.index_types import clusters_named
from bertfeat.search.vectors.whitening import new_matrix, with_transform

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


def find_mismatch(index: FaissIndex, settings: IndexSettings, *, whole: bool) -> str | None:
    """Describe how the ``whole`` index, or its outermost class alone, differs from what its factory string makes.

    None if it does not differ.
    """
    clusters, inverted = clusters_named(settings.factory), faiss_index.inverted_index(index)
    if clusters and (inverted is None or inverted.nlist != clusters):
        return f"it does not have the lists of {settings.factory}"  # compared by number, because making so many is slow
    try:
        expected = create_faiss_index(settings.factory, settings.stored_width, settings.metric)
    except UsageError as error:
        return str(error)
    if settings.transform is not None:
        expected = with_transform(expected, new_matrix(settings.transform, settings.width), settings.metric)
    for part, right in zip_longest(faiss_parts(index), faiss_parts(expected), fillvalue=_NOTHING):
        if part[0] != right[0] or (whole and part != right):
            return f"it is {' '.join(part)}, where {settings.factory} has {' '.join(right)}"
        if not whole:
            break
    return None


def faiss_parts(index: FaissIndex) -> list[FaissPart]:
    """The parts of an index from the outside in: those that transform, list, refine and store its vectors."""
    plain = faiss.downcast_index(index)
    parts = [_describe_part(plain, _NUMBERS)]
    if isinstance(plain, faiss.IndexPreTransform):
        parts += [_describe_part(step, ("d_in", "d_out", "eigen_power")) for step in chained_transforms(plain)]
    for name in _INNER:
        inner = getattr(plain, name, None)
        if inner is not None:
            parts += faiss_parts(inner)
    return parts


def _describe_part(part: object, numbers: tuple[str, ...]) -> FaissPart:
    name = type(part).__name__
    return (
        _ALIKE.get(name, name),
        *(f"{number} {getattr(part, number)}" for number in numbers if hasattr(part, number)),
    )
