"""Every public call with one wrong argument at a time: it succeeds, or says what is wrong, and never fails inside."""

import enum
import functools
import importlib
import inspect
import logging
import os
import random
import re
import shutil
import signal
import sys
import typing
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from typing_extensions import TypeAliasType

import bertfeat
from bertfeat.arguments import checked
from bertfeat.core.corpus import memory_corpus
from bertfeat.errors import BertfeatError, MissingLibraryError, UsageError
from bertfeat.server import ServerSettings
from tests.support.public_calls import CALLS, METHOD_OWNERS, PACKAGE, PublicWorld, checked_names
from tests.support.tiny_models import Tiny

ROOT = PACKAGE.parent
SAMPLE = 400  # calls of all that make hostile makes


class Unrelated:
    """A class that has nothing to do with anything."""


WRONG: dict[str, Callable[[], object]] = {
    "None": lambda: None,
    "True": lambda: True,
    "-1": lambda: -1,
    "0": lambda: 0,
    "1.5": lambda: 1.5,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "10**30": lambda: 10**30,
    "int64(3)": lambda: np.int64(3),
    "float32(2)": lambda: np.float32(2),
    "empty text": lambda: "",
    "zzz": lambda: "zzz",
    "null character": lambda: "\x00",
    "surrogate": lambda: "\ud800",
    "bytes": lambda: b"x",
    "[]": lambda: [],
    "{}": lambda: {},
    "set()": set,
    "[None]": lambda: [None],
    "[1.5]": lambda: [1.5],
    "['zzz']": lambda: ["zzz"],
    "(0, 1)": lambda: (0, 1),
    "[[1], [2, 3]]": lambda: [[1], [2, 3]],
    "array of int": lambda: np.array([1, 2]),
    "array of float": lambda: np.array([[1.5]]),
    "array of text": lambda: np.array(["a"]),
    "array of bool": lambda: np.array([True]),
    "array of objects": lambda: np.array([object(), None]),
    "no such path": lambda: Path("/dev/null/nowhere"),
    "object": object,
    "class": lambda: Unrelated,
    "lambda": lambda: lambda: None,
    "generator": lambda: (each for each in ("zzz",)),
    "range": lambda: range(2),
}


@functools.cache
def public_callables() -> dict[str, Callable[..., object]]:
    """Everything public that takes arguments, by ``function``, ``Class`` or ``Class.method``.

    Public is what ``bertfeat`` exports, and what ``@checked`` stands on; adapters only where their libraries are there.
    An enum's lookup by value is Python's own, a protocol is never called, and errors are raised, not made by users.
    """
    found: dict[str, Callable[..., object]] = {}
    for name, module in (checked_names() | dict.fromkeys(dir(bertfeat), "bertfeat")).items():
        try:
            public = getattr(importlib.import_module(module), name)
        except MissingLibraryError:
            assert module.startswith("bertfeat.adapters.")
            continue
        if not isinstance(public, type):
            found[name] = public
        elif not issubclass(public, enum.Enum | BaseException) and not getattr(public, "_is_protocol", False):
            found[name] = public
            for method, function in inspect.getmembers(public, callable):
                ours = str(getattr(function, "__module__", "")).startswith("bertfeat.")
                public_method = ours and (not method.startswith("_") or method in ("__getitem__", "__call__"))
                known = module == "bertfeat" or is_checked(function)
                if public_method and known and parameters_of(function, bound=inspect.isfunction(function)):
                    found[f"{name}.{method}"] = function
    return found


def is_checked(function: object) -> bool:
    """Whether ``@checked`` stands on a function, perhaps below another decorator."""
    of_checks = getattr(checked(is_checked), "__code__", "")
    while function is not None and getattr(function, "__code__", None) is not of_checks:
        function = getattr(function, "__wrapped__", None)
    return function is not None


def parameters_of(function: Callable[..., object], *, bound: bool = False) -> list[str]:
    """The names of all arguments, those that a TypedDict names among them; of a class those of its own constructor."""
    constructor = getattr(function, "__init__", None) if isinstance(function, type) else None
    if inspect.isfunction(constructor):  # a metaclass of another library's has a signature of its own
        function, bound = constructor, True
    found: list[str] = []
    for parameter in list(inspect.signature(function).parameters.values())[int(bound) :]:
        if parameter.kind is not parameter.VAR_KEYWORD:
            found.append(parameter.name)
        elif typing.get_origin(parameter.annotation) is typing.Unpack:
            found += typing.get_args(parameter.annotation)[0].__annotations__
    return found


def test_every_public_call_is_tried() -> None:
    found = public_callables()
    adapters = {name for name, module in checked_names().items() if module.startswith("bertfeat.adapters.")}
    assert sorted(CALLS.keys() - adapters) == sorted(found.keys() - adapters)
    assert CALLS.keys() >= adapters
    assert all(is_checked(function) for name, function in found.items() if name[0].islower())


def test_an_argument_that_is_missing_or_too_many_is_an_error_of_python() -> None:
    """It names what was called, also where the arguments are the fields of a settings class."""
    with pytest.raises(TypeError, match=r"^find_usages\(\) missing 1 required positional argument: 'word'$"):
        bertfeat.find_usages("a.features")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^Extractor\.__init__\(\) takes from 1 to 2 positional arguments but 3"):
        bertfeat.Extractor("bert", "last")  # type: ignore[call-arg]


def test_what_the_documentation_imports_is_checked() -> None:
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")]
    text = "\n".join(page.read_text("utf-8") for page in pages if page.name != "architecture.md")
    named = [name for names in re.findall(r"from bertfeat[.\w]* import ([\w, ]+)", text) for name in names.split(", ")]
    named += re.findall(r"bertfeat(?:\.\w+)+\.(\w+)`", text)  # `bertfeat.adapters.scikit_learn.FeatureTransformer`
    for names in re.findall(r"((?:`\w+`(?:, | and )?)+) of\s`bertfeat\.[.\w]+`", text):  # `export_to_lance` of …
        named += re.findall(r"\w+", names.replace(" and ", " "))
    assert {"FeatureTransformer", "export_to_qdrant", "stream_dataset"} <= set(named)
    # the classes of a task and of a format of one's own: the library calls them
    to_inherit_from = {"Task", "Guess", "LineRecordReader", "Format"}
    modules = {path.stem for path in PACKAGE.rglob("*.py")}
    assert set(named) - set(dir(bertfeat)) - checked_names().keys() - modules == to_inherit_from


@pytest.mark.parametrize(
    ("parameter", "value", "kinds"),
    [
        ("layers", "no", (ValueError,)),
        ("device", "zzz", (ValueError,)),
        ("part_rows", 0, (ValueError,)),
        ("part_rows", 10**30, (ValueError,)),
        ("layers", 3.5, (ValueError, TypeError)),
        ("layer", 3, (ValueError, TypeError)),
        ("part_rows", "9", (ValueError, TypeError)),
        ("batch_tokens", 1.5, (ValueError, TypeError)),
    ],
)
def test_wrong_arguments_are_errors_of_python_too(
    tiny: Callable[[str], Tiny], parameter: str, value: object, kinds: tuple[type[Exception], ...]
) -> None:
    """Callers catch ``ValueError``, and of wrong types either; the rest is no ``TypeError``."""
    given: dict[str, Any] = {"device": "cpu", parameter: value}
    rows = {name: given.pop(name) for name in ("part_rows",) if name in given}
    with pytest.raises(UsageError) as raised:
        bertfeat.Extractor(tiny("bert").folder, **given).extract(["a"], "x.features", **rows)
    assert {kind for kind in (ValueError, TypeError) if isinstance(raised.value, kind)} == set(kinds)


def test_a_keyword_that_is_not_there_is_told_with_those_that_are(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    makes: Any = bertfeat.Extractor
    with pytest.raises(TypeError, match=r"^Extractor\(\) has no keyword 'batch_size'; did you mean batch_tokens\? "):
        makes(tiny("bert").folder, batch_size=3)
    extractor: Any = makes(tiny("bert").folder, pooling="token", layers="all", device="cpu")
    with pytest.raises(UsageError, match=r"^encode\(\) has no keyword 'batchsize'; did you mean batch_size\? known"):
        extractor.encode(["a"], batchsize=3)
    extractor.extract(memory_corpus(["a"]), tmp_path / "a.features")
    features: Any = bertfeat.FeatureSet(tmp_path / "a.features")
    with pytest.raises(TypeError, match=r"^vectors\(\) has no keyword 'batch_size'; did you mean batch\? known are"):
        features.vectors("last", batch_size=3)
    with pytest.raises(UsageError, match=r"^encode\(\) has no keyword 'zzz'; known are inputs, sentences, prompt_name"):
        extractor.encode(["a"], zzz=3)


def test_layers_by_number(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    """As in Hugging Face's ``hidden_states``, by NumPy's whole numbers too."""
    given: dict[str, Any] = {"pooling": "mean,token", "precision": "fp32", "dtype": "float32", "device": "cpu"}
    folder = tiny("bert").folder
    three: Any = np.int64(3)
    extractor = bertfeat.Extractor(folder, layers=[0, three, -1, "sum4"], **given)
    named = bertfeat.Extractor(folder, layers="0,3,-1,sum4", **given)
    assert extractor.columns == named.columns
    assert bertfeat.Extractor(folder, layers=2, **given).columns[0].recipe.layers == (2,)
    extractor.extract(memory_corpus(["The river bank.", "He went"]), tmp_path / "a.features")
    features = bertfeat.FeatureSet(tmp_path / "a.features")
    np.testing.assert_array_equal(features.matrix(3, "mean"), features["layer3_mean"])
    (batch,) = features.vectors(3, "token", shuffle=False)
    np.testing.assert_array_equal(batch.matrix, features["layer3_token"])
    np.testing.assert_array_equal(features[0].vector(0), features["layer0_mean"][0])
    (spans,) = features.spans("paragraphs", -1)
    (by_name,) = features.spans("paragraphs", "last")
    np.testing.assert_array_equal(spans.matrix, by_name.matrix)


def test_texts_of_a_wrong_type_are_type_errors(tiny: Callable[[str], Tiny]) -> None:
    extractor = bertfeat.Extractor(tiny("bert").folder, device="cpu")
    wrong: Any
    for wrong in (3, [None], {"a": 1}, b"a", {"a"}, [3]):
        with pytest.raises(TypeError):
            extractor.encode(wrong)


Number = TypeVar("Number", bound=np.generic)
Array = TypeAliasType("Array", np.ndarray[Any, np.dtype[Number]], type_params=(Number,))
Name = TypeAliasType("Name", str)


def test_names_of_types_stand_for_what_they_name() -> None:
    """As NumPy's own arrays are named from 2.5 on, for which Python has to be 3.12."""

    @checked
    def first(values: Array[np.float32] | None, name: Name = "") -> object:
        return name or (None if values is None else values[0])

    assert first([1.5, 2]) == np.float32(1.5)  # type: ignore[arg-type]
    assert first(None, "x") == "x"
    with pytest.raises(UsageError, match="values='a': must be an array or None, not str"):
        first("a")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="name=3: must be a text, not int"):
        first(None, 3)  # type: ignore[arg-type]


def test_a_key_is_not_shown() -> None:
    for given in ("s3cret", [b"s3cret"]):
        with pytest.raises(UsageError, match="api_keys: must be a list") as raised:
            ServerSettings(api_keys=given)  # type: ignore[arg-type]
        assert "s3cret" not in str(raised.value)


TRIED = sorted(CALLS.keys() & public_callables().keys())


@pytest.fixture(scope="module")
def world(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> PublicWorld:
    return PublicWorld(tmp_path_factory.mktemp("public"), tiny("bert").folder)


@pytest.fixture(autouse=True)
def process_as_it_was() -> Iterator[None]:
    """Undo what a server does to its process, whose own it is otherwise."""
    root, loggers = (
        logging.getLogger(),
        list(map(logging.getLogger, ("bertfeat", "bertfeat.server", "uvicorn", "asyncio"))),
    )
    levels, handlers = [each.level for each in (root, *loggers)], [list(each.handlers) for each in (root, *loggers)]
    before = signal.getsignal(signal.SIGTERM), warnings.showwarning, sys.getswitchinterval()
    yield
    for each, level, kept in zip((root, *loggers), levels, handlers, strict=True):
        each.setLevel(level)
        each.handlers[:] = kept
    signal.signal(signal.SIGTERM, before[0])
    warnings.showwarning = before[1]
    sys.setswitchinterval(before[2])


@functools.cache
def cases() -> list[tuple[str, str, str]]:
    """Public name, parameter, and the name of a wrong value."""
    return [
        (name, parameter, wrong)
        for name, function in sorted(public_callables().items())
        for parameter in parameters_of(function, bound="." in name and inspect.isfunction(function))
        for wrong in WRONG
    ]


def call(world: PublicWorld, name: str, changed: dict[str, object]) -> object:
    """Make a valid call with some arguments changed, and read a part of a result that is read bit by bit."""
    owner, _, method = name.partition(".")
    function = getattr(METHOD_OWNERS[owner](world), method) if method else public_callables()[name]
    result: Any = function(**(dict(CALLS[name](world)) | changed))
    if name == "FeatureTransformer":  # scikit-learn has a constructor keep what it is given, which fit checks
        result.fit(["the bank"])
    return list(islice(result, 3)) if isinstance(result, Iterator) else result


@pytest.mark.sampled(22, 30)
@pytest.mark.parametrize("name", TRIED)
def test_the_valid_calls_are_valid(world: PublicWorld, name: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    call(world, name, {})
    assert os.listdir(tmp_path) == []


def fuzz(world: PublicWorld, chosen: list[tuple[str, str, str]], cwd: Path) -> None:
    """Make calls with one wrong argument each, and collect those that end in anything but a result or our own error."""
    outcomes: Counter[str] = Counter()
    bare: list[str] = []
    for name, parameter, wrong in chosen:
        try:
            call(world, name, {parameter: WRONG[wrong]()})
            outcomes["fine"] += 1
        except BertfeatError as error:
            outcomes[type(error).__name__] += 1
        except Exception as error:
            bare.append(f"{name}({parameter}={wrong}): {type(error).__name__}: {str(error)[:120]}")
        for made in cwd.iterdir():  # a text is a relative path too
            shutil.rmtree(made) if made.is_dir() else made.unlink()
    sys.stdout.write(f"{len(chosen):,} calls: {dict(outcomes)}, {len(bare)} bare errors\n")  # shown by pytest -s
    if bare:
        pytest.fail("\n".join(bare), pytrace=False)


def test_one_wrong_argument_at_a_time(world: PublicWorld, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    fuzz(world, random.Random(1).sample(cases(), SAMPLE), tmp_path)


@pytest.mark.hostile
@pytest.mark.parametrize("name", TRIED)
def test_every_wrong_argument(world: PublicWorld, name: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    fuzz(world, [case for case in cases() if case[0] == name], tmp_path)
