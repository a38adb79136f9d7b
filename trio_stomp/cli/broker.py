"""``trio-stomp broker``: a broker in memory, for development."""

from __future__ import annotations

import ipaddress
import ssl
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import anyio
import click

from trio_stomp.cli.commands import Decorator, command, flag, option
from trio_stomp.cli.options import COUNT, FILE, INTERVAL, gathered, whole
from trio_stomp.cli.passcodes import lines_of
from trio_stomp.cli.running import CommandFailed, ExitCode, InvalidUsage, Stop, run
from trio_stomp.cli.terminal import say
from trio_stomp.client import Endpoint
from trio_stomp.testing import BrokerOptions, BrokerStatistics, NackPolicy, open_broker

__all__ = ["broker"]

_DEFAULTS: Final = BrokerOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arguments:
    """The options of `broker`: where to listen, and what to accept."""

    host: str
    port: int
    websocket: bool
    origin: tuple[str, ...]
    unix_socket: Path | None
    users: Path | None
    vhost: tuple[str, ...]
    cert: Path | None
    key: Path | None
    nack: str | None
    max_deliveries: int
    dead_letter: str
    prefetch: int | None
    heart_beat: float
    server: str | None
    bare_queues: bool
    max_message_bytes: int
    max_queue_bytes: int
    max_stored_bytes: int
    max_connections: int

    def options(self) -> BrokerOptions:
        """Return the settings of the broker."""
        if self.unix_socket is not None and (self.websocket or self.cert is not None):
            raise InvalidUsage("--unix-socket cannot be combined with --websocket or --cert")
        if self.origin and not self.websocket:
            raise InvalidUsage("--origin concerns web pages, so it needs --websocket")
        try:
            return BrokerOptions(
                logins=None if self.users is None else _read_users(self.users),
                vhosts=self.vhost or None,
                nack=None if self.nack is None else NackPolicy(self.nack),
                max_deliveries=self.max_deliveries,
                dead_letter=self.dead_letter or None,
                prefetch=self.prefetch,
                heart_beat=(self.heart_beat, self.heart_beat),
                server=_DEFAULTS.server if self.server is None else self.server,
                bare_queues=self.bare_queues or None,
                limits=replace(_DEFAULTS.limits, body_bytes=self.max_message_bytes),
                max_queue_bytes=self.max_queue_bytes,
                max_stored_bytes=self.max_stored_bytes,
                max_connections=self.max_connections,
                websocket_origins=self.origin,
            )
        except ValueError as error:
            raise InvalidUsage(str(error)) from error

    def tls(self) -> ssl.SSLContext | None:
        """Return the TLS context; None without a certificate."""
        if self.cert is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(self.cert, self.key)
        except OSError as error:  # ssl.SSLError is one
            raise InvalidUsage(f"cannot load the certificate {self.cert}: {error}; expected PEM") from error
        return context


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _read_users(file: Path) -> dict[str, str]:
    """Read a file of ``user:passcode`` lines; empty lines and lines that begin with # are ignored."""
    users: dict[str, str] = {}
    for number, line in enumerate(lines_of(file), 1):
        if not line.strip() or line.startswith("#"):
            continue
        user, colon, passcode = line.partition(":")
        if not colon or not user:
            # Without the line, which may be a passcode.
            raise InvalidUsage(f"{file}:{number}: expected user:passcode")
        users[user] = passcode
    if not users:
        raise InvalidUsage(f"{file} has no users, so no login would be possible")
    return users


async def _serve(arguments: _Arguments, stop: Stop) -> BrokerStatistics:
    """Serve until a signal comes, and return what was done."""
    tls, options, host = arguments.tls(), arguments.options(), arguments.host
    stop.code = ExitCode.OK
    async with AsyncExitStack() as stack:
        try:
            opened = await stack.enter_async_context(
                open_broker(
                    host=host,
                    port=arguments.port,
                    tls=tls,
                    websocket=arguments.websocket,
                    unix_socket=arguments.unix_socket,
                    options=options,
                )
            )
        except OSError as error:
            place = arguments.unix_socket or f"{host} port {arguments.port}"
            raise CommandFailed(f"cannot listen on {place}: {error.strerror or error}") from error
        except ModuleNotFoundError as error:
            raise InvalidUsage(str(error)) from error
        # The URL holds a passcode; an Endpoint does not show it.
        click.echo(f"listening on {Endpoint.parse(opened.url)}")
        say("messages are kept in memory and lost on exit; press Ctrl-C to stop")
        if arguments.users is None and arguments.unix_socket is None and not _is_loopback(host):
            click.echo(
                f"WARNING: {host} is reachable from other machines, and ANYBODY can connect, read and send. "
                "This broker is for development: use --users FILE or --host 127.0.0.1",
                err=True,
            )
        with stop.work():
            await anyio.sleep_forever()
        return opened.statistics()


def _limit(name: str, default: int, help_text: str) -> Decorator:
    return option("Limits", name, type=COUNT, default=default, help=help_text)


@command(
    "trio-stomp broker --port 61613",
    "trio-stomp broker --websocket --port 15674 --users users.txt",
)
@option("Listening", "--host", default="127.0.0.1", help="The address to listen on.")
@option("Listening", "--port", type=whole(0, 65535), default=61613, help="The port; 0 means any free one.")
@flag("Listening", "--websocket", help="Speak STOMP over WebSocket, at any path (extra websocket).")
@option(
    "Listening",
    "--unix-socket",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="PATH",
    help="Listen at this path instead, without TLS.",
)
@option("Access", "--users", type=FILE, help="Accept only these users: lines of user:passcode.")
@option(
    "Access",
    "--origin",
    multiple=True,
    metavar="ORIGIN",
    help="Accept WebSocket connections from web pages of this origin, such as http://localhost:3000; '*' means any.",
)
@option(
    "Access", "--vhost", multiple=True, metavar="NAME", help="A virtual host; without any, all names mean the same."
)
@option("TLS", "--cert", type=FILE, help="Use TLS with this certificate (PEM).")
@option("TLS", "--key", type=FILE, help="The key of --cert, if in another file.")
@option(
    "Queues",
    "--nack",
    type=click.Choice([each.value for each in NackPolicy]),
    help="What happens to a message after NACK.  [default: what --server does, or requeue]",
)
@option("Queues", "--max-deliveries", type=COUNT, default=5, help="Dead-letter a message after this many deliveries.")
@option("Queues", "--dead-letter", default="/queue/dead-letter", help="Where dead letters go; '' drops them.")
@option("Queues", "--prefetch", type=COUNT, help="The prefetch of consumers that request none.")
@option(
    "Protocol",
    "--heart-beat",
    type=INTERVAL,
    default=1.0,
    help="The heart-beat interval in both directions; 0 means none.",
)
@option("Protocol", "--server", metavar="TEXT", help="The server header, such as RabbitMQ/3.13.")
@flag("Queues", "--bare-queues", help="Treat a destination without /queue/ or /topic/ as a queue.")
@_limit("--max-message-bytes", _DEFAULTS.limits.body_bytes, "The longest body.")
@_limit("--max-queue-bytes", _DEFAULTS.max_queue_bytes, "The most that one queue may hold in memory.")
@_limit("--max-stored-bytes", _DEFAULTS.max_stored_bytes, "The most that all queues may hold together.")
@_limit("--max-connections", _DEFAULTS.max_connections, "The most connections at once.")
def broker(context: click.Context) -> None:
    """Run a STOMP broker that keeps everything in memory, for development and tests."""
    arguments = gathered(_Arguments, context)

    async def work(stop: Stop) -> None:
        done = await _serve(arguments, stop)
        say(f"{done.connections} connections, {done.received_bytes} bytes in, {done.sent_bytes} bytes out")

    run(work)
