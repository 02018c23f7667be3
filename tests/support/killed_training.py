"""A training that dies after an epoch, as a killed process would."""

from collections.abc import Callable

from bertfeat.learning import Epoch


class Killed(BaseException):
    """What no part of the training may catch."""


def killing_after(number: int) -> Callable[[Epoch], None]:
    """A ``progress`` that dies when the epoch of that number is told."""

    def on_epoch(epoch: Epoch) -> None:
        if epoch.number == number:
            raise Killed

    return on_epoch
