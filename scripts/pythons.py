#!/usr/bin/env python3
"""Run the fast tests on every version of Python that the package claims, in environments of their own.

    scripts/pythons.py                       each claimed version that is installed
    scripts/pythons.py 3.12 3.13             these
    scripts/pythons.py --but 3.11            all but this, which was tested otherwise
    scripts/pythons.py --all                 fail where a claimed version is not installed
    scripts/pythons.py --lowest              the core tests on the oldest interpreter, with the oldest dependencies
    scripts/pythons.py -- -k receipt         with arguments for pytest

The versions are those of the classifiers in pyproject.toml. An interpreter is looked for on the PATH and among those of
pyenv; its environment is `.venv-3.12`, for example, and is built at the first run.

`--lowest` proves the lower bounds in pyproject.toml: of the dependencies, of all extras but `spark`, and of what tests
them. uv, of the dependency group `release`, finds the versions. The interpreter is the oldest patch release of the
oldest claimed version that is installed: that of the operating system, for example, which has faults that later patch
releases mend.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
FAST: Final = ("-q", "-m", "not slow and not interop")
# The extras that `--lowest` installs, the requirements of the group `test` that it can leave out, and what it runs.
EXTRAS: Final = "websocket,proxy,otel,cli,spool"
UNUSED: Final = ("import-linter",)
CORE: Final = tuple(
    f"tests/{each}"
    for each in ("protocol", "conformance", "brokers", "client", "blocking", "testing", "cli", "otel", "test_errors.py")
)


def claimed() -> list[str]:
    """The versions that pyproject.toml names."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        classifiers: list[str] = tomllib.load(file)["project"]["classifiers"]
    found = (re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", each) for each in classifiers)
    return [each[1] for each in found if each]


def interpreters(version: str) -> dict[Path, str]:
    """The Pythons of that version, each with its patch release: those of pyenv, then those on the PATH."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [*sorted(pyenv.glob(f"{version}.*/bin/python3"), reverse=True)]
    on_path = (shutil.which(f"python{version}", path=folder) for folder in os.get_exec_path())
    candidates += [Path(each) for each in on_path if each]
    # One of pyenv's shims may stand for a version that is not switched on.
    said = {each: _says(each) for each in candidates}
    return {each: release for each, release in said.items() if release.startswith(f"{version}.")}


def interpreter(version: str) -> Path | None:
    """The Python of that version, or None where there is none."""
    return next(iter(interpreters(version)), None)


def oldest_interpreter(version: str) -> Path | None:
    """The oldest patch release of that version, or None where there is none."""
    found = interpreters(version)
    return min(found, key=lambda each: int(found[each].split(".")[2]), default=None)


def _says(python: Path) -> str:
    ask = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
    return subprocess.run([python, "-c", ask], check=False, capture_output=True, text=True).stdout.strip()


def run(version: str, python: Path, arguments: Sequence[str]) -> bool:
    """Build the environment and run the tests; returns whether they passed."""
    venv = ROOT / f".venv-{version}"
    build: list[str | Path] = [python, ROOT / "scripts" / "bootstrap.py", "--venv", venv, "test"]
    if not (venv / ".stamp-test").exists() and subprocess.run(build, check=False).returncode:
        return False
    return _pytest(venv, arguments)


def _pytest(venv: Path, arguments: Sequence[str]) -> bool:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    test: list[str | Path] = [venv / "bin" / "python", "-m", "pytest", *FAST, "-p", "no:cacheprovider", *arguments]
    return subprocess.run(test, cwd=ROOT, env=environment, check=False).returncode == 0


def run_lowest(python: Path, arguments: Sequence[str]) -> bool:
    """Build the environment with the lowest versions and run the core tests; returns whether they passed."""
    venv = ROOT / ".venv-lowest"
    uv: list[str | Path] = [sys.executable, "-m", "uv"]
    with (ROOT / "pyproject.toml").open("rb") as file:
        group: list[str | dict[str, str]] = tomllib.load(file)["dependency-groups"]["test"]
    tools = [each for each in group if isinstance(each, str) and not each.startswith(UNUSED)]
    install: list[str | Path] = ["pip", "install", "--quiet", "--resolution", "lowest-direct", "--python", venv]
    steps: list[list[str | Path]] = [
        [*uv, "venv", "--quiet", "--clear", "--python", python, venv],
        [*uv, *install, "--editable", f".[{EXTRAS}]", *tools],
        [*uv, "pip", "list", "--quiet", "--python", venv],
    ]
    if any(subprocess.run(step, cwd=ROOT, check=False).returncode for step in steps):
        return False
    return _pytest(venv, [*CORE, *arguments])


def main() -> int:
    """Run the command; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", help="default: all that are claimed")
    parser.add_argument("--but", help="a claimed version that is left out")
    parser.add_argument("--lowest", action="store_true", help="the oldest interpreter and dependencies")
    parser.add_argument("--all", action="store_true", help="a claimed version that is not installed is a failure")
    given, own = sys.argv[1:], list[str]()
    if "--" in given:
        given, own = given[: given.index("--")], given[given.index("--") + 1 :]
    arguments = parser.parse_args(given)
    if arguments.lowest:
        oldest = oldest_interpreter(claimed()[0])
        if oldest is None:
            print(f"{claimed()[0]}: not installed, not run")
            return 1
        print(f"==== Python {_says(oldest)} ({oldest}), with the oldest dependencies", flush=True)
        return int(not run_lowest(oldest, own))
    said: list[str] = []
    failed = False
    for version in arguments.versions or [each for each in claimed() if each != arguments.but]:
        python = interpreter(version)
        if python is None:
            said.append(f"{version}: not installed, not run")
            failed |= arguments.all or bool(arguments.versions)
            continue
        print(f"==== Python {version}", flush=True)
        passed = run(version, python, own)
        said.append(f"{version}: {'passed' if passed else 'FAILED'}")
        failed |= not passed
    print("\n".join(said))
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
