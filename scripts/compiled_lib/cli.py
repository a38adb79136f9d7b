"""The command: a compiled wheel of this checkout, unpacked into build/compiled.

    scripts/compiled                build it, unless it is there and up to date, and print where it is
    scripts/compiled --no-build     only say whether it is there and up to date
    scripts/compiled --list         name the modules that are compiled

Put its folder in front of PYTHONPATH, and run Python with -P, to use it in place of the source. Exits with 3 where
there is no C compiler or no Python.h.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = ["FOLDER", "NO_COMPILER", "digest", "main", "missing_tool"]

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / "build" / "compiled"
# What it was built of, beside it.
_MARK: Final = "built-of"
NO_COMPILER: Final = 3


def missing_tool() -> str | None:
    """What is not here and has to be for compiling, or None."""
    if sys.platform == "win32":
        return None  # setuptools looks for the compiler, and says so itself
    # As setuptools does: the environment first, then what this Python was compiled with.
    compiler = (os.environ.get("CC") or str(sysconfig.get_config_var("CC") or "cc")).split()[0]
    if shutil.which(compiler) is None:
        return f"C compiler ({compiler})"
    header = Path(sysconfig.get_path("include"), "Python.h")
    return None if header.exists() else f"{header} (on Debian and Ubuntu: apt-get install python3-dev)"


def digest(root: Path = ROOT) -> str:
    """What a compiled package depends on, in short: the source, how it is built, and for which Python."""
    found = hashlib.sha256(f"{sys.version} {sysconfig.get_config_var('EXT_SUFFIX')}".encode())
    for path in [
        root / "pyproject.toml",
        *sorted((root / "trio_stomp").rglob("*.py")),
        Path(__file__).parent / "hook.py",
    ]:
        found.update(path.read_bytes())
    return found.hexdigest()


def _is_current() -> bool:
    mark = FOLDER / _MARK
    return mark.exists() and mark.read_text(encoding="utf-8") == digest()


def _build() -> None:
    before = digest()
    with tempfile.TemporaryDirectory() as place:
        subprocess.run(
            [
                sys.executable,
                "-m",
                "pip",
                "wheel",
                "--quiet",
                "--disable-pip-version-check",
                "--no-deps",
                "-w",
                place,
                ROOT,
            ],
            env={**os.environ, "HATCH_BUILD_HOOK_ENABLE_CUSTOM": "1"},
            stdout=sys.stderr,
            check=True,
        )
        (wheel,) = Path(place).glob("*.whl")
        if FOLDER.exists():
            shutil.rmtree(FOLDER)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(FOLDER)
    (FOLDER / _MARK).write_text(before, encoding="utf-8")


def _listed() -> list[str]:
    # Not at the top: it imports hatchling, which only a build has to have.
    from compiled_lib.hook import modules  # noqa: PLC0415  # see above

    about = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    names = about["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]
    return modules(ROOT, names["compile"], names["leave"])


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="scripts/compiled", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--no-build", action="store_true", help="only look")
    parser.add_argument("--list", action="store_true", help="name the modules")
    given = parser.parse_args(arguments)
    if given.list:
        print("\n".join(_listed()))
        return 0
    only_look: bool = given.no_build
    if not _is_current():
        if only_look:
            print("not built, or of another source; build it with: scripts/compiled", file=sys.stderr)
            return 1
        lacking = missing_tool()
        if lacking is not None:
            print(f"the compiled package is left out: there is no {lacking}", file=sys.stderr)
            return NO_COMPILER
        print("Compiling the package, which takes a minute ...", file=sys.stderr, flush=True)
        try:
            _build()
        except subprocess.CalledProcessError as error:
            print(f"the compiled package could not be built: status {error.returncode}", file=sys.stderr)
            return 1
    print(FOLDER)
    return 0
