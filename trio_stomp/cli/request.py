"""``trio-stomp request``: send a request and print the reply."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio

from trio_stomp.cli.commands import Command, argument, flag, option, options
from trio_stomp.cli.layouts import Layout
from trio_stomp.cli.message_input import STANDARD_INPUT, read_whole
from trio_stomp.cli.options import (
    INPUT_FILE,
    SECONDS,
    Connecting,
    Link,
    LinkOptions,
    Pairs,
    content_type_option,
    header_option,
    text_option,
)
from trio_stomp.cli.running import InvalidUsage, Stop
from trio_stomp.cli.terminal import Output

__all__ = ["request"]


@dataclass(frozen=True, kw_only=True)
class Request(Connecting):
    """Send a request to DESTINATION, and print the reply.

    Without BODY, the request is read from standard input or a file. It has the headers reply-to and correlation-id:
    the service sends its reply to the one, with the other.
    """

    destination: str = argument("", required=True)
    body: str | None = argument(None)
    file: Path | None = option(None, "Input", "Send this file; - means standard input.", "-f", type=INPUT_FILE)
    text: bool = text_option()
    empty: bool = flag("Input", "Send an empty request if standard input is empty.")
    header: Pairs = header_option("Message", "A header of the request.")
    content_type: str | None = content_type_option("Message", "The MIME type of the body.")
    timeout: float = option(10.0, "Reply", "How long to wait for the reply.", "-w", type=SECONDS)
    reply_to: str | None = option(
        None,
        "Reply",
        "Where the reply goes.  [default: a temporary queue, or the broker's equivalent]",
        metavar="DESTINATION",
    )
    layout: Layout = options(Layout)
    connection: LinkOptions = options(LinkOptions)

    def check(self) -> None:
        """Refuse contradictory arguments."""
        if self.body is not None and self.file is not None:
            raise InvalidUsage("pass the body as an argument or with --file, not both")
        self.layout.check()

    async def _read_body(self) -> bytes | str:
        """Return the body of the request.

        Cancellation: does not wait for more input.
        """
        if self.body is not None:
            await anyio.lowlevel.checkpoint()
            return self.body
        read = partial(read_whole, self.file or STANDARD_INPUT, text=self.text, empty=self.empty)
        return await anyio.to_thread.run_sync(read, abandon_on_cancel=True)

    async def run(self, link: Link, stop: Stop) -> None:  # noqa: ARG002  # a signal ends all of it
        """Send the request, and print the reply."""
        output = Output()
        body = await self._read_body()
        async with link.connect() as client:
            reply = await client.request(
                self.destination,
                body,
                timeout=self.timeout,
                reply_to=self.reply_to,
                headers=self.header,
                content_type=self.content_type,
            )
        await output.write(self.layout.show(reply, for_terminal=output.is_terminal))


request = Command(
    Request,
    "trio-stomp request /queue/double 21 --timeout 5",
    "trio-stomp request /queue/prices --file query.json --content-type application/json --json",
)
