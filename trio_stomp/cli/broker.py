"""``trio-stomp broker``: a broker in memory, for development."""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import anyio
import click

from trio_stomp.cli.commands import command, option
from trio_stomp.cli.options import gathered
from trio_stomp.cli.running import CommandFailed, ExitCode, Stop, is_closed_output, is_unwritable_output, run
from trio_stomp.cli.terminal import say
from trio_stomp.client import Endpoint
from trio_stomp.testing import BrokerOptions, BrokerStatistics, NackPolicy, open_broker

__all__ = ["BrokerArguments", "broker"]

_DEFAULTS: Final = BrokerOptions()
_COUNT: Final = click.IntRange(min=1)
_EXISTING: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerArguments:
    """Where to listen, and what to accept.

    Attributes:
        host: The address to listen on.
        port: The port; 0 takes a free one.
        websocket: Speak STOMP over WebSocket.
        origin: The origins of web pages that may connect over WebSocket.
        unix_socket: The path to listen at, instead of host and port.
        users: A file of ``user:passcode`` lines.
        vhost: The virtual hosts.
        cert: The certificate, for TLS.
        key: Its key.
        nack: What happens to a message after NACK.
        max_deliveries: After how many deliveries a message is dead-lettered.
        dead_letter: Where dead letters go.
        prefetch: The prefetch of consumers that request none.
        heart_beat: Seconds between heart-beats, in both directions.
        server: The ``server`` header.
        bare_queues: Destinations without a known prefix are queues.
        max_message_bytes: The longest body.
        max_queue_bytes: The most that one queue may hold in memory.
        max_stored_bytes: The most that all queues may hold together.
        max_connections: The most connections at once.
    """

    host: str
    port: int
    websocket: bool
    origin: tuple[str, ...] = ()
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

    @property
    def is_open_to_all(self) -> bool:
        """Whether clients on other machines can use it without a login."""
        return self.users is None and self.unix_socket is None and not _is_loopback(self.host)

    @property
    def place(self) -> str:
        """Where it listens, for messages."""
        return f"{self.host} port {self.port}" if self.unix_socket is None else str(self.unix_socket)

    def options(self) -> BrokerOptions:
        """The settings of the broker.

        Raises:
            CommandFailed: They are invalid.
        """
        if self.unix_socket is not None and (self.websocket or self.cert is not None):
            msg = "--unix-socket cannot be combined with --websocket or --cert"
            raise CommandFailed(msg, ExitCode.USAGE)
        if self.origin and not self.websocket:
            raise CommandFailed("--origin concerns web pages, so it needs --websocket", ExitCode.USAGE)
        defaults = _DEFAULTS
        try:
            return BrokerOptions(
                logins=None if self.users is None else read_users(self.users),
                vhosts=self.vhost or None,
                nack=None if self.nack is None else NackPolicy(self.nack),
                max_deliveries=self.max_deliveries,
                dead_letter=self.dead_letter or None,
                prefetch=self.prefetch,
                heart_beat=(self.heart_beat, self.heart_beat),
                server=defaults.server if self.server is None else self.server,
                bare_queues=self.bare_queues,
                limits=replace(defaults.limits, body_bytes=self.max_message_bytes),
                max_queue_bytes=self.max_queue_bytes,
                max_stored_bytes=self.max_stored_bytes,
                max_connections=self.max_connections,
                websocket_origins=self.origin,
            )
        except ValueError as error:
            raise CommandFailed(str(error), ExitCode.USAGE) from error

    def tls(self) -> ssl.SSLContext | None:
        """The TLS context; None without a certificate.

        Raises:
            CommandFailed: The certificate cannot be used.
        """
        if self.cert is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(self.cert, self.key)
        except OSError as error:  # ssl.SSLError is one
            msg = f"cannot load the certificate {self.cert}: {error}; expected PEM"
            raise CommandFailed(msg, ExitCode.USAGE) from error
        return context


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def read_users(file: Path) -> dict[str, str]:
    """Read a file of ``user:passcode`` lines; empty lines and lines that begin with # are ignored.

    Raises:
        CommandFailed: The file cannot be read, has none, or others. The message does not show them.
    """
    users: dict[str, str] = {}
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        # str() of the second would show bytes of the file.
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise CommandFailed(f"{file} cannot be read: {why}", ExitCode.USAGE) from None
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        user, colon, passcode = line.partition(":")
        if not colon or not user:
            raise CommandFailed(f"{file}:{number}: expected user:passcode", ExitCode.USAGE)
        users[user] = passcode
    if not users:
        raise CommandFailed(f"{file} has no users, so no login would be possible", ExitCode.USAGE)
    return users


async def serve(arguments: BrokerArguments, stop: Stop) -> BrokerStatistics:
    """Serve until a signal comes, and return what was done.

    Raises:
        CommandFailed: Cannot listen, or an option is invalid.

    Cancellation: all sessions end, and the messages in the queues are lost.
    """
    tls, options = arguments.tls(), arguments.options()
    stop.code = ExitCode.OK
    try:
        async with open_broker(
            host=arguments.host,
            port=arguments.port,
            tls=tls,
            websocket=arguments.websocket,
            unix_socket=arguments.unix_socket,
            options=options,
        ) as opened:
            # The URL holds a passcode; an Endpoint does not show it.
            click.echo(f"listening on {Endpoint.parse(opened.url)}")
            say("messages are kept in memory and lost on exit; press Ctrl-C to stop")
            if arguments.is_open_to_all:
                click.echo(
                    f"WARNING: {arguments.host} is reachable from other machines, and ANYBODY can connect, read and "
                    "send. This broker is for development: use --users FILE or --host 127.0.0.1",
                    err=True,
                )
            with stop.work():
                await anyio.sleep_forever()
            return opened.statistics()
    except OSError as error:
        if is_closed_output(error) or is_unwritable_output(error):
            raise
        raise CommandFailed(f"cannot listen on {arguments.place}: {error.strerror or error}") from error
    except ModuleNotFoundError as error:
        raise CommandFailed(str(error), ExitCode.USAGE) from error


@command(
    "broker",
    "Run a broker in memory, for development.",
    "trio-stomp broker --port 61613",
    "trio-stomp broker --websocket --port 15674 --users users.txt",
)
@option("Listening", "--host", default="127.0.0.1", help="The address to listen on.")
@option("Listening", "--port", type=click.IntRange(0, 65535), default=61613, help="The port; 0 means any free one.")
@option("Listening", "--websocket", is_flag=True, help="Speak STOMP over WebSocket, at any path (extra websocket).")
@option(
    "Listening",
    "--unix-socket",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="PATH",
    help="Listen at this path instead, without TLS.",
)
@option("Access", "--users", type=_EXISTING, metavar="FILE", help="Accept only these users: lines of user:passcode.")
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
@option("TLS", "--cert", type=_EXISTING, metavar="FILE", help="Use TLS with this certificate (PEM).")
@option("TLS", "--key", type=_EXISTING, metavar="FILE", help="The key of --cert, if in another file.")
@option(
    "Queues",
    "--nack",
    type=click.Choice([each.value for each in NackPolicy]),
    help="What happens to a message after NACK.  [default: what --server does, or requeue]",
)
@option(
    "Queues",
    "--max-deliveries",
    type=click.IntRange(min=1),
    default=5,
    help="Dead-letter a message after this many deliveries.",
)
@option("Queues", "--dead-letter", default="/queue/dead-letter", help="Where dead letters go; '' drops them.")
@option("Queues", "--prefetch", type=click.IntRange(min=1), help="The prefetch of consumers that request none.")
@option(
    "Protocol",
    "--heart-beat",
    type=click.FloatRange(min=0),
    default=1.0,
    metavar="SECONDS",
    help="The heart-beat interval in both directions; 0 means none.",
)
@option("Protocol", "--server", metavar="TEXT", help="The server header, such as RabbitMQ/3.13.")
@option("Queues", "--bare-queues", is_flag=True, help="Treat a destination without /queue/ or /topic/ as a queue.")
@option("Limits", "--max-message-bytes", type=_COUNT, default=_DEFAULTS.limits.body_bytes, help="The longest body.")
@option(
    "Limits",
    "--max-queue-bytes",
    type=_COUNT,
    default=_DEFAULTS.max_queue_bytes,
    help="The most that one queue may hold in memory.",
)
@option(
    "Limits",
    "--max-stored-bytes",
    type=_COUNT,
    default=_DEFAULTS.max_stored_bytes,
    help="The most that all queues may hold together.",
)
@option(
    "Limits", "--max-connections", type=_COUNT, default=_DEFAULTS.max_connections, help="The most connections at once."
)
@click.pass_context
def broker(context: click.Context, /, **_options: object) -> None:
    """Run a STOMP broker that keeps everything in memory, for development and tests."""
    arguments = gathered(BrokerArguments, context)

    async def work(stop: Stop) -> None:
        done = await serve(arguments, stop)
        say(f"{done.connections} connections, {done.received_bytes} bytes in, {done.sent_bytes} bytes out")

    run(work)
