"""The limits on the rows that may fail before a run stops."""

from collections.abc import Sequence

from bertfeat.corpus import Failure
from bertfeat.errors import BertfeatError, RowFailedError, parameter
from bertfeat.features import FAILURES_NAME, Manifest
from bertfeat.io import Location


class FailureLimits:
    """The limits of one run, and the failures that it has met."""

    def __init__(self, folder: Location, *, strict: bool, most: int | None) -> None:
        """``strict``: none may fail; ``most``: no more than these."""
        self._folder, self._strict, self._most = folder, strict, most
        self._failed = 0

    def check(self, failures: Sequence[Failure], *, final: bool) -> None:
        """Stop if a part's failures, together with those of the parts before it, are too many.

        Raises:
            RowFailedError: the run is strict.
            BertfeatError: too many failed.
        """
        if failures and self._strict:
            raise RowFailedError(failures[0].reason, where=parameter("strict", True))
        if self._most is not None and failures and self._failed + len(failures) > self._most:
            raise BertfeatError(
                f"more than {self._most} rows failed ({parameter('max_failures')}), the last: {failures[-1].reason}",
                remedy=f"the finished parts stay in {self._folder}",
            )
        self._failed += len(failures) if final else 0

    def check_finished(self, manifest: Manifest) -> None:
        """The same for a whole set, of which others have made parts.

        Raises:
            RowFailedError: the run is strict.
            BertfeatError: too many failed.
        """
        remedy = f"{self._folder / FAILURES_NAME} lists them"
        if manifest.failed and self._strict:
            raise RowFailedError(f"{manifest.failed} rows failed", where=parameter("strict", True), remedy=remedy)
        if self._most is not None and manifest.failed > self._most:
            raise BertfeatError(f"more than {self._most} rows failed ({parameter('max_failures')})", remedy=remedy)
