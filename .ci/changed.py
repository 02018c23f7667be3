"""Names the tests of what changed since a commit, on one line for pytest: changed.py COMMIT.

The tests of a changed room, command, test, or page; those that import a changed helper; and those of the house.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePath

PAGES = "tests/test_documents.py"


def main(commit: str) -> None:
    """Print the tests."""
    changed = [*said("diff", "--name-only", commit), *said("ls-files", "--others", "--exclude-standard")]
    chosen = {"tests/test_house.py", *(test for path in changed for test in name_tests(PurePath(path)))}
    there = sorted(test for test in chosen if Path(test).exists())
    print(*(test for test in there if not any(str(parent) in chosen for parent in PurePath(test).parents)))


def said(*command: str) -> list[str]:
    """Give the lines that git prints."""
    return subprocess.run(["git", *command], check=True, text=True, stdout=subprocess.PIPE).stdout.splitlines()


def name_tests(path: PurePath) -> Iterator[str]:
    """Give the files and folders of tests for a file of the repository, whether they exist or not."""
    match path.parts:
        case ("bertfeat", name) | ("bertfeat", "core", name):
            yield f"tests/test_{name}"
            yield f"tests/{PurePath(name).stem}"
        case ("bertfeat", "core", room, *_) | ("bertfeat", room, *_):
            yield f"tests/{room}"
        case ("cli", name):  # what serves several commands is tested with all of them
            own = [*Path("tests/cli").glob(f"test_{PurePath(name).stem.split('_')[0]}*.py")]
            yield from map(str, own or ["tests/cli"])
        case ("cli", *_):
            yield "tests/cli"
        case ("tests", "support", *_):
            module = ".".join(path.with_suffix("").parts)
            yield from said("grep", "-l", "-F", f"from {module} import", "--", "tests/**/test_*.py", "tests/test_*.py")
        case ("tests", *_) if path.name.startswith("test_"):
            yield str(path)
        case ("tests", *_):
            yield str(path.parent)
        case _ if path.suffix == ".md":
            yield PAGES


if __name__ == "__main__":
    main(sys.argv[1])
