"""``trio-stomp request``: send a request and print the reply."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
import click

from trio_stomp.cli.commands import command, flag, option
from trio_stomp.cli.layouts import Layout, layout_options
from trio_stomp.cli.message_input import STANDARD_INPUT, read_whole
from trio_stomp.cli.options import (
    SECONDS,
    content_type_option,
    file_option,
    gathered,
    header_option,
    link_of,
    link_options,
    text_option,
)
from trio_stomp.cli.running import InvalidUsage, Stop, run
from trio_stomp.cli.terminal import Output

__all__ = ["request"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arguments:
    """The arguments and options of `request`."""

    destination: str
    body: str | None
    file: Path | None
    text: bool
    header: tuple[tuple[str, str], ...]
    content_type: str | None
    timeout: float
    reply_to: str | None
    empty: bool

    def check(self) -> None:
        """Refuse contradictory arguments."""
        if self.body is not None and self.file is not None:
            raise InvalidUsage("pass the body as an argument or with --file, not both")

    async def read_body(self) -> bytes | str:
        """Return the body of the request.

        Cancellation: does not wait for more input.
        """
        if self.body is not None:
            await anyio.lowlevel.checkpoint()
            return self.body
        read = partial(read_whole, self.file or STANDARD_INPUT, text=self.text, empty=self.empty)
        return await anyio.to_thread.run_sync(read, abandon_on_cancel=True)


@command(
    "trio-stomp request /queue/double 21 --timeout 5",
    "trio-stomp request /queue/prices --file query.json --content-type application/json --json",
)
@click.argument("destination")
@click.argument("body", required=False)
@file_option(multiple=False)
@text_option
@flag("Input", "--empty", help="Send an empty request if standard input is empty.")
@header_option("Message", "A header of the request.")
@content_type_option("Message", "The MIME type of the body.")
@option("Reply", "--timeout", "-w", type=SECONDS, default=10.0, help="How long to wait for the reply.")
@option(
    "Reply",
    "--reply-to",
    metavar="DESTINATION",
    help="Where the reply goes.  [default: a temporary queue, or the broker's equivalent]",
)
@layout_options
@link_options
def request(context: click.Context) -> None:
    """Send a request to DESTINATION, and print the reply.

    Without BODY, the request is read from standard input or a file. It has the headers reply-to and correlation-id:
    the service sends its reply to the one, with the other.
    """
    arguments, layout = gathered(_Arguments, context), gathered(Layout, context)
    arguments.check()
    layout.check()
    link = link_of(context)

    async def work(_stop: Stop) -> None:
        output = Output()
        body = await arguments.read_body()
        async with link.connect() as client:
            reply = await client.request(
                arguments.destination,
                body,
                timeout=arguments.timeout,
                reply_to=arguments.reply_to,
                headers=arguments.header,
                content_type=arguments.content_type,
            )
        await output.write(layout.show(reply, for_terminal=output.is_terminal))

    run(work)
