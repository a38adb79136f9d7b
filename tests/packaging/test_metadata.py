"""What is shipped: what the wheel holds, what its metadata claims, and where else the same is said."""

from __future__ import annotations

import email.message
import re
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Final

import pytest
from markdown_it import MarkdownIt
from trove_classifiers import classifiers as known_classifiers

import trio_stomp
from tests.architecture.source_tree import PACKAGE, ROOT, project_files, python_files
from tests.kit.wheels import build_wheel

ABOUT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT: Final = ABOUT["project"]
REPOSITORY: Final[str] = ABOUT["tool"]["hatch"]["metadata"]["hooks"]["custom"]["repository"]
CLAIMED: Final = re.findall(r"Programming Language :: Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
LEADING = {"link_open": "href", "image": "src"}
# Spark looks for data sources in top-level modules whose names begin so.
RENAMED = {"trio_stomp/spark/spark_discovery.py": "pyspark_stomp/__init__.py"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> email.message.Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_string(archive.read(name).decode("utf-8"))


def test_wheel_when_built_then_holds_the_package_its_type_marker_and_the_license_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    modules = {RENAMED.get(file.path, file.path) for file in python_files() if file.in_package}

    assert modules | {f"{PACKAGE}/py.typed"} <= names
    folders = {name.partition("/")[0] for name in names}
    assert {folder for folder in folders if not folder.endswith(".dist-info")} == {PACKAGE, "pyspark_stomp"}
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_metadata_when_read_then_has_license_version_and_three_dependencies(metadata: email.message.Message) -> None:
    required = [str(line) for line in metadata.get_all("Requires-Dist", [])]

    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Version"] == PROJECT["version"] == trio_stomp.__version__
    always = {re.split(r"[^\w-]", line)[0] for line in required if "extra ==" not in line}
    assert always == {"trio", "anyio", "typing-extensions"}


def targets(markdown: str) -> list[str]:
    """Where the links and images of a text lead."""
    tokens = [child for token in MarkdownIt().parse(markdown) for child in token.children or []]
    return [str(token.attrs[LEADING[token.type]]) for token in tokens if token.type in LEADING]


def test_readme_when_an_index_shows_it_then_every_link_and_image_leads_somewhere(
    metadata: email.message.Message,
) -> None:
    shown = targets(str(metadata.get_payload()))

    tag = f"v{PROJECT['version']}"
    ours = [re.fullmatch(rf"{re.escape(REPOSITORY)}/(?:blob|raw)/{re.escape(tag)}/(.*)", each) for each in shown]
    paths = [each[1].partition("#")[0] for each in ours if each]
    assert len(paths) >= len([each for each in targets((ROOT / "README.md").read_text("utf-8")) if ":" not in each]) > 0
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert [each for each in shown if not each.startswith("https://")] == []
    assert f"{REPOSITORY}/raw/{tag}/docs/images/throughput.svg" in shown


def test_urls_when_listed_then_each_is_in_the_repository(metadata: email.message.Message) -> None:
    urls = dict(str(line).split(", ") for line in metadata.get_all("Project-URL", []))

    assert set(urls) == {"Documentation", "Source", "Changelog", "Issues"}
    assert [url for url in urls.values() if not url.startswith(REPOSITORY)] == []


def test_repository_when_looked_for_then_only_pyproject_names_it() -> None:
    naming = [name for name in project_files() if REPOSITORY.encode() in (ROOT / name).read_bytes()]

    assert naming == ["pyproject.toml"]


def test_classifiers_when_read_then_an_index_knows_each() -> None:
    assert set(PROJECT["classifiers"]) <= set(known_classifiers)


def test_pythons_when_claimed_then_ci_runs_the_tests_on_each_and_the_manual_says_the_same() -> None:
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    manual = (ROOT / "docs" / "api-stability.md").read_text(encoding="utf-8")

    quoted = ", ".join(f'"{each}"' for each in CLAIMED)
    assert f"        python: [{quoted}]\n" in workflow
    assert f"| CPython | {', '.join(CLAIMED)} |" in manual
    assert PROJECT["requires-python"] == f">={CLAIMED[0]}"
    assert "{}.{}".format(*sys.version_info) in CLAIMED


def test_operating_systems_when_claimed_then_ci_runs_on_them_and_nothing_more_is_claimed() -> None:
    claimed = [each for each in PROJECT["classifiers"] if each.startswith("Operating System")]

    # `.ci/run` runs there; the page says what is known of the others.
    assert claimed == ["Operating System :: POSIX :: Linux"]
    page = (ROOT / "docs" / "platforms.md").read_text(encoding="utf-8")
    assert {"Linux", "macOS", "Windows"} <= set(re.findall(r"^\| (\w+) \|", page, re.MULTILINE))
