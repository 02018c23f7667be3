"""Every error that bertfeat raises on purpose, and the exit code of the command that meets it.

::

    BertfeatError                1   something is wrong; the message says what, where, and the remedy
    ├── UsageError               2   an option or argument that cannot be right
    │   └── RecipeError          2   a layer specification that does not parse or does not fit the model
    ├── CorpusError              1   an input that cannot be read at all
    │   └── WrongColumns         2   the first 100 rows all failed: wrong format or wrong column names
    ├── ModelError               1   a model that cannot be found, trusted or loaded
    ├── RowFailed                1   a row failed and ``--strict`` asked to stop at the first
    ├── StorageError             1   a file or folder that cannot be written: no room, no permission, no such folder
    │   └── FolderLocked         1   another run is at work on the folder
    ├── FeatureSetError          1   a folder that is not a sound feature set
    │   ├── SettingsDiffer       1   a run over a folder that was made with other settings
    │   ├── AnotherCorpus        1   a run over a folder that was made from another corpus
    │   ├── Damaged              1   a checksum or the accounting does not hold
    │   └── NotDerivable         2   the stored columns do not contain the recipe that is asked for
    ├── IndexFolderError         1   a folder that is not a sound index, or does not fit its features
    └── TaggerError              1   a folder that is not a sound tagger, or does not fit what it is given

Interruptions are not errors: Ctrl-C ends a command with 130, SIGTERM with 143, both resumable.
A run in which rows failed ends with 3 (:data:`ROWS_FAILED`).
"""

ROWS_FAILED = 3
INTERRUPTED = 130
TERMINATED = 143


class BertfeatError(Exception):
    """Base of all errors that bertfeat raises on purpose."""

    exit_code = 1


class UsageError(BertfeatError):
    """An option or argument that cannot be right."""

    exit_code = 2


class RecipeError(UsageError):
    """A layer specification that does not parse or does not fit the model."""


class CorpusError(BertfeatError):
    """An input that cannot be read at all."""


class WrongColumns(CorpusError):
    """The first rows of a corpus all failed: wrong format or wrong column names."""

    exit_code = 2


class ModelError(BertfeatError):
    """A model that cannot be found, trusted or loaded."""


class RowFailed(BertfeatError):
    """A row failed and ``--strict`` asked to stop at the first."""


class StorageError(BertfeatError):
    """A file or folder that cannot be written."""


class FolderLocked(StorageError):
    """Another run is at work on the folder."""


class FeatureSetError(BertfeatError):
    """A folder that is not a sound feature set."""


class SettingsDiffer(FeatureSetError):
    """A run over a folder that was made with other settings."""


class AnotherCorpus(FeatureSetError):
    """A run over a folder that was made from another corpus."""


class Damaged(FeatureSetError):
    """A checksum or the accounting does not hold."""


class NotDerivable(FeatureSetError):
    """The stored columns do not contain the recipe that is asked for."""

    exit_code = 2


class IndexFolderError(BertfeatError):
    """A folder that is not a sound index, or does not fit its features."""


class TaggerError(BertfeatError):
    """A folder that is not a sound tagger, or does not fit what it is given."""
