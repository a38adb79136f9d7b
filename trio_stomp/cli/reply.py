"""``trio-stomp reply``: answer requests."""

from __future__ import annotations

import logging
import subprocess
from dataclasses import dataclass
from functools import partial
from typing import Final

import anyio
import anyio.to_thread

from trio_stomp.cli.commands import Command, argument, flag, option, options
from trio_stomp.cli.messages import require_all, room, take_batch
from trio_stomp.cli.options import Connecting, Link, LinkOptions, Pairs, Until, content_type_option, header_option
from trio_stomp.cli.running import CommandFailed, InvalidUsage, Stop, report
from trio_stomp.cli.terminal import say
from trio_stomp.client import Message, Subscription
from trio_stomp.errors import LocalProtocolError, NotSupportedError, StaleMessage

__all__ = ["Reply", "reply"]

logger: Final = logging.getLogger("trio_stomp.cli")

# Seconds after a signal for a request that is being answered and acknowledged.
_SETTLING: Final = 2.0

_STAYS: Final = "it stays in the queue"


@dataclass(frozen=True, kw_only=True)
class Reply(Connecting):
    """Answer the requests at DESTINATION, one after the other, until Ctrl-C.

    Each reply goes where the header reply-to of its request says, with the correlation-id of the request, as trio-stomp
    request and the clients of most languages expect. A request is acknowledged when its reply is sent. If the command
    of --shell fails, what it has printed is the reply, with the header exit-status.
    """

    destination: str = argument("", required=True)
    body: str | None = argument(None)
    shell: str | None = option(
        None,
        "Reply",
        "Run this in the shell for each request: it reads the request, and what it prints is the reply.",
        "-x",
        metavar="COMMAND",
    )
    echo: bool = flag("Reply", "Reply with the request itself.")
    header: Pairs = header_option("Reply", "A header of the replies.")
    content_type: str | None = content_type_option("Reply", "The MIME type of the replies.")
    until: Until = options(Until)
    connection: LinkOptions = options(LinkOptions)

    def check(self) -> None:
        """Check that there is one way to make replies."""
        if (self.body is not None) + (self.shell is not None) + self.echo != 1:
            raise InvalidUsage("pass the reply as an argument, or --shell, or --echo: one of them")

    async def answer(self, request: Message, stop: Stop) -> None:
        """Send the reply to a request, and acknowledge it.

        Raises:
            CommandFailed: It cannot be answered. It is not refused, as some brokers would dead-letter it.

        Cancellation: the request is redelivered. There is no reply, unless it was being sent.
        """
        if not request.headers.get("reply-to"):
            raise CommandFailed(f"message {request.id!r} has no reply-to header: it is not a request; {_STAYS}")
        headers, content_type = list(self.header), self.content_type
        made: bytes | str = self.body or ""
        if self.echo:
            made, content_type = request.body, content_type or request.content_type
        elif self.shell is not None:
            # Not anyio.run_process(), which fails if the command ends before it has read all of its input.
            done = await anyio.to_thread.run_sync(partial(_run, self.shell, request.body), abandon_on_cancel=True)
            # Ctrl-C ends this command, too, perhaps before the signal has reached its turn here. That is no reply.
            await anyio.lowlevel.checkpoint()
            made = done.stdout
            if done.returncode:
                headers.append(("exit-status", str(done.returncode)))
                report(f"the command ended with status {done.returncode} for request {request.id}")
        # A request that was answered must not be redelivered after Ctrl-C.
        async with stop.settling(_SETTLING):
            try:
                await request.reply(made, headers=headers, content_type=content_type)
            except (LocalProtocolError, NotSupportedError) as error:
                raise CommandFailed(f"no reply to message {request.id!r} can be sent: {error}; {_STAYS}") from error
            try:
                await request.ack()
            except StaleMessage:
                logger.warning("message %r was answered but is stale: the broker redelivers it", request.id)

    async def run(self, link: Link, stop: Stop) -> None:
        """Connect, and answer requests."""
        async with link.connect() as client, client.subscribe(self.destination, prefetch=1) as requests:
            say(f"answering requests at {self.destination}; press Ctrl-C to stop")
            await self.serve(requests, stop)

    async def serve(self, requests: Subscription, stop: Stop) -> None:
        """Answer requests until the first signal, or until enough were answered or none comes in time."""
        answered = 0
        with stop.work():
            while batch := await take_batch(requests, room(1, self.until.count, answered), self.until.timeout):
                await self.answer(batch[0], stop)
                answered += 1
        if stop.signal is None:
            require_all(answered, self.until.count, "requests")


def _run(shell: str, body: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(shell, shell=True, input=body, stdout=subprocess.PIPE, check=False)  # noqa: S602  # the user's


reply = Command(
    Reply,
    "trio-stomp reply /queue/health ok",
    "trio-stomp reply /queue/upper --shell 'tr a-z A-Z' --content-type text/plain",
    "trio-stomp reply /queue/ping --echo --count 10",
)
