"""The import contracts of pyproject.toml hold: the packages depend on each other one way."""

import subprocess
import sys
import tomllib
from pathlib import Path

from tests.architecture.source_tree import ROOT

RUN = "from importlinter.cli import lint_imports_command as run; run()"
LINT_IMPORTS = (sys.executable, "-c", RUN, "--no-cache", "--no-logo")


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(LINT_IMPORTS, cwd=folder, check=False, capture_output=True, text=True)


def test_contracts_when_checked_then_all_are_kept() -> None:
    done = lint_imports(ROOT)

    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 broken" in done.stdout


def test_contracts_when_protocol_imports_the_clock_then_break(tmp_path: Path) -> None:
    package = tmp_path / "trio_stomp"
    for each in ("protocol", "brokers", "transport", "session", "client", "otel", "spark", "cli", "testing"):
        (package / each).mkdir(parents=True)
        (package / each / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "errors.py").touch()
    (package / "printable.py").touch()
    (package / "protocol" / "frames.py").write_text("def now():\n    import time\n    return time.time()\n")
    configuration = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    # The modules whose imports are ignored are not there.
    configuration = configuration.replace(
        "ignore_imports", 'unmatched_ignore_imports_alerting = "none"\nignore_imports'
    )
    (tmp_path / "pyproject.toml").write_text(configuration, encoding="utf-8")

    done = lint_imports(tmp_path)

    assert done.returncode == 1, done.stdout + done.stderr
    assert "trio_stomp.protocol.frames -> time" in done.stdout


def test_layers_when_read_from_the_configuration_then_name_every_room() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    layered = {layer for contract in contracts for layer in contract.get("layers", ())}
    named = {name.strip("() ") for layer in layered for name in layer.split("|")}
    package = ROOT / "trio_stomp"

    packages = {path.parent.name for path in package.glob("*/__init__.py")}
    modules = {path.stem for path in package.glob("*.py")} - {"__init__"}

    assert packages | modules <= named
