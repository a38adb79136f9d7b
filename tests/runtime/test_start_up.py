"""What a program loads: its own event loop, and little that it does not use. Counted, because times vary."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

# A few more than there are. Before you raise it, look whether each program needs the new ones.
MOST_MODULES = 125
CONNECT = """
    async def main():
        try:
            # Nothing listens there.
            async with trio_stomp.connect("stomp://127.0.0.1:9", connect_timeout=5):
                raise AssertionError
        except trio_stomp.ConnectError:
            pass
"""


def modules_after(program: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{textwrap.dedent(program)}\nimport sys\nprint(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    )
    return set(done.stdout.split())


def test_import_when_nothing_else_is_imported_then_no_event_loop_is() -> None:
    loaded = modules_after("import trio_stomp")

    assert loaded.isdisjoint({"trio", "asyncio"})
    assert loaded.isdisjoint({"difflib", "hashlib", "html", "http", "pathlib", "tempfile"})
    assert loaded.isdisjoint({"random", "wsproto", "h11"})


def test_import_when_counted_then_loads_few_modules_beside_the_event_loop() -> None:
    added = modules_after("import asyncio, trio_stomp") - modules_after("import asyncio")

    assert len(added) <= MOST_MODULES, sorted(added)


def test_delays_when_nothing_can_be_imported_any_more_then_they_are_drawn() -> None:
    """As in a program that has no file left to open, or sees another root folder by now."""
    loaded = modules_after(
        """
        import sys, trio_stomp
        sys.path.clear(), sys.path_importer_cache.clear()
        assert 0 <= trio_stomp.Reconnect(first_delay=2).delay(0) <= 2
        assert 0 <= trio_stomp.Retry(first_delay=2).delay(1) <= 2
        """
    )

    assert "random" not in loaded


@pytest.mark.parametrize(("loop", "other"), [("asyncio", "trio"), ("trio", "asyncio")])
def test_program_when_it_runs_on_one_loop_then_the_other_is_not_imported(loop: str, other: str) -> None:
    main = "main()" if loop == "asyncio" else "main"

    loaded = modules_after(f"import {loop}, trio_stomp\n{textwrap.dedent(CONNECT)}\n{loop}.run({main})")

    assert other not in loaded
