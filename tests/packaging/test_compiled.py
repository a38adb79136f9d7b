"""The compiled package: what is compiled, and what `scripts/compiled` says where it cannot be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.architecture.source_tree import ROOT


def run(*arguments: str, script: Path = ROOT / "scripts" / "compiled", **environment: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, script, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def checkout(place: Path) -> Path:
    """The script in a project of its own, which has nothing compiled."""
    lib = place / "scripts" / "compiled_lib"
    lib.mkdir(parents=True)
    for name in ("compiled", "compiled_lib/__init__.py", "compiled_lib/cli.py", "compiled_lib/hook.py"):
        (place / "scripts" / name).write_bytes((ROOT / "scripts" / name).read_bytes())
    (place / "trio_stomp").mkdir()
    (place / "trio_stomp" / "__init__.py").touch()
    (place / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    return place / "scripts" / "compiled"


def test_list_when_asked_then_every_name_in_pyproject_is_a_module() -> None:
    status, listed, said = run("--list")

    assert (status, said) == (0, "")
    assert {"trio_stomp/protocol/decoder.py", "trio_stomp/session/message.py"} <= set(listed.split())
    # What users call with values of theirs.
    assert "trio_stomp/client/client.py" not in listed.split()


def test_list_when_a_name_is_out_of_date_then_it_is_named(tmp_path: Path) -> None:
    status, _, said = run("--list", script=checkout(tmp_path))

    assert status == 1
    assert "what is compiled: trio_stomp/protocol/*.py fits no module" in said


def test_build_when_there_is_no_compiler_then_says_so_and_leaves_it_out(tmp_path: Path) -> None:
    status, _, said = run(script=checkout(tmp_path), CC="no-such-compiler -O3")

    assert status == 3
    assert said == "the compiled package is left out: there is no C compiler (no-such-compiler)\n"


def test_look_when_nothing_was_built_then_says_how_to(tmp_path: Path) -> None:
    status, _, said = run("--no-build", script=checkout(tmp_path))

    assert (status, said) == (1, "not built, or of another source; build it with: scripts/compiled\n")
