"""An adapter for txtai: an Extractor as the function that computes the vectors of an index."""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from bertfeat.adapters import check_extractor
from bertfeat.arguments import checked
from bertfeat.core import Extractor, StoredEncoder


@checked
def txtai_transform(
    extractor: Extractor | StoredEncoder, *, normalize_embeddings: bool = False
) -> Callable[[Iterable[str]], NDArray[np.float32]]:
    """Return a function for txtai to call with texts, both queries and documents.

    ::

        from bertfeat.adapters.txtai import txtai_transform
        embeddings = Embeddings(method="external", transform=txtai_transform(Extractor()))

    ``transform=extractor.encode`` does not work: txtai calls anything that is not a plain function without texts, and
    expects a function as the result.
    """
    valid = check_extractor(extractor)

    def transform(texts: Iterable[str]) -> NDArray[np.float32]:
        """Embed texts. Shape: ``[n, width]``."""
        return valid.encode(texts, normalize_embeddings=normalize_embeddings)

    return transform
