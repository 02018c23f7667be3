"""The kernels: one library for every Python 3, as they are plain C behind ctypes; pyproject.toml has all the rest."""

import os
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext


class BuildKernels(build_ext):
    """Build the kernels under a name without the version of Python.

    Without a C compiler they are left out with a warning; with BERTFEAT_REQUIRE_KERNELS=1 the build fails.
    """

    def finalize_options(self) -> None:
        """Make the kernels obligatory where the environment says so."""
        super().finalize_options()
        if os.environ.get("BERTFEAT_REQUIRE_KERNELS", "") not in ("", "0"):
            for extension in self.extensions:
                extension.optional = False

    def get_ext_filename(self, fullname: str) -> str:
        """Name a library ``_kernels.so``, say, which every Python 3 finds."""
        return str(Path(*fullname.split("."))) + ".so"

    def run(self) -> None:
        """Build, and remove libraries under older names from the source, which Python would find first."""
        super().run()
        for older in Path(__file__).parent.glob("bertfeat/core/encoder/_kernels.*.so"):
            older.unlink()


class KernelWheel(bdist_wheel):
    """A wheel for a platform and any Python 3."""

    def get_tag(self) -> tuple[str, str, str]:
        """Tag the wheel ``py3-none-<platform>``."""
        return "py3", "none", super().get_tag()[2]


setup(cmdclass={"build_ext": BuildKernels, "bdist_wheel": KernelWheel})
