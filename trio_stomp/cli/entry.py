"""The entry point. It imports nothing that an extra brings, so that it can say what is missing."""

from __future__ import annotations

import importlib.util
import sys
from typing import Final

__all__ = ["main", "missing"]

# What the extra `cli` brings.
_NEEDED: Final = ("click", "rich")


def missing(needed: tuple[str, ...] = _NEEDED) -> list[str]:
    """The packages of the extra that are not installed."""
    return [name for name in needed if importlib.util.find_spec(name) is None]


def main() -> None:
    """Run ``trio-stomp`` with the arguments of this process, and exit with its status."""
    absent = missing()
    if absent:
        sys.exit(
            f"trio-stomp: {' and '.join(absent)} not found; install the command with: pip install 'trio-stomp[cli]'"
        )
    # Not at the top: it imports what the lines above have looked for.
    from trio_stomp.cli.command_line import command_line  # noqa: PLC0415  # see above

    command_line(prog_name="trio-stomp")
