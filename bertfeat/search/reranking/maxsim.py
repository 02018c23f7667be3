"""MaxSim: how near a document is to a query, token by token.

Each token of the query is compared with every token of the document, and the largest cosine counts. ColBERT sums these
(Khattab and Zaharia 2020, section 3.2); BERTScore takes their mean, weighted by inverse document frequencies (its
recall: Zhang et al. 2020, section 3). It is the mean here, so that scores of short and long queries have one scale.

Shapes: q tokens of a query, n tokens of a document, W values in a vector.
"""

import numpy as np
from numpy.typing import NDArray


def compute_maxsim(query: NDArray[np.float32], weights: NDArray[np.float32], document: NDArray[np.float32]) -> float:
    """The weighted mean over the query's tokens of the largest cosine among the document's.

    Shape: ``[q, W]`` and ``[n, W]``, of length 1 or 0; ``weights`` ``[q]``. 0 where a side has no tokens, or the
    weights are all 0.
    """
    total = float(weights.sum())
    if not len(document) or total == 0:
        return 0.0
    return float((query @ document.T).max(axis=1) @ weights) / total
