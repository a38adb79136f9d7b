"""``trio-stomp request``: send a request and print the reply."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import anyio
import click

from trio_stomp.cli.commands import command, option
from trio_stomp.cli.layouts import Layout, layout_options
from trio_stomp.cli.message_input import STANDARD_INPUT, read_whole
from trio_stomp.cli.options import SECONDS, gathered, header_of, link_of, link_options
from trio_stomp.cli.running import CommandFailed, ExitCode, Stop, run
from trio_stomp.cli.terminal import Output
from trio_stomp.client import Client, Message

__all__ = ["RequestArguments", "request"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestArguments:
    """The arguments of `request`.

    Attributes:
        destination: Where to send the request.
        body: The body; None: read it.
        file: The file to read it from.
        text: The input is UTF-8 text.
        empty: Standard input may be empty.
        header: Additional headers.
        content_type: MIME type of the request.
        timeout: Seconds to wait for the reply.
        reply_to: Where the reply goes; None: to a temporary destination.
    """

    destination: str
    body: str | None
    file: Path | None
    text: bool
    header: tuple[tuple[str, str], ...]
    content_type: str | None
    timeout: float
    reply_to: str | None
    empty: bool = False

    async def read_body(self) -> bytes | str:
        """Return the body of the request.

        Raises:
            CommandFailed: Two were given, or it cannot be read.

        Cancellation: does not wait for more input.
        """
        if self.body is not None:
            if self.file is not None:
                raise CommandFailed("pass the body as an argument or with --file, not both", ExitCode.USAGE)
            await anyio.lowlevel.checkpoint()
            return self.body
        octets = await read_whole(self.file or STANDARD_INPUT, empty=self.empty)
        if not self.text:
            return octets
        try:
            return octets.decode("utf-8")
        except UnicodeDecodeError as error:
            raise CommandFailed(f"--text requires UTF-8 input: {error}") from None

    async def ask(self, client: Client, body: bytes | str) -> Message:
        """Send the request, and return the reply.

        Raises:
            StompError: As `Client.request`.

        Cancellation: the request may have been sent.
        """
        return await client.request(
            self.destination,
            body,
            timeout=self.timeout,
            reply_to=self.reply_to,
            headers=self.header,
            content_type=self.content_type,
        )


@command(
    "request",
    "Send a request, and print the reply.",
    "trio-stomp request /queue/double 21 --timeout 5",
    "trio-stomp request /queue/prices --file query.json --content-type application/json --json",
)
@click.argument("destination")
@click.argument("body", required=False)
@option(
    "Input",
    "--file",
    "-f",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="Send this file; - means standard input.",
)
@option("Input", "--text", is_flag=True, help="Send the input as text instead of bytes; JMS brokers distinguish them.")
@option("Input", "--empty", is_flag=True, help="Send an empty request if standard input is empty.")
@option(
    "Message", "--header", "-H", multiple=True, type=header_of, metavar="NAME:VALUE", help="A header of the request."
)
@option("Message", "--content-type", "-t", metavar="TYPE", help="The MIME type of the body.")
@option("Reply", "--timeout", "-w", type=SECONDS, default=10.0, help="How long to wait for the reply.")
@option(
    "Reply",
    "--reply-to",
    metavar="DESTINATION",
    help="Where the reply goes.  [default: a temporary queue, or the broker's equivalent]",
)
@layout_options
@link_options
@click.pass_context
def request(context: click.Context, /, **_options: object) -> None:
    """Send a request to DESTINATION, and print the reply.

    Without BODY, the request is read from standard input or a file. It has the headers reply-to and correlation-id:
    the service sends its reply to the one, with the other.
    """
    arguments, layout = gathered(RequestArguments, context), gathered(Layout, context)
    layout.check()
    link = link_of(context)

    async def work(_stop: Stop) -> None:
        output = Output.standard()
        body = await arguments.read_body()
        async with link.connect() as client:
            reply = await arguments.ask(client, body)
        await output.write(layout.show(reply, for_terminal=output.is_terminal))

    run(work)
