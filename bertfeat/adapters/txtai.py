"""txtai: an Extractor as the function that makes an index's vectors."""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from bertfeat.adapters import check_extractor
from bertfeat.arguments import checked
from bertfeat.extraction import Extractor


@checked
def txtai_transform(
    extractor: Extractor, *, normalize_embeddings: bool = False
) -> Callable[[Iterable[str]], NDArray[np.float32]]:
    """Return the function that txtai calls with texts, both queries and documents.

    ::

        from bertfeat.adapters.txtai import txtai_transform
        embeddings = Embeddings(method="external", transform=txtai_transform(Extractor()))

    ``transform=extractor.encode`` does not work: txtai calls anything but a plain function without texts, to get one.
    """
    checked = check_extractor(extractor)

    def transform(texts: Iterable[str]) -> NDArray[np.float32]:
        """Embed texts. Shape: ``[n, width]``."""
        return checked.encode(texts, normalize_embeddings=normalize_embeddings)

    return transform
