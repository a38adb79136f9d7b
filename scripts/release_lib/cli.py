"""Build a release of this checkout into dist/, and check it. Nothing is uploaded.

    scripts/release                 the sdist, the wheel, an SBOM and hashes
    scripts/release --tag v1.0.0 --at https://forge.example/me/trio-stomp
                                    also refuse unless this is the version, and this the `repository`, in pyproject.toml

Each archive is installed in an environment of its own, where a program sends and receives with the embedded broker.
Refuses a checkout with changes, or whose version the changelog does not describe. The same commit gives the same
archives, byte for byte: their times are those of the commit, or SOURCE_DATE_EPOCH.

.github/workflows/release.yml, which publishes, passes --tag and --at: the links of the package come from `repository`.

Run it with the interpreter of an environment that has the dependency group `release`: make release.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = ["main"]

ROOT: Final = Path(__file__).resolve().parents[2]
DIST: Final = ROOT / "dist"
# What `repository` in pyproject.toml begins with until the project has one.
PLACEHOLDER: Final = "https://example.org/"
# A program that uses the embedded broker.
PROGRAM: Final = ROOT / "tests" / "packaging" / "parts" / "plain_part.py"
# The modules of the dependency group `release`.
TOOLS: Final = ("build", "cyclonedx_py", "twine")


class ReleaseError(Exception):
    """This checkout cannot be released."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="scripts/release", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tag", help="the tag that is released")
    parser.add_argument("--at", metavar="URL", help="the repository that publishes this release")
    given = parser.parse_args(arguments)
    try:
        version, repository = _project()
        _refuse_to_publish(version, repository, given.tag, given.at)
        _refuse_unless_ready(version)
        _require_tools()
        _release(version)
        if repository.startswith(PLACEHOLDER):
            _say(f"not to be published: {_unset(repository)}")
    except ReleaseError as error:
        print(f"scripts/release: {error}", file=sys.stderr)
        return 1
    return 0


def _require_tools() -> None:
    lacking = [name for name in TOOLS if importlib.util.find_spec(name) is None]
    if lacking:
        raise ReleaseError(f"{sys.executable} has no {', '.join(lacking)}. Run: make release")


def _project() -> tuple[str, str]:
    """The version and the URL of the repository in pyproject.toml."""
    about = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return about["project"]["version"], about["tool"]["hatch"]["metadata"]["hooks"]["custom"]["repository"]


def _refuse_to_publish(version: str, repository: str, tag: str | None, at: str | None) -> None:
    """Check that a release is published under its own version, and where its links lead to.

    Raises:
        ReleaseError: It is not.
    """
    if tag is not None and tag != f"v{version}":
        raise ReleaseError(f"the tag is {tag}, but pyproject.toml has version {version}")
    if at is not None and repository.startswith(PLACEHOLDER):
        raise ReleaseError(_unset(repository))
    if at is not None and at != repository:
        raise ReleaseError(f"this is {at}, but `repository` in pyproject.toml is {repository}")


def _unset(repository: str) -> str:
    return f"`repository` in pyproject.toml is still the placeholder {repository}. Set it to the URL of the repository"


def _refuse_unless_ready(version: str) -> None:
    """Check that the checkout is one that can be released.

    Raises:
        ReleaseError: It has changes, or the changelog does not fit the version.
    """
    if changes := _git("status", "--porcelain"):
        raise ReleaseError(f"the checkout has changes; commit them first:\n{changes}")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (\S+)", changelog, re.MULTILINE)
    if newest is None or newest[1] != version:
        found = "no version" if newest is None else newest[1]
        raise ReleaseError(f"pyproject.toml has version {version}, but CHANGELOG.md begins with {found}")


def _release(version: str) -> None:
    os.environ.setdefault("SOURCE_DATE_EPOCH", _git("log", "-1", "--format=%ct"))
    shutil.rmtree(DIST, ignore_errors=True)
    _say("building the sdist, and the wheel from it")
    _run("build", "--outdir", DIST, ROOT)
    archives = sorted(DIST.iterdir())
    _run("twine", "check", "--strict", *archives)
    for archive in archives:
        _say(f"installing {archive.name} and running a program with it")
        with tempfile.TemporaryDirectory() as place:
            python = _environment_with(archive, Path(place))
            _check_installed(python, archive, version)
            if archive.suffix == ".whl":
                _write_sbom(python, DIST / f"trio_stomp-{version}.cdx.json")
    _write_hashes()
    print((DIST / "SHA256SUMS").read_text(encoding="utf-8"), end="")


def _environment_with(archive: Path, place: Path) -> Path:
    """An environment that has nothing but an archive and its dependencies; returns its interpreter."""
    venv.create(place)
    python = place / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    _run("pip", "--python", python, "install", "--quiet", archive)
    return python


def _check_installed(python: Path, archive: Path, version: str) -> None:
    expected = f"{version}\nplain\n"
    about = "import trio_stomp; print(trio_stomp.__version__)"
    # -I: nothing of this checkout.
    runs = [
        subprocess.run([python, "-I", *program], cwd=python.parent, check=False, capture_output=True, text=True)
        for program in (["-c", about], [str(PROGRAM)])
    ]
    if "".join(done.stdout for done in runs) != expected or any(done.returncode for done in runs):
        said = "".join(done.stdout + done.stderr for done in runs)
        raise ReleaseError(f"{archive.name}: expected {expected!r}, got\n{said}")


def _write_sbom(python: Path, target: Path) -> None:
    """Write what the wheel and its dependencies are, in CycloneDX's JSON."""
    # An archive that was installed from a file names this file, and so this machine.
    for origin in python.parents[1].rglob("direct_url.json"):
        origin.unlink()
    _run("cyclonedx_py", "environment", "--output-reproducible", "--of", "JSON", "-o", target, python)


def _write_hashes() -> None:
    """Write SHA-256 hashes, for `sha256sum --check`."""
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(DIST.iterdir())]
    (DIST / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def _say(text: str) -> None:
    print(f"==== {text}", flush=True)


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def _run(module: str, *arguments: str | Path) -> None:
    """Run a tool, and show what it said only where it fails."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        # pip and the SBOM would count what a PYTHONPATH leads to as installed.
        env={**os.environ, "PYTHONPATH": ""},
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise ReleaseError(f"status {done.returncode} from {module}\n{done.stdout}{done.stderr}")
