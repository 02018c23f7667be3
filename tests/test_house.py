"""The rules of the house: who may import whom, what stays light, what must be written down."""

import ast
import functools
import graphlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

import bertfeat
import bertfeat.learning
from bertfeat import core, errors, io
from bertfeat.cli import main

ROOT = Path(__file__).parent.parent

# A room imports only from rooms above it. The ground knows nothing of texts and vectors. Rooms of the core see each
# other by their own doors; the applications below them take names from ``bertfeat.core`` alone.
GROUND = ("errors", "display", "progress", "arguments", "options", "ragged", "io")
CORE = (
    "engine",
    "korean",
    "words",
    "spans",
    "recipe",
    "grammar",
    "derivation",
    "corpus",
    "models",
    "tokens",
    "encoder",
    "features",
    "extraction",
    "environment",
)
APPLICATIONS = (
    "contexts",
    "where",
    "scale",
    "search",
    "usages",
    "study",
    "plots",
    "learning",
    "pretraining",
    "server",
    "adapters",
)
ROOMS = (*GROUND, *CORE, *APPLICATIONS)

# The names that the core gives, and its ground of files; the numbers may only fall.
GIVEN = 128
GIVEN_OF_FILES = 81

# The rooms in which a heavy library may be imported.
HOMES: dict[str, set[str]] = {
    "click": {"cli"},
    "faiss": set(),  # search/vectors/faiss_import.py imports it by its name
    "fastapi": {"server"},
    "kiwipiepy": {"korean"},
    "lance": {"search"},
    "matplotlib": {"plots"},
    "obstore": {"io"},
    "prometheus_client": {"server"},
    "pyarrow": {"corpus", "contexts", "features", "where", "search", "usages", "server"},
    "qdrant_client": {"search"},
    "ray": {"scale"},
    "rich": {"cli"},
    "torch": {"adapters", "encoder", "extraction", "learning", "pretraining"},
    "starlette": {"server"},
    "transformers": {"models", "tokens", "encoder", "learning", "pretraining"},
    "uvicorn": {"server"},
}

# The extras that the Makefile installs for tests.
INSTALLED_EXTRAS = (
    *("minilm", "faiss", "analysis", "evaluate", "finetune", "cloud", "ray", "lance", "qdrant", "serve"),
    "korean",
)

MODULES = sorted([*(ROOT / "bertfeat").rglob("*.py"), *(ROOT / "cli").rglob("*.py")])


def room_of(path: Path) -> str:
    return room_in(path.relative_to(ROOT).with_suffix("").parts)


def room_in(parts: Sequence[str]) -> str:
    """The room of a file's path, or of a dotted name."""
    if parts[0] == "cli":
        return "cli"
    return parts[2] if parts[1] == "core" and len(parts) > 2 and parts[2] in CORE else parts[1]


@functools.cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Everything in a module, from the outside inwards."""
    return tuple(ast.walk(ast.parse(path.read_text())))


@functools.cache
def imports(path: Path) -> tuple[str, ...]:
    """Every dotted name that a module imports, relative ones resolved."""
    return imported_names(path, nodes(path))


def imported_names(path: Path, inner: tuple[ast.AST, ...]) -> tuple[str, ...]:
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    found: list[str] = []
    for node in inner:
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *((node.module or "").split(".") if node.module else ())))
            found += (f"{module}.{alias.name}" for alias in node.names)
    return tuple(found)


def test_the_tree_of_errors_is_drawn_as_it_is() -> None:
    classes = [node for path in MODULES for node in nodes(path) if isinstance(node, ast.ClassDef)]
    tree: dict[str, tuple[str, int]] = {"BertfeatError": ("", 1)}  # name → parent, exit code
    before = -1
    while before != len(tree):  # a parent may stand in a later module
        before = len(tree)
        for node in classes:
            parent = next((base.id for base in node.bases if isinstance(base, ast.Name) and base.id in tree), None)
            if parent is not None:
                own = re.search(r"^exit_code = (\d+)$", "\n".join(map(ast.unparse, node.body)), re.MULTILINE)
                tree[node.name] = parent, int(own[1]) if own else tree[parent][1]
    drawn: dict[str, tuple[str, int]] = {}
    above: list[str] = []
    for branch, name, code in re.findall(r"^    ([│├└─ ]*)(\w+Error) +(\d) ", errors.__doc__ or "", re.MULTILINE):
        above[len(branch) // 4 :] = [name]
        drawn[name] = "".join(above[-2:-1]), int(code)
    assert drawn == tree


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def names(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_rooms_import_only_from_rooms_above() -> None:
    strangers = {}
    for path in MODULES:
        room = room_of(path)
        if room not in ("__init__", "__main__", "core", "cli"):
            assert room in ROOMS, f"{names(path)} belongs to no room; give it a place in ROOMS"
            allowed = {*ROOMS[: ROOMS.index(room) + 1], "__version__", *({"core"} if room in APPLICATIONS else ())}
            imported = {room_in(name.split(".")) for name in imports(path) if name.startswith("bertfeat.")}
            strangers[names(path)] = imported - allowed
    assert {path: rooms for path, rooms in strangers.items() if rooms} == {}


def test_rooms_are_entered_by_their_doors() -> None:
    inner = set()
    for path in MODULES:
        for name in imports(path):
            parts = name.split(".")
            if (
                parts[0] == "bertfeat"
                and len(parts) > 1
                and room_in(parts) in {"io", *CORE, *APPLICATIONS} - {room_of(path)}
            ):
                deep = len(parts) > (4 if parts[1] == "core" else 3)
                if deep or (parts[1] == "core" and room_of(path) not in CORE):
                    inner.add(f"{names(path)}: {name}")
    assert inner == set(), "import it from the door: of a room its __init__, of the core bertfeat.core"


def test_the_core_gives_what_is_taken_and_no_more() -> None:
    outside = [path for path in MODULES if room_of(path) not in CORE] + [ROOT / "bertfeat" / "__init__.pyi"]
    taken = {name.split(".")[2] for path in outside for name in imports(path) if name.startswith("bertfeat.core.")}
    pages = "".join(path.read_text() for path in (ROOT / "docs").glob("*.md"))
    lists = re.findall(r"^from bertfeat\.core import (.*)", pages, re.MULTILINE)
    told = {name for listed in lists for name in listed.split(", ")}
    assert taken | told == set(dir(core))
    assert len(dir(core)) == GIVEN, "fewer are good news: write the number down"


def test_the_ground_of_files_gives_what_is_taken_and_no_more() -> None:
    others = [path for path in MODULES if room_of(path) != "io"]
    taken = {name.split(".")[2] for path in others for name in imports(path) if name.startswith("bertfeat.io.")}
    assert taken == set(io.__all__)
    assert len(taken) == GIVEN_OF_FILES, "fewer are good news: write the number down"


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports inside of functions count, those for types alone do not."""
    modules = {names(path).removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in MODULES}
    graph: dict[str, set[str]] = {}
    for module, path in modules.items():
        for_types = {
            name
            for node in nodes(path)
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            for name in imported_names(path, tuple(ast.walk(node)))
        }
        wanted = set(imports(path)) - for_types
        graph[module] = {name if name in modules else name.rpartition(".")[0] for name in wanted} & modules.keys()
    tuple(graphlib.TopologicalSorter(graph).static_order())  # a circle is an error that names it


def test_heavy_libraries_are_imported_in_their_homes_alone() -> None:
    found: dict[str, set[str]] = {library: set() for library in HOMES}
    for path in MODULES:
        for library in {name.split(".")[0] for name in imports(path)} & set(HOMES):
            found[library].add(room_of(path))
    assert found == HOMES


def homonyms(kind: type[ast.AST] | tuple[type[ast.AST], ...], *, nested: bool) -> dict[str, list[str]]:
    """The names, without their leading underscores, that are defined in more than one module."""
    homes: dict[str, set[str]] = {}
    for path in MODULES:
        module, *inner = nodes(path)
        assert isinstance(module, ast.Module)
        for node in inner if nested else module.body:
            if isinstance(node, kind):
                homes.setdefault(node.name.lstrip("_"), set()).add(names(path))  # type: ignore[attr-defined]
    return {name: sorted(where) for name, where in homes.items() if len(where) > 1}


def test_a_class_name_means_one_thing() -> None:
    assert homonyms(ast.ClassDef, nested=True) == {}


def test_a_function_name_means_one_thing() -> None:
    # "command" is what a module of a command is asked for
    assert homonyms(ast.FunctionDef, nested=False).keys() <= {"command"}


def test_annotations_seldom_say_any() -> None:
    names_of_any = (node for path in MODULES for node in nodes(path) if isinstance(node, ast.Name) and node.id == "Any")
    assert sum(1 for _ in names_of_any) <= 60


def test_no_six_lines_stand_in_two_rooms() -> None:
    seen: dict[tuple[str, ...], Path] = {}
    twice = []
    for path in MODULES:
        lines = [line.strip() for line in path.read_text().splitlines()]
        lines = [line for line in lines if re.search(r"\w", line) and not line.startswith(("import ", "from ", "#"))]
        for at in range(len(lines) - 5):
            run = tuple(lines[at : at + 6])
            first = seen.setdefault(run, path)
            if room_of(first) != room_of(path):
                twice.append((names(first), names(path), run[0]))
    assert twice == []


def test_every_folder_is_listed_as_a_package() -> None:
    setuptools = pyproject()["tool"]["setuptools"]
    folders = {".".join(path.parent.relative_to(ROOT).parts) for path in ROOT.glob("bertfeat/**/*.py")}
    assert sorted(setuptools["packages"]) == sorted(folders | {"bertfeat.cli", "bertfeat.cli.learning"})
    assert setuptools["package-dir"] == {"bertfeat.cli": "cli"}


def test_every_source_of_the_kernels_is_listed() -> None:
    extensions = pyproject()["tool"]["setuptools"]["ext-modules"]
    assert {extension["name"] for extension in extensions} >= {"bertfeat.core.encoder._kernels"}
    for extension in extensions:
        folder = Path(*extension["name"].split(".")[:-1]) / "csrc"
        for ending, listed in (("c", extension["sources"]), ("h", extension.get("depends", []))):
            assert listed == sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(f"{folder}/*.{ending}"))


@pytest.mark.parametrize("folder", sorted({path.parent for path in MODULES}), ids=names)
def test_every_package_has_an_init(folder: Path) -> None:
    assert (folder / "__init__.py").is_file()


@pytest.mark.parametrize("package", [bertfeat, core, bertfeat.learning], ids=lambda package: package.__name__)
def test_public_names_are_sorted_and_honest(package: ModuleType) -> None:
    assert package.__all__ == sorted(package.__all__)
    assert dir(package) == package.__all__
    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        package.nonsense  # noqa: B018


@pytest.mark.parametrize("package", [bertfeat, core], ids=lambda package: package.__name__)
def test_no_public_name_is_also_a_module(package: ModuleType) -> None:
    # a lazily exported function and a module of one name would be had by turns
    modules = {path.stem for path in Path(package.__file__ or "").parent.iterdir()}
    assert modules & set(dir(package)) == set()


def loaded_by(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter has loaded after ``code``."""
    told = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print('LOADED', *sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return {name.split(".")[0] for name in told.split("LOADED")[-1].split()}


HELP = "import sys; from bertfeat.cli import main; sys.argv = {argv!r}; main(standalone_mode=False)"


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "code",
    [
        pytest.param("import bertfeat", id="import"),
        pytest.param(HELP.format(argv=["bertfeat", "--help"]), id="help"),
        *(
            pytest.param(HELP.format(argv=["bertfeat", verb, "--help"]), id=f"{verb} help")
            for verb in main.list_commands(click.Context(main))
        ),
    ],
)
def test_nothing_heavy_on_the_way_to_the_help(code: str) -> None:
    assert loaded_by(code) & {*HOMES, "numpy", "sklearn", "scipy"} <= {"click"}


def test_reading_features_needs_no_model_libraries() -> None:
    assert (
        loaded_by("import bertfeat.core.features, bertfeat.core.corpus") & {"torch", "transformers", "faiss"} == set()
    )


def test_the_help_loads_few_modules() -> None:
    code = f"{HELP.format(argv=['bertfeat', '--help'])}\nprint('LOADED', len(sys.modules))"
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert int(told.split()[-1]) < 300  # of which each takes about a millisecond


def test_dependencies_are_pinned_by_name_and_version_only() -> None:
    pins = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert pins[0] == "torch==2.13.0"
    assert [pin for pin in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", pin)] == []
    project = pyproject()["project"]
    extras, groups = project["optional-dependencies"], pyproject()["dependency-groups"]
    wanted = [
        *project["dependencies"],
        *(name for extra in INSTALLED_EXTRAS for name in extras[extra]),
        *(name for group in groups.values() for name in group if isinstance(name, str)),
    ]
    pinned = {canonical(pin) for pin in pins}
    assert [name for name in wanted if canonical(name) not in pinned] == []


def canonical(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[^A-Za-z0-9._-]", requirement)[0]).lower()


MAP = (ROOT / "docs" / "architecture.md").read_text()


def test_the_map_has_every_room_in_their_order() -> None:
    table = MAP[MAP.index("## Rooms") : MAP.index("## From line to cell")]
    rooms = [name for line in table.splitlines() if line.startswith("| `") for name in re.findall(r"`(\w+)`", line)]
    listed = [name for name in rooms if name in ROOMS]
    assert listed == list(ROOMS)


def test_every_file_of_the_map_is_there() -> None:
    files = set(re.findall(r"`([a-z_0-9/]+\.pyi?)`", MAP))
    modules = {names(path) for path in [*MODULES, *(ROOT / "bertfeat").rglob("*.pyi"), *ROOT.glob("*/*.py")]}
    modules |= {names(path) for path in (ROOT / "tests").rglob("*.py")}
    assert {
        file for file in files if not any(module.endswith(f"/{file}") or module == file for module in modules)
    } == set()


def test_the_glossary_is_short() -> None:
    nouns = re.findall(r"^\| ([a-z ]+) \|", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    assert 20 <= len([noun for noun in nouns if noun != "noun"]) <= 35


def test_docstrings_have_no_tables_of_restructured_text() -> None:
    """The site is written in Markdown, which shows them as they are."""
    ruled = re.compile(r"^\s*=+(?: +=+)+\s*$", re.MULTILINE)
    assert [names(path) for path in MODULES if ruled.search(path.read_text())] == []
