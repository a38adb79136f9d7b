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

from trio_stomp.cli.commands import Command, flag, option
from trio_stomp.cli.options import COUNT, FILE, INTERVAL, Whole, tls_context
from trio_stomp.cli.passcodes import lines_of
from trio_stomp.cli.running import CommandFailed, ExitCode, InvalidUsage, Stop, run
from trio_stomp.cli.terminal import say
from trio_stomp.client import Endpoint
from trio_stomp.testing import BrokerOptions, NackPolicy, open_broker

__all__ = ["broker"]

_DEFAULTS: Final = BrokerOptions()


def _limit(default: int, help_text: str) -> int:
    return option(default, "Limits", help_text, type=COUNT)


@dataclass(frozen=True, kw_only=True)
class Broker:
    """Run a STOMP broker that keeps everything in memory, for development and tests."""

    host: str = option("127.0.0.1", "Listening", "The address to listen on.")
    port: int = option(61613, "Listening", "The port; 0 means any free one.", type=Whole(0, 65535))
    websocket: bool = flag("Listening", "Speak STOMP over WebSocket, at any path (extra websocket).")
    unix_socket: Path | None = option(
        None,
        "Listening",
        "Listen at this path instead, without TLS.",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="PATH",
    )
    users: Path | None = option(None, "Access", "Accept only these users: lines of user:passcode.", type=FILE)
    origin: tuple[str, ...] = option(
        (),
        "Access",
        "Accept WebSocket connections from web pages of this origin, such as http://localhost:3000; '*' means any.",
        multiple=True,
        metavar="ORIGIN",
    )
    vhost: tuple[str, ...] = option(
        (), "Access", "A virtual host; without any, all names mean the same.", multiple=True, metavar="NAME"
    )
    cert: Path | None = option(None, "TLS", "Use TLS with this certificate (PEM).", type=FILE)
    key: Path | None = option(None, "TLS", "The key of --cert, if in another file.", type=FILE)
    nack: str | None = option(
        None,
        "Queues",
        "What happens to a message after NACK.  [default: what --server does, or requeue]",
        type=click.Choice([each.value for each in NackPolicy]),
    )
    max_deliveries: int = option(
        5, "Queues", "Dead-letter a message after this many NACKs, if a NACK requeues.", type=COUNT
    )
    dead_letter: str = option("/queue/dead-letter", "Queues", "Where dead letters go; '' drops them.")
    prefetch: int | None = option(None, "Queues", "The prefetch of consumers that request none.", type=COUNT)
    heart_beat: float = option(
        1.0, "Protocol", "The heart-beat interval in both directions; 0 means none.", type=INTERVAL
    )
    server: str | None = option(None, "Protocol", "The server header, such as RabbitMQ/3.13.", metavar="TEXT")
    bare_queues: bool = flag("Queues", "Treat a destination without /queue/ or /topic/ as a queue.")
    max_message_bytes: int = _limit(_DEFAULTS.limits.body_bytes, "The longest body.")
    max_queue_bytes: int = _limit(_DEFAULTS.max_queue_bytes, "The most that one queue may hold in memory.")
    max_stored_bytes: int = _limit(_DEFAULTS.max_stored_bytes, "The most that all queues may hold together.")
    max_connections: int = _limit(_DEFAULTS.max_connections, "The most connections at once.")

    def start(self, _context: click.Context) -> None:
        """Serve until a signal comes."""
        run(self._serve)

    def _options(self) -> BrokerOptions:
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

    async def _serve(self, stop: Stop) -> None:
        tls = tls_context(ssl.Purpose.CLIENT_AUTH, None, self.cert, self.key)
        options, host = self._options(), self.host
        stop.code = ExitCode.OK
        async with AsyncExitStack() as stack:
            try:
                opened = await stack.enter_async_context(
                    open_broker(
                        host=host,
                        port=self.port,
                        tls=tls,
                        websocket=self.websocket,
                        unix_socket=self.unix_socket,
                        options=options,
                    )
                )
            except (OSError, UnicodeError) as error:
                place = self.unix_socket or f"{host} port {self.port}"
                why = getattr(error, "strerror", None) or error
                raise CommandFailed(f"cannot listen on {place}: {why}") from error
            except ModuleNotFoundError as error:
                raise InvalidUsage(str(error)) from error
            # The URL holds a passcode; an Endpoint does not show it.
            click.echo(f"listening on {Endpoint.parse(opened.url)}")
            say("messages are kept in memory and lost on exit; press Ctrl-C to stop")
            if self.users is None and self.unix_socket is None and not _is_loopback(host):
                click.echo(
                    f"WARNING: {host} is reachable from other machines, and ANYBODY can connect, read and send. "
                    "This broker is for development: use --users FILE or --host 127.0.0.1",
                    err=True,
                )
            with stop.work():
                await anyio.sleep_forever()
            done = opened.statistics()
        say(f"{done.connections} connections, {done.received_bytes} bytes in, {done.sent_bytes} bytes out")


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


broker = Command(
    Broker,
    "trio-stomp broker --port 61613",
    "trio-stomp broker --websocket --port 15674 --users users.txt",
)
