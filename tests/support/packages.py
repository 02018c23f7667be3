"""A package that is installed for a test, with one entry point."""

import sys
from collections.abc import Callable
from pathlib import Path


class Packages:
    """A folder for Python's path; ``forget`` makes bertfeat look for packages again, as in a new process."""

    def __init__(self, folder: Path, group: str, name: str, member: str, forget: Callable[[], object]) -> None:
        self.folder = folder
        self._entry = f"[{group}]\n{name} = toy_package:{member}\n"
        self._forget = forget
        folder.mkdir()

    def install(self, code: str) -> None:
        """Write the package: its code, and the record that pip leaves."""
        (self.folder / "toy_package.py").write_text(code)
        record = self.folder / "toy_package-1.0.dist-info"
        record.mkdir(exist_ok=True)
        (record / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-package\nVersion: 1.0\n")
        (record / "entry_points.txt").write_text(self._entry)
        self.forget()

    def uninstall(self) -> None:
        """Take the folder from its place."""
        self.folder.rename(self.folder.with_name("uninstalled"))
        self.forget()

    def forget(self) -> None:
        """Let what was installed be looked for again."""
        sys.modules.pop("toy_package", None)
        self._forget()
