"""Dialing: open the transport, then exchange CONNECT and CONNECTED, within one deadline for each host.

The error names the step that failed, because "could not connect" alone does not help.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

import trio

from trio_stomp.brokers import Profile, is_vhost_refusal, profile_for, profile_of
from trio_stomp.errors import AuthenticationError, BrokerError, ConnectError, ConnectFailure
from trio_stomp.protocol import (
    ClientEvent,
    ClientProtocol,
    Connected,
    DraftClientProtocol,
    ErrorReceived,
    Secrets,
    Tolerances,
    Violation,
)
from trio_stomp.session.settings import Settings
from trio_stomp.session.wire_log import wire_log
from trio_stomp.transport import (
    HINT_BYTES,
    Endpoint,
    MessageStream,
    StepFailed,
    Steps,
    Transport,
    closed_before_connected,
    connect_refused,
    hint_at,
    open_transport,
    tls_failure,
)

__all__ = ["Link", "dial", "dial_in_order"]

# A handshake's answer is small; one read is nearly always enough.
_CHUNK_BYTES: Final = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A stream to a broker after CONNECT and CONNECTED.

    Attributes:
        stream: The stream.
        protocol: The protocol state.
        connected: The broker's CONNECTED.
        profile: The broker.
        endpoint: Its URL.
        early: Events that came in the same chunk after CONNECTED.
    """

    stream: trio.abc.Stream
    protocol: ClientProtocol
    connected: Connected
    profile: Profile
    endpoint: Endpoint
    early: tuple[ClientEvent, ...] = ()


async def dial_in_order(settings: Settings, *, endpoints: Sequence[Endpoint] | None = None) -> Link:
    """Connect to the first host of the list that answers.

    With `Settings.stagger`, the next host is tried too when one has not answered after that many seconds. The first
    connection is used, the others are closed.

    Args:
        settings: The options of the client.
        endpoints: The hosts to try. Default: all of `settings`.

    Raises:
        AuthenticationError: A host refused the credentials, and none accepted them.
        ConnectError: No host could be connected to; it holds one failure for each.

    Cancellation: what was opened is closed.
    """
    race = _Race(settings, settings.endpoints if endpoints is None else tuple(endpoints))
    try:
        async with trio.open_nursery() as nursery:
            for number in range(len(race.endpoints)):
                over = trio.Event()
                nursery.start_soon(race.attempt, number, over, nursery.cancel_scope)
                # Without a stagger the next host waits for the end of the attempt before it.
                with trio.move_on_after(inf if settings.stagger is None else settings.stagger):
                    await over.wait()
        race.is_run = True
    finally:
        # Closing by force does not wait.
        await race.close_losers()  # noqa: ASYNC102  # see above
    if race.error is not None:
        raise race.error
    if race.winner is not None:
        return race.winner
    failures = [race.failures[number] for number in sorted(race.failures)]
    error = AuthenticationError if any(failure.refused for failure in failures) else ConnectError
    raise error(failures) from failures[-1].cause


class _Race:
    """The attempts to connect to several hosts, of which one wins."""

    def __init__(self, settings: Settings, endpoints: Sequence[Endpoint]) -> None:
        self._settings = settings
        self._losers: list[Link] = []
        self.endpoints = endpoints
        self.winner: Link | None = None
        self.failures: dict[int, ConnectFailure] = {}
        self.error: Exception | None = None
        self.is_run = False

    async def attempt(self, number: int, over: trio.Event, race: trio.CancelScope) -> None:
        """Try one host; the first that is connected ends the race."""
        endpoint = self.endpoints[number]
        try:
            link = await dial(endpoint, self._settings)
        except StepFailed as failed:
            self.failures[number] = ConnectFailure(
                address=str(endpoint),
                step=failed.step,
                reason=failed.reason,
                cause=failed.__cause__,
                refused=failed.refused,
                hint=failed.hint,
                pending_step=failed.pending_step,
            )
        except Exception as error:  # noqa: BLE001  # no other host can help: raised outside of the nursery
            self.error = error
            race.cancel()
        else:
            if self.winner is None:
                self.winner = link
                race.cancel()
            else:
                # Both were connected within one turn of the scheduler.
                self._losers.append(link)
        over.set()

    async def close_losers(self) -> None:
        """Close all connections that are not used, even when canceled."""
        if self.winner is not None and (self.error is not None or not self.is_run):
            # The call was canceled just as it succeeded.
            self._losers.append(self.winner)
        # Without the shield, the first checkpoint of a canceled call would leave the other links open.
        with trio.CancelScope(shield=True):
            for link in self._losers:
                await trio.aclose_forcefully(link.stream)


async def dial(endpoint: Endpoint, settings: Settings) -> Link:
    """Connect to one host, within `settings.connect_timeout`.

    Raises:
        StepFailed: A step failed, or did not finish in time.

    Cancellation: what was opened is closed.
    """
    steps = Steps(endpoint, tls=_tls(endpoint, settings))
    link: Link | None = None
    with trio.move_on_after(settings.connect_timeout):
        link = await _link_to_some_vhost(endpoint, settings, steps)
    if link is None:
        raise steps.timed_out(settings.connect_timeout)
    return link


async def _link_to_some_vhost(endpoint: Endpoint, settings: Settings, steps: Steps) -> Link:
    """Connect to the virtual host that the user named; without one to ``/``, then to the one named like the host."""
    named = settings.vhost or endpoint.vhost
    if named is not None:
        return await _link(endpoint, settings, steps, named)
    try:
        # Row 1x-CONN-10: we may choose any name. "/" is the default virtual host of RabbitMQ, which refuses names that
        # it does not have; most other brokers ignore the header.
        return await _link(endpoint, settings, steps, "/")
    except StepFailed as refused:
        error = refused.__cause__
        is_about_vhost = isinstance(error, BrokerError) and is_vhost_refusal(error.message, error.body)
        if not is_about_vhost or endpoint.transport is Transport.UNIX or settings.open_stream is not None:
            raise
        try:
            # CoilMQ, in 1.2, takes the host header for its own host name.
            return await _link(endpoint, settings, steps, endpoint.server_name)
        except StepFailed:
            raise refused from error


async def _link(endpoint: Endpoint, settings: Settings, steps: Steps, vhost: str) -> Link:
    stream = await open_transport(endpoint, settings, steps)
    is_linked = False
    try:
        steps.current = "credentials"
        credentials = await _credentials(endpoint, settings)
        steps.current = "connect"
        link = await _handshake(stream, endpoint, settings, credentials, vhost)
        is_linked = True
    finally:
        # Canceled, refused or timed out: close the stream at once, without a DISCONNECT.
        if not is_linked:
            await trio.aclose_forcefully(stream)
    return link


async def _credentials(endpoint: Endpoint, settings: Settings) -> tuple[str | None, str | None]:
    if settings.credentials is None:
        login = settings.login if settings.login is not None else endpoint.login
        passcode = settings.passcode if settings.passcode is not None else endpoint.passcode
        return login, passcode
    try:
        return _pair(await settings.credentials())
    except Exception as error:
        reason = f"the function given as credentials= failed: {str(error) or type(error).__name__}"
        raise StepFailed("credentials", reason) from error


def _pair(given: object) -> tuple[str, str]:
    match given:
        case (str(login), str(passcode)):
            return login, passcode
        case _:
            # Never shown: it may hold the passcode.
            msg = f"it must return a login and a passcode, both str; it returned {type(given).__name__}"
            raise TypeError(msg)


async def _handshake(
    stream: trio.abc.Stream,
    endpoint: Endpoint,
    settings: Settings,
    credentials: tuple[str | None, str | None],
    vhost: str,
) -> Link:
    profile = settings.profile

    def tolerances_for(server: str | None) -> Profile:
        return profile if profile is not None else profile_for(server)

    protocol = _protocol(settings, lambda server: tolerances_for(server).tolerances)
    headers: list[tuple[str, str]] = []
    for name, value in zip(("login", "passcode"), credentials, strict=True):
        if value is not None:
            escaped = value.replace("\\", "\\\\") if profile is not None and profile.unescapes_connect else value
            headers.append((name, escaped))
    headers += settings.headers
    frame = protocol.connect(host=vhost, offer=settings.offer, headers=headers)
    if isinstance(stream, MessageStream):
        protocol.secrets = stream.secrets = Secrets([*headers, *settings.websocket_headers, *endpoint.query])
    wire = wire_log(endpoint, None, protocol.secrets)
    if wire is not None:
        wire.sent(frame)
    try:
        await stream.send_all(frame)
        first, *early = await _first_events(stream, protocol, endpoint, settings)
        if wire is not None:
            wire.received([first])
    except trio.BrokenResourceError as error:
        raise _broken(error, endpoint, settings) from (error.__cause__ or error)
    if not isinstance(first, Connected):
        raise _refusal(first)
    over_websocket = endpoint.transport is Transport.WEBSOCKET
    found = profile or profile_of(first.frame.headers, over_websocket=over_websocket)
    if isinstance(stream, MessageStream):
        stream.message_bytes = settings.websocket_message_bytes or found.websocket_message_bytes
    return Link(
        stream=stream,
        protocol=protocol,
        connected=first,
        profile=found.over_websocket() if over_websocket else found,
        endpoint=endpoint,
        early=tuple(early),
    )


def _protocol(settings: Settings, tolerances_for: Callable[[str | None], Tolerances]) -> ClientProtocol:
    if settings.draft:
        return DraftClientProtocol(limits=settings.limits, tolerances_for=tolerances_for)
    return ClientProtocol(versions=settings.versions, limits=settings.limits, tolerances_for=tolerances_for)


async def _first_events(
    stream: trio.abc.Stream, protocol: ClientProtocol, endpoint: Endpoint, settings: Settings
) -> list[ClientEvent]:
    seen = b""
    while True:
        data = bytes(await stream.receive_some(_CHUNK_BYTES))
        if not data:
            raise closed_before_connected(seen, endpoint, tls=_tls(endpoint, settings))
        seen += data[: HINT_BYTES - len(seen)]
        events = protocol.receive_data(data)
        if events:
            if isinstance(events[0], Violation):
                what = f"the answer to CONNECT is not STOMP: {events[0].error}"
                hint = hint_at(seen, endpoint, tls=_tls(endpoint, settings))
                raise StepFailed("connect", what, hint) from events[0].error
            return events


def _broken(error: trio.BrokenResourceError, endpoint: Endpoint, settings: Settings) -> StepFailed:
    cause = error.__cause__
    if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError):
        # In TLS 1.3 the handshake is over for the client before the server has looked at its certificate.
        return tls_failure(cause, endpoint)
    why = "" if isinstance(cause, ssl.SSLEOFError) else str(cause or error)
    return closed_before_connected(b"", endpoint, tls=_tls(endpoint, settings), why=why)


def _tls(endpoint: Endpoint, settings: Settings) -> bool:
    return endpoint.tls or bool(settings.tls)


def _refusal(event: ClientEvent) -> Exception:
    if isinstance(event, ErrorReceived):
        return connect_refused(event.as_exception())
    return StepFailed("connect", f"the broker answered CONNECT with {type(event).__name__}")
