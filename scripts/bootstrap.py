"""Build the project's private virtual environment, or bring it up to date.

    python3 scripts/bootstrap.py [--venv .venv] GROUP...
    python3 scripts/bootstrap.py [--venv .venv] --locked     all groups, in the versions of requirements-dev.txt

Installs the project (editable) and the named dependency groups of ``pyproject.toml``, with ``uv`` where it is
on the PATH and with ``venv`` and ``pip`` otherwise. It needs nothing but Python 3.11: the groups are read
here, because the pip that comes with Python 3.11 does not know them. A file `.stamp-GROUP` in the environment
tells make that a group is there.
"""

import argparse
import importlib.util
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def expanded(groups: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the groups with those they include, and the requirements of all, each once and in order."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        table: dict[str, list[str | dict[str, str]]] = tomllib.load(file)["dependency-groups"]

    names = list(groups)
    requirements: list[str] = []
    for name in names:  # grows while it is read
        if name not in table:
            sys.exit(f"bootstrap: expected one of the groups {', '.join(table)}, got {name!r}")
        included = [entry["include-group"] for entry in table[name] if isinstance(entry, dict)]
        names += [group for group in included if group not in names]
        requirements += [entry for entry in table[name] if isinstance(entry, str)]
    return names, list(dict.fromkeys(requirements))


def run(command: list[str | Path]) -> None:
    """Run a command and, only where it fails, show what it said."""
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.stderr.write(done.stdout + done.stderr)
        sys.exit(f"bootstrap: status {done.returncode} from: {' '.join(map(str, command))}")


def works(python: Path) -> bool:
    """Whether there is an interpreter that starts: a moved or half-made environment has none."""
    return python.exists() and subprocess.run([python, "-c", "import encodings"], check=False).returncode == 0


def create(venv: Path, uv: str | None) -> None:
    """Make the environment anew."""
    if uv:
        run([uv, "venv", "--quiet", "--clear", "--seed", "--python", sys.executable, venv])
    elif importlib.util.find_spec("ensurepip") is None:
        sys.exit(
            "bootstrap: this Python has no ensurepip, so it cannot make a virtual environment.\n"
            f"On Debian and Ubuntu: sudo apt-get install python3.{sys.version_info.minor}-venv"
        )
    else:
        run([sys.executable, "-m", "venv", "--clear", venv])


def main() -> None:
    """Create the environment where it is missing or broken, then install."""
    parser = argparse.ArgumentParser(description="Build the project's private virtual environment.")
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv", help="where to build it")
    parser.add_argument("--locked", action="store_true", help="install requirements-dev.txt, and check its hashes")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help="dependency groups of pyproject.toml")
    arguments = parser.parse_args()
    if bool(arguments.groups) == arguments.locked:
        parser.error("name groups, or --locked")

    venv: Path = arguments.venv
    python = venv / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    uv = shutil.which("uv")
    started = time.monotonic()
    tool = "uv" if uv else "pip"
    what = ", ".join(arguments.groups) or "locked"
    print(f"Preparing {venv.name} ({what}) with {tool} ...", flush=True)
    if not works(python):
        create(venv, uv)
    installing: list[str | Path] = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if uv:
        # As pip does.
        installing = [uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", python]
    if arguments.locked:
        groups, _ = expanded(["dev"])
        run([*installing, "--require-hashes", "--requirement", "requirements-dev.txt"])
        run([*installing, "--no-deps", "--editable", "."])
    else:
        groups, requirements = expanded(arguments.groups)
        run([*installing, "--editable", ".", *requirements])
    for group in groups:
        (venv / f".stamp-{group}").touch()
    print(f"Prepared {venv.name} in {time.monotonic() - started:.0f} s.", flush=True)


if __name__ == "__main__":
    main()
