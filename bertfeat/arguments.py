"""Checks of the arguments of public functions, by their annotations, and of ranges of rows.

``@checked`` decorates public functions and classes. At the first call it turns the annotations into checks, which take
about a microsecond per call. Whole numbers are what :func:`operator.index` takes, a list is accepted as a tuple, and
the value of an enum's member as the member. Anything else raises a :class:`~bertfeat.errors.UsageError` or, if it has
the wrong type, a :class:`~bertfeat.errors.WrongTypeError`, which names the parameter, its value (unless it is
:data:`SECRET`) and what is allowed. Limits of numbers, and whether arguments fit together, are checked by the functions
themselves. A missing argument remains Python's ``TypeError``; that of an unknown keyword says which there are.
"""

import enum
import functools
import inspect
import math
import numbers
import operator
import os
import reprlib
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set as AbstractSet
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar, Union, cast

from bertfeat.errors import UsageError, WrongTypeError, did_you_mean, parameter, shorten

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Public = TypeVar("Public")
Given: TypeAlias = Any
"""Anything: a value that a user gives, or an annotation."""

SECRET = object()
"""Beside a type in ``Annotated``: errors do not show the value, which is a key or a password."""

_SHOWN = 80  # most characters of a value in a message
_OPERATORS = frozenset({"__init__", "__getitem__", "__call__"})  # checked, though their names are not public
_NO_SEQUENCES = (str, bytes, bytearray, memoryview, Mapping)


def checked(public: Public) -> Public:
    """Check the arguments of a function, or of a class's constructor and public methods, by their annotations."""
    return cast(Public, _check_class(public) if isinstance(public, type) else _check_function(public))


def checked_methods(public: Public) -> Public:
    """Check the arguments of a class's public methods, but not of its constructor, which loops call."""
    return cast(Public, _check_class(public, skipped="__init__"))


def _check_class(public: Given, skipped: str = "") -> Given:
    for name, member in list(vars(public).items()):
        if name == skipped or (name.startswith("_") and name not in _OPERATORS):
            continue
        if isinstance(member, classmethod | staticmethod):
            setattr(public, name, type(member)(_check_function(member.__func__)))
        elif inspect.isfunction(member):
            prefix = getattr(public, "parameter_prefix", "") if name == "__init__" else ""
            setattr(public, name, _check_function(member, prefix))
    return public


def _check_function(function: Given, prefix: str = "") -> Given:
    checks: _Checks | None = None

    @functools.wraps(function)
    def call(*arguments: object, **keywords: object) -> object:
        nonlocal checks
        if checks is None:
            checks = _read_checks(function, prefix)
        if len(arguments) <= len(checks.positional):  # else the call raises its TypeError
            arguments = tuple(map(_take, arguments, checks.positional))
        if checks.known is not None and not keywords.keys() <= checks.known:
            raise _unknown_keyword(function, arguments, keywords, checks.known)
        by_name = checks.by_name
        for name in keywords:
            if name in by_name:
                keywords[name] = _take(keywords[name], by_name[name])
        return function(*arguments, **keywords)

    return call


class _Allowed(NamedTuple):
    """The values that an annotation allows."""

    expected: str
    """Their name in a message, such as "a whole number"."""
    fit: Callable[[Given], object]
    """Gives a value as the function wants it, or raises :class:`_Misfit`."""
    plain: frozenset[type] = frozenset()
    """Types whose values all fit as they are."""
    secret: bool = False
    """Whether messages must not show the value."""


class _Misfit(Exception):
    """An error for a value that is not allowed, with the problem if that says more than what is expected."""

    def __init__(self, problem: str = "", remedy: str = "", *, wrong_type: bool = False) -> None:
        super().__init__(problem)
        self.problem, self.remedy, self.wrong_type = problem, remedy, wrong_type or not problem


class _Checks(NamedTuple):
    """The checks of a function's arguments; None where everything is allowed."""

    positional: list[tuple[str, _Allowed] | None]
    by_name: dict[str, tuple[str, _Allowed]]
    known: AbstractSet[str] | None  # the keywords that it takes; None: any


def _read_checks(function: Given, prefix: str) -> _Checks:
    """The checks that a function's annotations ask for; messages put ``prefix`` before the names of its arguments."""
    of_arguments = {name: hint for name, hint in function.__annotations__.items() if name != "return"}
    # without the return annotation, which may name a library that is imported for type checkers only
    hinted = types.SimpleNamespace(__annotations__=of_arguments)
    hints = typing.get_type_hints(hinted, function.__globals__, include_extras=True)
    positional, by_name, known = [], {}, dict[str, None]()
    takes_any = False
    for name, argument in inspect.signature(function).parameters.items():
        hint = hints.get(name, object)
        if argument.kind is argument.VAR_KEYWORD:
            takes_any = typing.get_origin(hint) is not typing.Unpack
            named = {} if takes_any else typing.get_type_hints(typing.get_args(hint)[0], include_extras=True)
            by_name.update({key: (key, kind) for key, value in named.items() if (kind := _kind_of(value))})
            known.update(dict.fromkeys(named))
            continue
        if argument.kind in (argument.KEYWORD_ONLY, argument.POSITIONAL_OR_KEYWORD):
            known[name] = None
        if kind := _kind_of(hint):
            by_name[name] = (f"{prefix}{name}", kind)
        if argument.kind in (argument.POSITIONAL_ONLY, argument.POSITIONAL_OR_KEYWORD):
            positional.append(by_name.get(name))
    return _Checks(positional, by_name, None if takes_any else known.keys())


def _unknown_keyword(
    function: Given, arguments: Sequence[object], keywords: Mapping[str, object], known: AbstractSet[str]
) -> WrongTypeError:
    name = type(arguments[0]).__name__ if function.__name__ == "__init__" else function.__name__
    given = next(key for key in keywords if key not in known)
    listed = [key for key in known if key != "self"]
    meant = did_you_mean(given, listed)
    return WrongTypeError(f"{name}() has no keyword {given!r}", remedy=f"{meant}known are {', '.join(listed)}")


def _take(value: object, check: tuple[str, _Allowed] | None) -> object:
    if check is None:
        return value
    name, kind = check
    if type(value) in kind.plain:
        return value
    try:
        return kind.fit(value)
    except _Misfit as misfit:
        plain = f"must be {kind.expected}, not {_type_of(value)}"
        error = WrongTypeError if misfit.wrong_type else UsageError
        if kind.secret:
            raise error(plain, where=parameter(name)) from None
        raise error(misfit.problem or plain, where=parameter(name, _Shown(value)), remedy=misfit.remedy) from None


class _Shown:
    """A value as messages show it: its ``repr``, short, whatever it is."""

    def __init__(self, value: object) -> None:
        try:
            text = " ".join((repr(value[:_SHOWN]) if isinstance(value, str) else reprlib.repr(value)).split())
        except Exception:  # a number of thousands of digits, or a class of the user's
            text = f"<{type(value).__name__}>"
        self._text = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"

    def __repr__(self) -> str:
        return self._text


def _type_of(value: object) -> str:
    return (
        "None" if value is None else f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
    )


# ── what annotations allow ──────────────────────────────────────────────────────────────────────────────────


def _kind_of(hint: Given) -> _Allowed | None:
    """The values that a type allows; None where it allows anything, or the function checks them by itself."""
    hint = _without_alias(hint)
    origin: Given = typing.get_origin(hint)
    arguments = typing.get_args(hint)
    if hint in (Given, object, typing.Self, inspect.Parameter.empty) or isinstance(hint, TypeVar) or origin is Iterable:
        return None  # the function itself checks the items of an iterable, one by one
    if origin in (Union, types.UnionType):
        return _kind_of_union(arguments)
    if origin in (typing.Required, typing.NotRequired):
        return _kind_of(arguments[0])
    if origin is typing.Annotated:
        allowed = _kind_of(arguments[0])
        return allowed and allowed._replace(secret=SECRET in hint.__metadata__)
    if origin is Literal:
        return _one_of({choice: choice for choice in arguments})
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    kind = origin or hint
    if kind is tuple and arguments:
        return _tuple_of(arguments)
    if kind in (Sequence, Collection, list):
        return _items_of(kind, arguments)
    if kind is Callable:
        return _callable_with(arguments)
    if kind.__module__ == "numpy" and kind.__name__ == "ndarray":
        return _array_of(typing.get_args(arguments[1])[0] if arguments else None)
    if issubclass(kind, enum.Enum):
        return _one_of({member.value: member for member in kind}, kind)
    if getattr(kind, "_is_protocol", False):
        return _protocol(kind)
    return _Allowed(
        _with_article(kind.__name__), lambda value: _require(value, isinstance(value, kind)), frozenset({kind})
    )


def _without_alias(hint: Given) -> Given:
    """The type behind a name that a ``type`` statement gives (PEP 695), as NumPy 2.5 names its arrays."""
    origin: Given = typing.get_origin(hint)
    named: Given = origin or hint
    if not hasattr(named, "__value__"):
        return hint
    arguments = typing.get_args(hint)
    return _without_alias(named.__value__[arguments] if arguments else named.__value__)


def _kind_of_union(hints: Sequence[Given]) -> _Allowed | None:
    if any("numpy._typing" in repr(hint) for hint in hints):
        return None  # ArrayLike: anything that NumPy turns into an array
    if any(isinstance(hint, type) and issubclass(hint, enum.StrEnum) for hint in hints):
        hints = [hint for hint in hints if hint is not str]  # a text must be the value of a member
    if str in hints and Path in hints:
        hints = [Path, *(hint for hint in hints if hint not in (str, Path))]
    kinds = [_kind_of(hint) for hint in hints]
    if None in kinds:
        return None
    known = sorted(cast("list[_Allowed]", kinds), key=lambda kind: kind is _NONE)
    expected = " or ".join(filter(None, (", ".join(kind.expected for kind in known[:-1]), known[-1].expected)))

    def fit(value: Given) -> object:
        explained = None
        for kind in known:
            try:
                return kind.fit(value)
            except _Misfit as misfit:
                explained = misfit if misfit.problem else explained
        raise explained or _Misfit(f"must be {expected}, not {_type_of(value)}", wrong_type=True)

    return _Allowed(expected, fit, frozenset().union(*(kind.plain for kind in known)))


def _require(value: Given, fits: bool) -> Given:
    if not fits:
        raise _Misfit
    return value


def _fit_truth(value: Given) -> object:
    _require(value, type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"))
    return bool(value)


def _fit_whole(value: Given) -> object:
    try:
        number = operator.index(_require(value, not isinstance(value, bool)))
    except (TypeError, ValueError, RuntimeError):
        raise _Misfit from None
    if not -(1 << 63) <= number < 1 << 64:
        raise _Misfit("is beyond what 64 bits hold")
    return number


def _fit_real(value: Given) -> object:
    _require(value, isinstance(value, numbers.Real) and not isinstance(value, bool))
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _Misfit("must be a finite number")
    return number


def _fit_path(value: Given) -> object:
    text = os.fspath(_require(value, isinstance(value, str | os.PathLike)))
    _require(value, isinstance(text, str))
    try:
        encoded = os.fsencode(text)
    except UnicodeEncodeError:
        raise _Misfit("is no path: it has half of a character (a lone surrogate)") from None
    if not encoded or b"\0" in encoded:
        raise _Misfit("is no path: it has a null character" if encoded else "is no path: it is empty")
    return value if isinstance(value, str | Path) else Path(text)


_NONE = _Allowed("None", lambda value: _require(value, value is None), frozenset({types.NoneType}))
_SIMPLE: Mapping[Given, _Allowed] = {
    types.NoneType: _NONE,
    str: _Allowed("a text", lambda value: _require(value, isinstance(value, str)), frozenset({str})),
    bool: _Allowed("True or False", _fit_truth, frozenset({bool})),
    int: _Allowed("a whole number", _fit_whole),
    float: _Allowed("a number", _fit_real),
    Path: _Allowed("a path", _fit_path),
}


def _one_of(choices: Mapping[Given, object], *plain: type) -> _Allowed:
    """The values of a Literal, or those of an enum, whose type is in ``plain``: its members fit as they are."""
    listed = ", ".join(repr(value) for value in choices)

    def fit(value: Given) -> object:
        for choice, member in choices.items():
            if isinstance(value, type(choice)) and value == choice:
                return member
        from difflib import get_close_matches

        near = get_close_matches(value, map(str, choices), 1) if isinstance(value, str) else []
        raise _Misfit(f"must be one of {listed}", f"did you mean {near[0]!r}?" if near else "")

    return _Allowed(f"one of {listed}", fit, frozenset(plain))


def _listed(kind: Given, value: Given) -> Sequence[Given]:
    """The items of an ordered collection, or of any if ``kind`` is Collection (of a dict, its keys); not of a text."""
    if kind is Collection and isinstance(value, Mapping):
        return list(value)
    if isinstance(value, list | tuple) or (isinstance(value, kind) and not isinstance(value, _NO_SEQUENCES)):
        return value
    if not isinstance(value, type) and getattr(value, "ndim", 1) == 1:  # an array, a column of a table
        for method in ("tolist", "to_pylist"):
            if callable(listed := getattr(value, method, None)) and isinstance(items := listed(), list):
                return items
    raise _Misfit


def _items_of(kind: Given, arguments: Sequence[Given]) -> _Allowed:
    item = _kind_of(arguments[0]) if arguments else None
    expected = "a list" + (f" (each item {item.expected})" if item else "")

    def fit(value: Given) -> object:
        items = _listed(kind, value)
        if item is None:
            return items
        fitted = [_fit_item(number, one, item) for number, one in enumerate(items)]
        same = all(map(operator.is_, fitted, items))  # the user's own object, where there is nothing to change
        return items if same and not isinstance(items, AbstractSet) else fitted

    return _Allowed(expected, fit)


def _tuple_of(arguments: Sequence[Given]) -> _Allowed:
    repeated = len(arguments) == 2 and arguments[1] is ...
    kinds = [_kind_of(hint) for hint in arguments if hint is not ...]
    named = [kind.expected if kind else "anything" for kind in kinds]
    expected = f"a list (each item {named[0]})" if repeated else f"({', '.join(named)})"

    def fit(value: Given) -> object:
        items = _listed(Sequence, value)
        _require(value, repeated or len(items) == len(kinds))
        each = kinds * len(items) if repeated else kinds
        return tuple(_fit_item(*numbered, kind) for numbered, kind in zip(enumerate(items), each, strict=True))

    return _Allowed(expected, fit)


def _fit_item(number: int, value: Given, kind: _Allowed | None) -> object:
    if kind is None or type(value) in kind.plain:
        return value
    try:
        return kind.fit(value)
    except _Misfit as misfit:
        problem = misfit.problem or f"must be {kind.expected}, not {_type_of(value)}"
        place_and_problem = f"item {number}, {_Shown(value)}, {problem}"
        raise _Misfit(place_and_problem, misfit.remedy, wrong_type=misfit.wrong_type) from None


def _callable_with(arguments: Sequence[Given]) -> _Allowed:
    given = arguments[0] if arguments and isinstance(arguments[0], list) else None

    def fit(value: Given) -> object:
        _require(value, callable(value))
        try:
            signature = inspect.signature(value)
        except (TypeError, ValueError):  # some functions in C have no signature
            return value
        if given is not None:
            try:
                signature.bind(*given)
            except TypeError:
                raise _Misfit(f"must be a function that can be called with {len(given)} arguments") from None
        return value

    return _Allowed("a function", fit)


def _protocol(protocol: Given) -> _Allowed:
    bases = [base for base in protocol.__mro__ if getattr(base, "_is_protocol", False)]
    names = {name for base in bases for name in (*vars(base), *inspect.get_annotations(base))}
    members = sorted(name for name in names if not name.startswith("_") or name == "__call__")

    def fit(value: Given) -> object:
        missing = [name for name in members if not hasattr(value, name)]
        return _require(value, not missing and not isinstance(value, type))

    return _Allowed(f"{_with_article(protocol.__name__.strip('_'))} (with {', '.join(members)})", fit)


def _array_of(wanted: Given) -> _Allowed:
    """An array of numbers of the type ``wanted``, or a list that makes one; whole numbers are also real numbers."""

    def fit(value: Given) -> object:
        import numpy as np

        if wanted in (None, np.generic):
            return _require(value, isinstance(value, np.ndarray))
        _require(value, isinstance(value, np.ndarray | Sequence) and not isinstance(value, _NO_SEQUENCES))
        try:
            array = np.asarray(value)
        except (TypeError, ValueError, RuntimeError, OverflowError):
            raise _Misfit("must be an array, and its lists differ in length or kind", wrong_type=True) from None
        abstract = {np.integer: np.int64, np.floating: np.float64, np.number: np.float64}.get(wanted)
        if issubclass(array.dtype.type, wanted):
            return array
        if array.dtype.kind in "iuf" and (np.can_cast(array.dtype, abstract or wanted, "same_kind") or not array.size):
            return array.astype(abstract or wanted)
        raise _Misfit(f"must be an array of {wanted.__name__} values, not of {array.dtype}", wrong_type=True)

    return _Allowed("an array", fit)


def _with_article(name: str) -> str:
    return f"{'an' if name[:1] in 'AEIOU' else 'a'} {name}"


# ── limits and ranges ─────────────────────────────────────────────────────────────────────────────────────────


def require_at_least(least: int, /, **given: int | None) -> None:
    """Check that numbers, given by the names of their parameters, are at least ``least``; None is not checked.

    Raises:
        UsageError: one of them is less.
    """
    for name, number in given.items():
        if number is not None and number < least:
            raise UsageError(f"must be at least {least}", where=parameter(name, number))


def require_text(text: object, what: str) -> str:
    """Check that something is a text that a model can read, and return it; ``what`` is its name in errors.

    Raises:
        UsageError: it is not a text, is blank, or cannot be encoded as UTF-8.
    """
    if not isinstance(text, str):
        raise WrongTypeError(f"{what} is no text, but {type(text).__name__}")
    if not text.strip():
        raise UsageError(f"{what} is empty")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{what} holds bytes that are no UTF-8 text: {shorten(text)!r}") from None
    return str(text)


def resolve_range(start: int, stop: int | None, count: int) -> range:
    """The range from ``start`` to before ``stop`` of ``count`` rows; a stop of None, or beyond the end, is the end.

    Raises:
        UsageError: a bound that is not a whole number, or is below 0: rows are not counted from the end.
    """
    ends = []
    for name, value in (("start", start), ("stop", count if stop is None else stop)):
        number = cast(int, _take(value, (name, _SIMPLE[int])))
        if number < 0:
            raise UsageError(
                "numbers count from 0, not from the end",
                where=parameter(name, number),
                remedy=f"there are {count:,}, so {parameter(name, max(count + number, 0))} is what that would mean",
            )
        ends.append(min(number, count))
    return range(*ends)


def numbers_below(count: int, numbers: "Sequence[int] | NDArray[np.integer]", what: str) -> "NDArray[np.int64]":
    """Return numbers as a vector, all checked to be from 0 to below ``count``; errors name ``what`` they number.

    Raises:
        UsageError: a number is out of that range, or not a whole number.
    """
    import numpy as np

    try:
        given = np.asarray(numbers)
    except ValueError as error:  # lists of unequal lengths
        raise WrongTypeError(f"the numbers of a {what} are a list or an array: {error}") from None
    if given.dtype.kind not in "iu" and (given.size or given.dtype.kind != "f"):
        raise WrongTypeError(f"the number of a {what} is a whole number, not of type {given.dtype}")
    vector = given.reshape(-1)
    wrong = vector[(vector < 0) | (vector >= count)]
    if len(wrong):
        raise UsageError(f"there is no {what} {wrong[0]}", remedy=f"there are 0 to {count - 1}")
    return vector.astype(np.int64)
