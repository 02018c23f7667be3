"""Options: the help text and bounds of each setting, written once, at its field in a settings class.

::

    batch_size: Annotated[int, Option("Sequences in a batch.", least=1, most=1 << 20)] = 32

From this one line follow the check in Python (:func:`check_bounds`), the keyword ``batch_size`` of what is made from
the settings (:func:`takes`), the option ``--batch-size`` of the shell with its help and its environment variable
(``cli/bundles.py``), and its row in ``docs/options.md``.
"""

import dataclasses
import functools
import inspect
import math
import typing
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar, cast, overload

from bertfeat.errors import UsageError, parameter

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Fields = ParamSpec("_Fields")
_Settings = TypeVar("_Settings", covariant=True)
_Result = TypeVar("_Result")
_Owner = TypeVar("_Owner")
_First = TypeVar("_First")

_BEYOND_REACH = 1_000_000  # upper bounds from here on are left out of help texts


class Option(NamedTuple):
    """The description of a setting; a bound that is None does not limit it."""

    help: str  # a sentence; the default and the bounds are added to it
    default: str = ""  # the default in words, where its value does not say it
    basic: bool = False  # whether the help of the shell shows it among the first options
    metavar: str = ""  # the word for a value; "" for the one that its type suggests
    least: float | None = None  # the lower bound, inclusive
    most: float | None = None  # the upper bound, inclusive
    above: float | None = None  # the lower bound, exclusive
    below: float | None = None  # the upper bound, exclusive
    in_bytes: bool = False  # a number of bytes: the shell takes 4G and 500MiB too
    least_typed: int = 1  # with in_bytes: the shell refuses fewer bytes, for which a unit was probably forgotten
    choices: Sequence[str] = ()  # the values among which the shell lets choose; () for those that its type has
    repeated: bool = False  # the shell takes each item of a list by itself: commas do not separate them
    aliases: Sequence[str] = ()  # other names of it in the shell
    python_only: bool = False  # the shell does not set it

    def allows(self, number: float) -> bool:
        """Whether a finite number is within the bounds."""
        return (
            (self.least is None or number >= self.least)
            and (self.most is None or number <= self.most)
            and (self.above is None or number > self.above)
            and (self.below is None or number < self.below)
        )

    def describe_bounds(self, *, for_help: bool = False) -> str:
        """The bounds in words: ``from 8 to 65,536``, ``above 0 and below 1``; "" where there are none.

        A help text leaves out bounds that go without saying: very high ones, and 0 as the only other one.
        """
        most, below = (
            None if bound is None or (for_help and bound >= _BEYOND_REACH) else bound
            for bound in (self.most, self.below)
        )
        if for_help and self.least == 0 and most is below is None:
            return ""
        if self.least is not None and most is not None:
            return f"from {self.least:,} to {most:,}"
        bounds = {"at least": self.least, "above": self.above, "at most": most, "below": below}
        return " and ".join(f"{word} {bound:,}" for word, bound in bounds.items() if bound is not None)


class Setting(NamedTuple):
    """A field of a settings class that has an :class:`Option`."""

    name: str
    type: object  # without the option
    default: Any
    option: Option


@functools.cache
def described_settings(owner: type) -> Sequence[Setting]:
    """The fields of a settings class that have an :class:`Option`, in their order."""
    return tuple(
        Setting(field.name, typing.get_args(field.type)[0], field.default, each)
        for field in dataclasses.fields(owner)
        for each in getattr(field.type, "__metadata__", ())
        if isinstance(each, Option)
    )


def check_bounds(settings: "DataclassInstance") -> None:
    """Check the numbers among the settings against the bounds of their fields; a field's default is always allowed.

    For the ``__post_init__`` of a settings class, which also runs when settings are read from JSON.

    Raises:
        UsageError: a number is out of its bounds.
    """
    prefix = getattr(settings, "parameter_prefix", "")
    for field in described_settings(type(settings)):
        value = getattr(settings, field.name)
        if not isinstance(value, int | float) or value == field.default:
            continue
        where = parameter(f"{prefix}{field.name}", value)
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError("must be a finite number", where=where)
        if not field.option.allows(value):
            raise UsageError(f"must be {field.option.describe_bounds()}", where=where)


class _Taker(Protocol[_Fields, _Settings]):
    """A decorator of a function or a method that takes settings."""

    @overload
    def __call__(self, function: Callable[[_Settings], _Result], /) -> Callable[_Fields, _Result]: ...
    @overload
    def __call__(
        self, function: Callable[[_Owner, _Settings], _Result], /
    ) -> Callable[Concatenate[_Owner, _Fields], _Result]: ...
    @overload
    def __call__(
        self, function: Callable[[_Owner, _First, _Settings], _Result], /
    ) -> Callable[Concatenate[_Owner, _First, _Fields], _Result]: ...


def takes(settings: Callable[_Fields, _Settings]) -> _Taker[_Fields, _Settings]:
    """Decorate a function that takes settings as its last argument: its callers give the fields of their class.

    ::

        @takes(ExtractorSettings)
        def __init__(self, settings: ExtractorSettings) -> None: ...
    """
    make = cast("Callable[..., _Settings]", settings)

    def decorate(function: Callable[..., _Result], /) -> Callable[..., _Result]:
        own = list(inspect.signature(function).parameters.values())[:-1]

        @functools.wraps(function)
        def call(*arguments: object, **keywords: object) -> _Result:
            named = [keywords.pop(each.name) for each in own[len(arguments) :] if each.name in keywords]
            given = (*arguments[: len(own)], *named)
            if len(given) < len(own):
                raise TypeError(f"{function.__qualname__}() lacks the argument {own[len(given)].name!r}")
            try:
                made = make(*arguments[len(own) :], **keywords)
            except TypeError as error:  # an argument that is missing, or one too many
                called = f"{getattr(settings, '__name__', '')}.__init__"
                raise TypeError(str(error).replace(called, function.__qualname__)) from None
            return function(*given, made)

        signature = inspect.signature(settings)
        fields = [each.replace(annotation=_without_option(each.annotation)) for each in signature.parameters.values()]
        call.__dict__["__signature__"] = inspect.Signature([*own, *fields])
        annotations = {each.name: each.annotation for each in (*own, *fields)}
        call.__annotations__ = {name: kind for name, kind in annotations.items() if kind is not inspect.Parameter.empty}
        return call

    return cast("_Taker[_Fields, _Settings]", decorate)


def _without_option(annotation: object) -> object:
    """The type of a field, without its option."""
    return typing.get_args(annotation)[0] if typing.get_origin(annotation) is typing.Annotated else annotation
