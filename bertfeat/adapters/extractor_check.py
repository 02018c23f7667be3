"""The checks of every adapter: of the library that it is for, and of the Extractor that it gets."""

from bertfeat.errors import BertfeatError, UsageError
from bertfeat.extraction import Extractor


class MissingLibraryError(BertfeatError, ImportError):
    """The library that an adapter is for cannot be imported."""

    def __init__(self, package: str, error: ImportError) -> None:
        super().__init__(f"bertfeat's adapter for {package} needs it ({error}): pip install {package}")


def check_extractor(extractor: object) -> Extractor:
    """Return an Extractor if it has one vector for each text.

    Raises:
        UsageError: something else, such as a model's name, or an Extractor of tokens, words or several columns.
    """
    if not isinstance(extractor, Extractor):
        raise UsageError(f"an adapter takes an Extractor, not {type(extractor).__name__}; make one: Extractor('MODEL')")
    extractor.get_embedding_dimension()  # which is of one column
    return extractor
