"""The command line as a whole: its commands, and what they share."""

from __future__ import annotations

import logging
import sys

import click

from trio_stomp.cli.bench_command import bench
from trio_stomp.cli.broker_command import broker
from trio_stomp.cli.completion_command import completion
from trio_stomp.cli.doctor import doctor
from trio_stomp.cli.log_records import RecordFormatter
from trio_stomp.cli.move_command import move
from trio_stomp.cli.request_command import request
from trio_stomp.cli.send_command import send
from trio_stomp.cli.subscribe_command import subscribe
from trio_stomp.protocol import COMPILED

__all__ = ["command_line"]


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(
    package_name="trio-stomp",
    prog_name="trio-stomp",
    message=f"%(prog)s, version %(version)s, {'compiled' if COMPILED else 'pure Python'}",
)
@click.option("--verbose", "-v", count=True, help="Say what happens on the way; twice: each frame.")
def command_line(verbose: int) -> None:
    """Send, receive and move STOMP messages, and find out why a connection fails.

    The passcode is taken from --ask-passcode, --passcode-file, the URL, or the variable TRIO_STOMP_PASSCODE.
    """
    if verbose:
        level = logging.DEBUG if verbose > 1 else logging.INFO
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(RecordFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logging.basicConfig(handlers=[handler], level=level)


for _command in (send, subscribe, request, move, doctor, bench, broker, completion):
    command_line.add_command(_command)
command_line.add_command(subscribe, "tail")
