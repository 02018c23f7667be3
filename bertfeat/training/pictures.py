"""Pictures beside results: drawn if matplotlib is installed; without it no result is lost."""

from collections.abc import Callable

from bertfeat.errors import BertfeatError, StorageError


def draw_if_possible(draw: Callable[[], object]) -> tuple[str, ...]:
    """Draw a picture; returns a warning if something that it needs is missing.

    Raises:
        StorageError: the file cannot be written.
    """
    try:
        draw()
    except StorageError:
        raise
    except BertfeatError as error:
        return (f"no picture: {error}",)
    return ()
