import importlib
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

from tests.cli.exit_code import ExitCode
from trio_stomp.cli import main

ROOT = Path(__file__).resolve().parents[2]

# Imports the entry point where click cannot be found, as without the extra.
WITHOUT_CLICK = """
import sys
from importlib.machinery import PathFinder

class Hidden(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] == "click" else super().find_spec(name, path, target)

sys.meta_path = [Hidden if finder is PathFinder else finder for finder in sys.meta_path]
from trio_stomp.cli import main
main()
"""


def test_main_when_the_extra_is_missing_then_says_in_one_line_how_to_install_it() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_CLICK], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert done.stderr == "trio-stomp: this command requires click. Run: pip install 'trio-stomp[cli]'\n"


class Interrupted(ModuleType):
    """A module that takes so long to import that Ctrl-C comes."""

    def __getattr__(self, name: str) -> object:
        raise KeyboardInterrupt if name == "command_line" else AttributeError(name)


def test_main_when_ctrl_c_comes_while_it_imports_then_ends_as_shells_expect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trio_stomp.cli.command_line", Interrupted("command_line"))

    with pytest.raises(SystemExit) as end:
        main()

    assert end.value.code == ExitCode.INTERRUPTED


@pytest.mark.parametrize(
    ("option", "shown"),
    [("--version", f"trio-stomp, version {version('trio-stomp')}\n"), ("--help", "Usage: trio-stomp [OPTIONS] ")],
)
def test_main_when_run_as_a_module_then_is_the_command(option: str, shown: str) -> None:
    done = subprocess.run([sys.executable, "-m", "trio_stomp.cli", option], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(shown)


def test_script_when_installed_then_leads_to_main() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        target: str = tomllib.load(file)["project"]["scripts"]["trio-stomp"]

    module, _, name = target.partition(":")
    assert getattr(importlib.import_module(module), name) is main
