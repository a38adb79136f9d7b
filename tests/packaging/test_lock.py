"""requirements-dev.txt: what `scripts/bootstrap.py --locked` installs."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.architecture.source_tree import ROOT

LOCK = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8")
PINNED = {
    canonicalize_name(name): Version(version) for name, version in re.findall(r"^(\S+)==([^\s;]+)", LOCK, re.MULTILINE)
}


def wanted() -> Iterator[Requirement]:
    """What pyproject.toml asks for: dependencies, extras, and the groups that `dev` includes."""
    about = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project, groups = about["project"], about["dependency-groups"]
    lines: list[str] = [*project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        lines += extra
    for name, group in groups.items():
        if name != "bench":
            lines += [line for line in group if isinstance(line, str)]
    return map(Requirement, lines)


@pytest.mark.parametrize("requirement", {str(each): each for each in wanted()}.values(), ids=str)
def test_lock_when_compared_with_pyproject_then_pins_a_version_that_fits(requirement: Requirement) -> None:
    pinned = PINNED.get(canonicalize_name(requirement.name))

    assert pinned is not None, "run `make lock`"
    assert requirement.specifier.contains(pinned, prereleases=True), "run `make lock`"


def test_lock_when_read_then_each_version_has_hashes_and_no_host_is_named() -> None:
    entries = re.split(r"^(?=\S+==)", LOCK, flags=re.MULTILINE)[1:]

    assert len(entries) >= len(PINNED)
    assert [entry.partition(" ")[0] for entry in entries if "--hash=sha256:" not in entry] == []
    assert not re.search(r"https?:|--index|--find-links|@ ", LOCK)
