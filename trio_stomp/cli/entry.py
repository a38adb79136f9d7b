"""The entry point. It imports nothing from an extra, so that it can report a missing one."""

from __future__ import annotations

import importlib.util
import io
import signal
import sys
from typing import TextIO

__all__ = ["main"]


def main() -> None:
    """Run ``trio-stomp`` with the arguments of this process, and exit with its status."""
    # The packages of the extra `cli`.
    absent = [name for name in ("click", "rich") if importlib.util.find_spec(name) is None]
    if absent:
        sys.exit(f"trio-stomp: this command requires {' and '.join(absent)}. Run: pip install 'trio-stomp[cli]'")
    output: TextIO | None = sys.stdout
    if isinstance(output, io.TextIOWrapper):
        # Text from a broker may have characters that the terminal or the file cannot have. As for standard error.
        output.reconfigure(errors="backslashreplace")
    try:
        # Not at the top: it imports these packages.
        from trio_stomp.cli.command_line import command_line  # noqa: PLC0415  # see above

        command_line(prog_name="trio-stomp")
    except KeyboardInterrupt:
        # Importing takes long enough to be interrupted. A command that runs handles signals itself.
        sys.exit(128 + signal.SIGINT)
