"""The compiled wheel: the same package, with its busiest modules compiled by mypyc next to their source.

A build hook of hatchling, switched off unless HATCH_BUILD_HOOK_ENABLE_CUSTOM=1 asks for it: whatever builds or
installs the project otherwise gets the pure wheel. It needs a C compiler and the headers of this Python. pyproject.toml
names the modules. They are compiled in a copy: a checkout in which compiled modules lay would run those, however its
source had changed since.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.builders.wheel import WheelBuilderConfig

_PACKAGE: Final = "trio_stomp"

# mypy's own options of this project are for `make check`: here it only has to know the types.
_MYPY: Final = ("--config-file=", "--ignore-missing-imports", "--follow-imports=silent", "--cache-dir=.mypy_cache")

# Run in the copy, as a process of its own: setuptools and mypyc work in the current directory.
_SETUP: Final = """
import sys
from mypyc.build import mypycify
from setuptools import setup

extensions = mypycify(sys.argv[1:], opt_level="3", debug_level="0", group_name="{package}")
setup(name="{package}", packages=[], ext_modules=extensions, script_args=["--quiet", "build_ext", "--inplace"])
"""


class CustomBuildHook(BuildHookInterface[WheelBuilderConfig]):
    """Adds the compiled modules to a wheel."""

    _copy: Path | None = None

    def initialize(self, version: str, build_data: dict[str, object]) -> None:
        """Compile, and name what came out; an editable installation stays pure."""
        if version != "standard":
            return
        names: dict[str, list[str]] = self.config
        self._copy = Path(tempfile.mkdtemp(prefix="trio-stomp-"))
        shutil.copytree(
            Path(self.root, _PACKAGE), self._copy / _PACKAGE, ignore=shutil.ignore_patterns("*.so", "__pycache__")
        )
        self._compile(self._copy, modules(self._copy, names["compile"], names["leave"]))
        built = {str(path): str(path.relative_to(self._copy)) for path in _extensions(self._copy)}
        build_data.update(pure_python=False, infer_tag=True, force_include=built)

    def finalize(self, version: str, build_data: dict[str, object], artifact_path: str) -> None:
        """Remove the copy."""
        del version, build_data, artifact_path
        if self._copy is not None:
            shutil.rmtree(self._copy)

    @staticmethod
    def _compile(copy: Path, files: Iterable[str]) -> None:
        done = subprocess.run(
            [sys.executable, "-c", _SETUP.format(package=_PACKAGE), *_MYPY, *files],
            cwd=copy,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"{done.stdout}\nThe compiled wheel could not be built; the pure one needs no compiler.")


def modules(root: Path, patterns: Iterable[str], left: Iterable[str]) -> list[str]:
    """The files that are compiled, below `root`.

    Args:
        root: Where the package is.
        patterns: Their paths, or patterns of them.
        left: Those among them that stay as they are.

    Raises:
        ValueError: One of the names or patterns fits nothing: it is out of date.
    """
    found = [_fitting(root, each) for each in patterns]
    without = {path for each in left for path in _fitting(root, each)}
    return sorted({path for paths in found for path in paths} - without)


def _fitting(root: Path, pattern: str) -> list[str]:
    paths = [path.relative_to(root).as_posix() for path in root.glob(pattern)]
    if not paths:
        raise ValueError(f"pyproject.toml, what is compiled: {pattern} fits no module")
    return paths


def _extensions(copy: Path) -> list[Path]:
    return [path for suffix in ("*.so", "*.pyd") for path in copy.rglob(suffix) if "build" not in path.parts]
