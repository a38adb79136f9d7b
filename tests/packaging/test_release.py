"""`scripts/release`: what it refuses, and the archives that it builds."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.architecture.source_tree import ROOT, project_files

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
# The date of all commits, so that two checkouts are one commit.
DATE = "2026-01-02T03:04:05Z"
MINE = "https://forge.example/me/trio-stomp"
PLACEHOLDER = "https://example.org/somewhere"
# On Windows, nothing runs a shell script.
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="scripts/release is a shell script")
TOOLS = pytest.mark.skipif(
    "CI" not in os.environ and importlib.util.find_spec("twine") is None,
    reason="this environment lacks the dependency group `release`; run: make test-all",
)


class Checkout:
    """A copy of this checkout, in a repository of its own."""

    def __init__(self, folder: Path, names: tuple[str, ...] = project_files()) -> None:
        self.folder = folder
        for name in names:
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
            target.chmod((ROOT / name).stat().st_mode)
        # What has changed since the last release is the next one's.
        changelog = folder / "CHANGELOG.md"
        text = changelog.read_text(encoding="utf-8")
        changelog.write_text(text.replace("## Unreleased\n", f"## {VERSION}\n", 1), encoding="utf-8")
        self.git("init", "--quiet")
        self.commit()

    def git(self, *arguments: str) -> None:
        identity = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in PERSON.items()}
        subprocess.run(["git", *arguments], cwd=self.folder, check=True, env={**os.environ, **identity})

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--no-verify", "--message", "Release")

    def set_repository(self, url: str) -> None:
        """Move the project to another place."""
        pyproject = self.folder / "pyproject.toml"
        text = pyproject.read_text(encoding="utf-8")
        pyproject.write_text(re.sub(r'(?m)^repository = ".*"$', f'repository = "{url}"', text), encoding="utf-8")
        self.commit()

    def release(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        # Without bytecode, which would be a change of a checkout that ignores less.
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHON": sys.executable}
        environment.pop("SOURCE_DATE_EPOCH", None)
        return subprocess.run(
            [self.folder / "scripts" / "release", *arguments],
            cwd=self.folder,
            env=environment,
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )


PERSON = {"NAME": "A", "EMAIL": "a@example.org", "DATE": DATE}
SMALL = tuple(
    name
    for name in project_files()
    if name.startswith("scripts/release") or name in {"pyproject.toml", "CHANGELOG.md", ".gitignore"}
)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """What the first steps need."""
    return Checkout(tmp_path, SMALL)


def test_release_when_asked_for_help_then_says_what_it_builds(tmp_path: Path) -> None:
    done = Checkout(tmp_path, SMALL).release("--help")

    assert done.returncode == 0
    assert "--tag" in done.stdout
    assert "Nothing is uploaded" in done.stdout


@pytest.mark.parametrize("arguments", [("--tga", "v1.0"), ("--tag",), ("--tag", "--at", MINE), ("--tag", "")])
def test_release_when_an_argument_is_wrong_or_has_no_value_then_refuses(
    checkout: Checkout, arguments: tuple[str, ...]
) -> None:
    done = checkout.release(*arguments)

    assert (done.returncode, done.stdout) == (1, "")
    assert "expected --tag TAG or --at URL, got: --t" in done.stderr


def test_release_when_the_checkout_has_changes_then_refuses(checkout: Checkout) -> None:
    (checkout.folder / "new.py").touch()

    done = checkout.release()

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "scripts/release: the checkout has changes; commit them first:\n?? new.py\n"


def test_release_when_the_changelog_has_another_version_then_refuses(checkout: Checkout) -> None:
    pyproject = checkout.folder / "pyproject.toml"
    text = pyproject.read_text(encoding="utf-8")
    pyproject.write_text(text.replace(f'version = "{VERSION}"', 'version = "7.0"', 1), encoding="utf-8")
    checkout.commit()

    done = checkout.release()

    assert done.returncode == 1
    assert f"has version 7.0, but CHANGELOG.md begins with {VERSION}" in done.stderr


def test_release_when_published_while_the_repository_is_a_placeholder_then_refuses(checkout: Checkout) -> None:
    checkout.set_repository(PLACEHOLDER)

    done = checkout.release("--tag", f"v{VERSION}", "--at", MINE)

    assert (done.returncode, done.stdout) == (1, "")
    assert f"`repository` in pyproject.toml is still the placeholder {PLACEHOLDER}" in done.stderr


@pytest.mark.parametrize(
    ("tag", "at", "why"),
    [
        ("v0.1", MINE, f"the tag is v0.1, but pyproject.toml has version {VERSION}"),
        (f"v{VERSION}", "https://forge.example/you/trio-stomp", "this is https://forge.example/you/trio-stomp, but"),
    ],
)
def test_release_when_the_tag_or_the_repository_is_another_then_refuses(
    checkout: Checkout, tag: str, at: str, why: str
) -> None:
    checkout.set_repository(MINE)

    done = checkout.release("--tag", tag, "--at", at)

    assert done.returncode == 1
    assert why in done.stderr


def test_workflow_when_it_publishes_then_says_which_tag_and_repository() -> None:
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")

    assert '--tag $GITHUB_REF_NAME --at $GITHUB_SERVER_URL/$GITHUB_REPOSITORY"' in workflow


@TOOLS
@pytest.mark.slow
def test_release_when_built_then_each_archive_works_and_is_the_same_again(tmp_path: Path) -> None:
    first, second = (Checkout(tmp_path / name) for name in ("first", "second"))
    for each in (first, second):
        each.set_repository(PLACEHOLDER)

    done = first.release()
    assert done.returncode == 0, done.stderr
    assert "==== not to be published: `repository` in pyproject.toml is still the placeholder" in done.stdout
    dist = first.folder / "dist"
    sdist, wheel, bill = (dist / f"trio_stomp-{VERSION}{end}" for end in (".tar.gz", "-py3-none-any.whl", ".cdx.json"))

    assert {path.name for path in dist.iterdir()} == {sdist.name, wheel.name, bill.name, "SHA256SUMS"}
    # A reader who has only the archives can check them.
    for line in (dist / "SHA256SUMS").read_text(encoding="utf-8").splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == digest
    parts = {part["name"].replace("_", "-") for part in json.loads(bill.read_text(encoding="utf-8"))["components"]}
    assert {"trio-stomp", "trio", "anyio", "typing-extensions"} <= parts
    assert not {"pip", "setuptools"} & parts
    for path in (bill, wheel):
        assert str(tmp_path).encode() not in path.read_bytes()
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    # What is tested and documented is in it.
    assert {"README.md", "CHANGELOG.md", "docs/index.md", "tests/packaging/test_release.py"} <= inside
    with zipfile.ZipFile(wheel) as archive:
        assert {info.date_time[:3] for info in archive.infolist()} == {(2026, 1, 2)}
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(second.folder / "dist")],
        cwd=second.folder,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1767323045"},
        check=True,
        capture_output=True,
    )
    for path in (sdist, wheel):
        assert (second.folder / "dist" / path.name).read_bytes() == path.read_bytes()
