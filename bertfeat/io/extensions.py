"""Extensions: objects that other packages register as entry points."""

from collections.abc import Iterator

from bertfeat.errors import BertfeatError

CORRECT_EXTENSION = "uninstall the package that registers it, or correct it"
"""The remedy for an entry point that cannot be used."""


def load_extensions(group: str, error: type[BertfeatError]) -> Iterator[tuple[str, object]]:
    """Load what the entry points of a group name: each with its place (``package.module:name``), for messages.

    Raises:
        BertfeatError: of that class; an entry point cannot be loaded.
    """
    from importlib.metadata import entry_points  # here, because it takes longer to import than all of this room

    for entry in entry_points(group=group):
        try:
            loaded = entry.load()
        except (ImportError, AttributeError, SyntaxError) as cause:
            problem = f"the entry point {entry.name} of {group} cannot be loaded ({cause})"
            raise error(problem, where=entry.value, remedy=CORRECT_EXTENSION) from cause
        yield entry.value, loaded
