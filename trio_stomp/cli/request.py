"""``trio-stomp request``: send a request and print the reply."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click
import trio

from trio_stomp.cli.message_input import STANDARD_INPUT, read_whole
from trio_stomp.cli.messages import Layout, displayed
from trio_stomp.cli.options import SECONDS, LinkOptions, gathered, header_of, link_options
from trio_stomp.cli.running import CommandFailed, ExitCode, Stop, run
from trio_stomp.cli.terminal import Output
from trio_stomp.client import Client, Message

__all__ = ["RequestArguments", "request"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestArguments:
    """What to ask, and what to print of the answer.

    Attributes:
        destination: Whom.
        body: The question; None: read it.
        file: Where to read it.
        text: What is read is text in UTF-8.
        header: More headers.
        content_type: MIME type of the question.
        timeout: Seconds to wait for the answer.
        reply_to: Where the answer is to go; None: to a temporary destination.
        headers: Print the headers of the answer, too.
        as_json: Print a line of JSON.
    """

    destination: str
    body: str | None
    file: Path | None
    text: bool
    header: tuple[tuple[str, str], ...]
    content_type: str | None
    timeout: float
    reply_to: str | None
    headers: bool
    as_json: bool

    async def question(self) -> bytes | str:
        """The body of the request.

        Raises:
            CommandFailed: It is given twice, or cannot be read.

        Cancellation: does not wait for an input that gives nothing.
        """
        if self.body is not None:
            if self.file is not None:
                raise CommandFailed("the body is given as an argument or by --file, not both", ExitCode.USAGE)
            await trio.lowlevel.checkpoint()
            return self.body
        octets = await read_whole(self.file or STANDARD_INPUT)
        if not self.text:
            return octets
        try:
            return octets.decode("utf-8")
        except UnicodeDecodeError as error:
            raise CommandFailed(f"with --text, what is sent must be UTF-8: {error}") from None

    async def ask(self, client: Client, question: bytes | str) -> Message:
        """Send the request, and wait for the reply.

        Raises:
            StompError: As `Client.request`.

        Cancellation: the request may have been sent.
        """
        return await client.request(
            self.destination,
            question,
            timeout=self.timeout,
            reply_to=self.reply_to,
            headers=self.header,
            content_type=self.content_type,
        )


@click.command(short_help="Send a request, and print the reply.")
@click.argument("destination")
@click.argument("body", required=False)
@click.option(
    "--file",
    "-f",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="Send this file; - is the standard input.",
)
@click.option("--text", is_flag=True, help="What is read is text, and not octets; JMS brokers tell them apart.")
@click.option("--header", "-H", multiple=True, type=header_of, metavar="NAME:VALUE", help="A header of the request.")
@click.option("--content-type", "-t", metavar="TYPE", help="The MIME type of the body.")
@click.option(
    "--timeout",
    "-w",
    type=SECONDS,
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the reply.",
)
@click.option(
    "--reply-to",
    metavar="DESTINATION",
    help="Where the reply is to go, and is read.  [default: a temporary queue, or what the broker has in its place]",
)
@click.option("--headers", "-i", is_flag=True, help="Print the headers of the reply, too.")
@click.option("--json", "-j", "as_json", is_flag=True, help="Print the reply as a line of JSON.")
@link_options
@click.pass_context
def request(context: click.Context, /, **_options: object) -> None:
    """Send a request to DESTINATION, and print the reply.

    Without BODY, it is read from the standard input or a file. The request bears the headers reply-to and
    correlation-id; whoever answers sends to the one, with the other.
    """
    link, arguments = gathered(LinkOptions, context), gathered(RequestArguments, context)

    async def command(_stop: Stop) -> None:
        output = Output.standard()
        question = await arguments.question()
        async with link.connect() as client:
            reply = await arguments.ask(client, question)
        layout = Layout.of(headers=arguments.headers, as_json=arguments.as_json)
        await output.write(displayed(reply, layout, for_terminal=output.is_terminal))

    run(command)
