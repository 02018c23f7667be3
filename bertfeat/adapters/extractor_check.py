"""The check of every adapter: that its Extractor has one vector for each text."""

from bertfeat.extraction import Extractor


def check_extractor(extractor: Extractor) -> Extractor:
    """Return an Extractor if it has one vector for each text.

    Raises:
        UsageError: an Extractor of tokens, words or several columns.
    """
    extractor.get_embedding_dimension()  # which is of one column
    return extractor
