"""Dialing: open the transport, then exchange CONNECT and CONNECTED, within one deadline for each host.

The result is a `Link`. The error names the step that failed, because "could not connect" alone does not help.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from inspect import isawaitable
from math import inf
from typing import Final, Generic, NamedTuple, TypeVar

import anyio

from trio_stomp.brokers import Profile, by_version, is_vhost_refusal, profile_for, profile_of
from trio_stomp.errors import AuthenticationError, BrokerError, ConnectError, ConnectFailure
from trio_stomp.printable import safe_str
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
from trio_stomp.runtime import ByteStream, apart, called, completed, current_time, move_on_at
from trio_stomp.session.settings import Settings
from trio_stomp.session.wire_log import wire_log
from trio_stomp.transport import (
    HINT_BYTES,
    Address,
    Endpoint,
    MessageStream,
    StepFailed,
    Steps,
    Transport,
    closed_before_connected,
    connect_refused,
    failure_of_all,
    has_addresses,
    hint_at,
    look_up,
    open_tcp,
    open_transport,
    tls_failure,
)

__all__ = ["Link", "dial", "dial_in_order"]

# What an attempt is made to.
K = TypeVar("K")

# A handshake's answer is small; one read is nearly always enough.
_CHUNK_BYTES: Final = 16 * 1024

# Opens the stream that carries TLS, WebSocket and STOMP.
_Carrier = Callable[[], Awaitable[ByteStream]]


class Link(NamedTuple):
    """A stream to a broker after CONNECT and CONNECTED.

    Attributes:
        stream: The stream.
        protocol: The protocol state.
        connected: The broker's CONNECTED.
        profile: The broker.
        endpoint: Its URL.
        early: Events that came in the same chunk after CONNECTED.
    """

    stream: ByteStream
    protocol: ClientProtocol
    connected: Connected
    profile: Profile
    endpoint: Endpoint
    early: tuple[ClientEvent, ...] = ()


class _Race(Generic[K]):
    """The attempts to connect to several hosts, or to several addresses of one, of which one wins.

    Its link is used, and those of the others are closed.

    Attributes:
        failures: The attempts that failed.
    """

    def __init__(self) -> None:
        self.failures: dict[K, StepFailed] = {}
        self._winner: Link | None = None
        self._losers: list[Link] = []
        # An error that is not about an attempt; it ends the race.
        self._error: Exception | None = None

    async def run(self, begin: Callable[[], Awaitable[None]]) -> Link | None:
        """Hold it; return the first link, or None if all attempts failed.

        Args:
            begin: Begins the attempts, by `attempt`.

        Raises:
            Exception: An error that is not about an attempt.

        Cancellation: what was opened is closed.
        """
        is_run = False
        try:
            async with anyio.create_task_group() as self._nursery:
                await begin()
            is_run = True
        finally:
            if self._winner is not None and (self._error is not None or not is_run):
                # The call was canceled just as it succeeded.
                self._losers.append(self._winner)
            # Closing by force does not wait.
            await self._close_losers()  # noqa: ASYNC102  # see above
        if self._error is not None:
            raise self._error
        return self._winner

    async def attempt(self, name: K, connect: Callable[[], Awaitable[Link]], patience: float) -> None:
        """Begin an attempt, and wait at most that many seconds for its end."""
        over = anyio.Event()
        self._nursery.start_soon(self._attempt, name, connect, over)
        with anyio.move_on_after(patience):
            await over.wait()

    async def _attempt(self, name: K, connect: Callable[[], Awaitable[Link]], over: anyio.Event) -> None:
        """Make one attempt; the first that is connected ends the race."""
        try:
            with apart():
                link = await connect()
        except StepFailed as failed:
            self.failures[name] = failed
        except Exception as error:  # noqa: BLE001  # no other host can help: raised outside of the nursery
            self._error = error
            self._nursery.cancel_scope.cancel()
        else:
            if self._winner is None:
                self._winner = link
                self._nursery.cancel_scope.cancel()
            else:
                # Both were connected within one turn of the scheduler.
                self._losers.append(link)
        over.set()

    async def _close_losers(self) -> None:
        # Without the shield, the first checkpoint of a canceled call would leave the other links open.
        with anyio.CancelScope(shield=True):
            async with AsyncExitStack() as closing:  # one may raise KeyboardInterrupt, which no shield stops
                for link in self._losers:
                    closing.push_async_callback(anyio.aclose_forcefully, link.stream)


async def dial_in_order(settings: Settings, *, endpoints: Sequence[Endpoint] | None = None) -> Link:
    """Connect to the first host of the list that answers.

    With `Settings.connect_attempt_delay`, the next host is tried too when one has not answered after that many seconds.
    The first connection is used, the others are closed.

    Args:
        settings: The options of the client.
        endpoints: The hosts to try. Default: all of `settings`.

    Raises:
        AuthenticationError: A host refused the credentials, and none accepted them.
        ConnectError: No host could be connected to; it holds one failure for each.

    Cancellation: what was opened is closed.
    """
    race: _Race[int] = _Race()
    hosts = settings.endpoints if endpoints is None else tuple(endpoints)
    # Without connect_attempt_delay= the next host waits for the end of the attempt before it.
    patience = inf if settings.connect_attempt_delay is None else settings.connect_attempt_delay

    async def try_all() -> None:
        for number, endpoint in enumerate(hosts):
            await race.attempt(number, partial(dial, endpoint, settings), patience)

    link = await race.run(try_all)
    if link is not None:
        return link
    failures = [
        _connect_failure(str(endpoint), race.failures.get(number) or _canceled())
        for number, endpoint in enumerate(hosts)
    ]
    error = AuthenticationError if any(failure.refused for failure in failures) else ConnectError
    raise error(failures) from failures[-1].cause


def _canceled() -> StepFailed:
    """The failure of an attempt that has ended without one: on asyncio, a program may cancel tasks that are not its."""
    return StepFailed("connect", "the task of this attempt was canceled, as at the end of an event loop")


def _connect_failure(address: str, failed: StepFailed) -> ConnectFailure:
    return ConnectFailure(
        address=address,
        step=failed.step,
        reason=failed.reason,
        cause=failed.__cause__,
        refused=failed.refused,
        hint=failed.hint,
        pending_step=failed.pending_step,
        addresses=tuple(_connect_failure(*each) for each in failed.addresses.items()),
    )


# --- one host ---------------------------------------------------------------------------------------------------------


async def dial(endpoint: Endpoint, settings: Settings) -> Link:
    """Connect to one host, within `settings.connect_timeout`.

    Raises:
        StepFailed: A step failed, or did not finish in time.

    Cancellation: what was opened is closed.
    """
    deadline = current_time() + settings.connect_timeout
    if not has_addresses(endpoint, settings):
        return await _dial_once(endpoint, settings, deadline)
    addresses: list[Address] = []
    with move_on_at(deadline):
        addresses = await look_up(endpoint.host, endpoint.port)
    if not addresses:
        raise Steps(endpoint, tls=settings.uses_tls(endpoint)).timed_out(settings.connect_timeout)
    return await _Addresses(endpoint, settings, addresses, deadline).dial()


async def _dial_once(endpoint: Endpoint, settings: Settings, deadline: float, carrier: _Carrier | None = None) -> Link:
    steps = Steps(endpoint, tls=settings.uses_tls(endpoint))
    link: Link | None = None
    with move_on_at(deadline):
        link = await _link_to_some_vhost(endpoint, settings, steps, carrier)
    if link is None:
        raise steps.timed_out(settings.connect_timeout)
    return link


class _Addresses:
    """The addresses of one host, of which the first is used where a STOMP broker answers.

    What accepts a connection need not be a broker: a load balancer accepts for one that is gone. TCP connections are
    raced as in RFC 8305, and then one handshake at a time is made: the next address has its turn when
    that has failed, or was silent for its share of `settings.connect_timeout`. A slow one may still win.

    Args:
        endpoint: The host.
        settings: The options of the client.
        addresses: Its addresses.
        deadline: Clock time at which to give up.
    """

    def __init__(self, endpoint: Endpoint, settings: Settings, addresses: Sequence[Address], deadline: float) -> None:
        self._endpoint = endpoint
        self._settings = settings
        self._addresses = tuple(addresses)
        self._deadline = deadline
        self._share = settings.connect_timeout / len(addresses)
        self._race: _Race[Address] = _Race()
        # Streams that no attempt has taken: on asyncio, a task that is canceled before it begins runs nothing at all.
        self._opened: dict[Address, ByteStream] = {}

    async def dial(self) -> Link:
        """Connect to one of them.

        Raises:
            StepFailed: All have failed, or a broker has refused for good.

        Cancellation: what was opened is closed.
        """
        try:
            link = await self._race.run(self._try_all)
        finally:
            with anyio.CancelScope(shield=True):  # closing by force does not wait
                for unused in self._opened.values():
                    await anyio.aclose_forcefully(unused)
        if link is not None:
            return link
        failures = self._race.failures
        failed = {each: failures[each] for each in self._addresses if each in failures}
        raise failure_of_all(failed) if failed else _canceled()

    async def _try_all(self) -> None:
        race, left = self._race, list(self._addresses)
        while left and not any(failed.is_final or failed.step == "credentials" for failed in race.failures.values()):
            opened = None
            with move_on_at(self._deadline) as timeout:
                opened = await open_tcp(left, race.failures)
            if timeout.cancelled_caught:
                steps = Steps(self._endpoint, tls=self._settings.uses_tls(self._endpoint))
                late = steps.timed_out(self._settings.connect_timeout)
                race.failures.update({each: late for each in left if each not in race.failures})
            if opened is None:
                return
            address, stream = opened
            self._opened[address] = stream
            left = [each for each in left if each is not address and each not in race.failures]
            await race.attempt(address, partial(self._attempt, address), self._share)

    async def _attempt(self, address: Address) -> Link:
        async def carrier() -> ByteStream:
            if address in self._opened:
                return self._opened.pop(address)
            # Another virtual host, at the same address.
            failed: dict[Address, StepFailed] = {}
            again = await open_tcp([address], failed)
            if again is None:
                raise failed.get(address) or _canceled()
            return again[1]

        return await _dial_once(self._endpoint, self._settings, self._deadline, carrier)


async def _link_to_some_vhost(
    endpoint: Endpoint, settings: Settings, steps: Steps, carrier: _Carrier | None = None
) -> Link:
    """Connect to the virtual host that the user named; without one to ``/``, then to the one named like the host."""
    named = settings.vhost or endpoint.vhost
    if named is not None:
        return await _link(endpoint, settings, steps, named, carrier)
    try:
        # Row 1x-CONN-10: we may choose any name. "/" is the default virtual host of RabbitMQ, which refuses names that
        # it does not have; most other brokers ignore the header.
        return await _link(endpoint, settings, steps, "/", carrier)
    except StepFailed as refused:
        error = refused.__cause__
        is_about_vhost = isinstance(error, BrokerError) and is_vhost_refusal(error.message, error.body)
        if not is_about_vhost or endpoint.transport is Transport.UNIX or settings.open_stream is not None:
            raise
        try:
            # CoilMQ, in 1.2, takes the host header for its own host name.
            return await _link(endpoint, settings, steps, endpoint.server_name, carrier)
        except StepFailed:
            raise refused from error


async def _link(endpoint: Endpoint, settings: Settings, steps: Steps, vhost: str, carrier: _Carrier | None) -> Link:
    stream = await open_transport(endpoint, settings, steps, carrier=carrier)
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
            with anyio.CancelScope(shield=True):  # a `Cancelled` from here would replace a KeyboardInterrupt
                await anyio.aclose_forcefully(stream)
    return link


async def _credentials(endpoint: Endpoint, settings: Settings) -> tuple[str | None, str | None]:
    if settings.credentials is None:
        login = settings.login if settings.login is not None else endpoint.login
        passcode = settings.passcode if settings.passcode is not None else endpoint.passcode
        return login, passcode
    try:
        return _pair(await completed(_awaitable(called(settings.credentials))))
    except Exception as error:
        reason = f"the function given as credentials= failed: {safe_str(error) or type(error).__name__}"
        raise StepFailed("credentials", reason) from error


def _awaitable(given: Awaitable[object]) -> Awaitable[object]:
    if not isawaitable(given):
        raise TypeError(f"it must be an async function; it returned {type(given).__name__}, which cannot be awaited")
    return given


def _pair(given: object) -> tuple[str, str]:
    match given:
        case (str(login), str(passcode)):
            return login, passcode
        case _:
            # Never shown: it may hold the passcode.
            msg = f"it must return a login and a passcode, both str; it returned {type(given).__name__}"
            raise TypeError(msg)


async def _handshake(
    stream: ByteStream,
    endpoint: Endpoint,
    settings: Settings,
    credentials: tuple[str | None, str | None],
    vhost: str,
) -> Link:
    profile = settings.profile

    def tolerances_for(server: str | None) -> Profile:
        return profile if profile is not None else profile_for(server)

    protocol = _protocol(settings, lambda server: tolerances_for(server).tolerances)
    headers = [*_credential_headers(credentials, profile), *settings.headers]
    frame = protocol.connect(host=vhost, offer=settings.heart_beat, headers=headers)
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
    except anyio.BrokenResourceError as error:
        raise _broken(error, endpoint, settings) from (error.__cause__ or error)
    if not isinstance(first, Connected):
        raise _refusal(first)
    over_websocket = endpoint.transport is Transport.WEBSOCKET
    connected = first.frame.headers
    if profile is None:
        found = profile_of(connected, over_websocket=over_websocket)
    else:
        found = by_version(profile, connected.get("server"))
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


def _credential_headers(credentials: tuple[str | None, str | None], profile: Profile | None) -> list[tuple[str, str]]:
    doubles = profile is not None and profile.unescapes_connect
    given = zip(("login", "passcode"), credentials, strict=True)
    return [(name, value.replace("\\", "\\\\") if doubles else value) for name, value in given if value is not None]


def _protocol(settings: Settings, tolerances_for: Callable[[str | None], Tolerances]) -> ClientProtocol:
    if settings.draft:
        return DraftClientProtocol(limits=settings.limits, tolerances_for=tolerances_for)
    return ClientProtocol(versions=settings.versions, limits=settings.limits, tolerances_for=tolerances_for)


async def _first_events(
    stream: ByteStream, protocol: ClientProtocol, endpoint: Endpoint, settings: Settings
) -> list[ClientEvent]:
    seen = b""
    while True:
        data = bytes(await stream.receive_some(_CHUNK_BYTES))
        if not data:
            raise closed_before_connected(seen, endpoint, tls=settings.uses_tls(endpoint))
        seen += data[: HINT_BYTES - len(seen)]
        events = protocol.receive_data(data)
        if events:
            if isinstance(events[0], Violation):
                what = f"the answer to CONNECT is not STOMP: {events[0].error}"
                hint = hint_at(seen, endpoint, tls=settings.uses_tls(endpoint))
                raise StepFailed("connect", what, hint) from events[0].error
            return events


def _broken(error: anyio.BrokenResourceError, endpoint: Endpoint, settings: Settings) -> StepFailed:
    cause = error.__cause__
    if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError):
        # In TLS 1.3 the handshake is over for the client before the server has looked at its certificate.
        return tls_failure(cause, endpoint)
    why = "" if isinstance(cause, ssl.SSLEOFError) else str(cause or error)
    return closed_before_connected(b"", endpoint, tls=settings.uses_tls(endpoint), why=why)


def _refusal(event: ClientEvent) -> Exception:
    if isinstance(event, ErrorReceived):
        return connect_refused(event.as_exception())
    return StepFailed("connect", f"the broker answered CONNECT with {type(event).__name__}")
