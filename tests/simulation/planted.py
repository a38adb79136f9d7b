"""Faults put into the client by hand, each of which the simulation must find.

Each changes as little as it can, mostly whole frames on their way out, so that it outlives changes of the client's
insides.
"""

from __future__ import annotations

import asyncio
import itertools
import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Final

import anyio
import anyio.lowlevel
import pytest
import trio

from tests.simulation.scenario import Result, simulate
from trio_stomp import Client, Publication
from trio_stomp.client import connecting
from trio_stomp.client.client import session_of
from trio_stomp.errors import StompError
from trio_stomp.session import connection_tasks, reconnecting
from trio_stomp.session.buffer import Inbox
from trio_stomp.session.connection import Connection
from trio_stomp.session.receipts import Receipts, Window
from trio_stomp.session.session import Session

__all__ = ["PLANTED", "planted", "search"]

_post: Final = Connection.post
_confirm: Final = Receipts.confirm
_release: Final = Window.release
_tell: Final = Publication._tell
_wake: Final = Inbox.wake
_lose_all: Final = Receipts.lose_all
_fail: Final = Connection.fail
_supervise: Final = reconnecting.supervise
_send: Final = Client.send
_send_again: Final = reconnecting._send_again
_subscribe_again: Final = reconnecting._subscribe_again

_Patch = tuple[object, str, object]


# --- what is written --------------------------------------------------------------------------------------------------


def _dropping(command: bytes, *, one_in: int, header: bytes = b"\n") -> _Patch:
    """Drop some of the frames with a command and a header."""
    numbers = itertools.count(1)

    def post(connection: Connection, frame: bytes) -> None:
        is_meant = frame.startswith(command) and header in frame.partition(b"\n\n")[0]
        if not (is_meant and next(numbers) % one_in == 0):
            _post(connection, frame)

    return Connection, "post", post


def _repeating(command: bytes) -> tuple[_Patch, _Patch]:
    """Write the last frame with a command once more on the next connection."""
    last: weakref.WeakKeyDictionary[Receipts, bytes] = weakref.WeakKeyDictionary()

    def post(connection: Connection, frame: bytes) -> None:
        if frame.startswith(command):
            last[connection.receipts] = frame
        _post(connection, frame)

    async def send_again(connection: Connection, session: Session) -> None:
        await _send_again(connection, session)
        if session.receipts in last:
            _post(connection, last.pop(session.receipts))

    return (Connection, "post", post), (reconnecting, "_send_again", send_again)


async def _send_leaving_half(client: Client, destination: str, body: bytes, **options: object) -> None:
    connection = session_of(client).connection
    try:
        await _send(client, destination, body, **options)  # type: ignore[arg-type]  # as they came
    except anyio.get_cancelled_exc_class():
        if connection.is_open:
            _post(connection, b"SEND\ndestination:/queue/a\n\n#")
        raise


# --- reconnecting -----------------------------------------------------------------------------------------------------


async def _send_nothing_again(_connection: Connection, _session: Session) -> None:
    await anyio.lowlevel.checkpoint()


async def _send_again_backwards(connection: Connection, session: Session) -> None:
    receipts = session.receipts
    receipts.messages = dict(reversed(receipts.messages.items()))
    await _send_again(connection, session)


async def _forget_a_subscription(connection: Connection, session: Session) -> None:
    newest = next(reversed(session.registrations), None)
    if newest is not None:
        del session.registrations[newest]
    try:
        await _subscribe_again(connection, session)
    finally:
        if newest is not None and not newest.is_over:
            session.registrations[newest] = None


def _keep_stale(inbox: Inbox) -> None:
    inbox._gate.held_bytes -= inbox.held_bytes
    inbox._gate.full.discard(inbox)


def _confirm_what_is_lost(receipts: Receipts, error: StompError, *, keep_messages: bool) -> None:
    _confirm(receipts, list(receipts.messages))
    _lose_all(receipts, error, keep_messages=keep_messages)


# --- what is kept -----------------------------------------------------------------------------------------------------


def _keeping_connections() -> _Patch:
    kept: list[Connection] = []

    def fail(connection: Connection, failure: StompError, *, attributed: bool = False) -> None:
        kept.append(connection)
        _fail(connection, failure, attributed=attributed)

    return Connection, "fail", fail


async def _leave_a_task(session: Session) -> None:
    if trio.lowlevel.in_trio_run():
        trio.lowlevel.spawn_system_task(trio.sleep_forever)
    else:
        session.left = asyncio.create_task(anyio.sleep_forever())  # type: ignore[attr-defined]  # a leak of its own
    await _supervise(session)


# --- who is woken -----------------------------------------------------------------------------------------------------


def _confirm_the_newest(receipts: Receipts, receipt_ids: Sequence[str]) -> int:
    newest = next(reversed(receipts.messages), "")
    return _confirm(receipts, [newest if each in receipts.messages else each for each in receipt_ids])


def _waking_no_sender() -> _Patch:
    numbers = itertools.count(1)

    def tell(publication: Publication) -> None:
        if next(numbers) % 5 == 0:
            publication._sleeping = None
        _tell(publication)

    return Publication, "_tell", tell


def _waking_no_consumer() -> _Patch:
    numbers = itertools.count(1)

    def wake(inbox: Inbox) -> None:
        if next(numbers) % 5:
            _wake(inbox)

    return Inbox, "wake", wake


def _keeping_a_place() -> _Patch:
    numbers = itertools.count(1)

    def release(window: Window, count: int, size: int) -> None:
        _release(window, count - (next(numbers) % 5 == 0), size)

    return Window, "release", release


def _always_room(_window: Window, _size: int) -> bool:
    return True


def _ignore_cancellation(_receipts: Receipts, _message: Publication) -> None:
    pass


async def _watch_nothing(connection: Connection) -> None:
    await connection.ended.wait()


_SERVICES: Final = tuple(
    _watch_nothing if each is connection_tasks.watch else each for each in connection_tasks.SERVICES
)


PLANTED: Final[dict[str, Callable[[], Sequence[_Patch]]]] = {
    "an ACK is dropped": lambda: [_dropping(b"ACK\n", one_in=7)],
    "a message of a transaction is dropped": lambda: [_dropping(b"SEND\n", one_in=5, header=b"\ntransaction:")],
    "an UNSUBSCRIBE is dropped": lambda: [_dropping(b"UNSUBSCRIBE\n", one_in=7)],
    "an ACK is sent again after a reconnection": lambda: _repeating(b"ACK\n"),
    "a COMMIT is sent again without its BEGIN": lambda: _repeating(b"COMMIT\n"),
    "a canceled send leaves half of a frame": lambda: [(Client, "send", _send_leaving_half)],
    "nothing is sent again after a reconnection": lambda: [(reconnecting, "_send_again", _send_nothing_again)],
    "messages are sent again in another order": lambda: [(reconnecting, "_send_again", _send_again_backwards)],
    "a subscription is not restored": lambda: [(reconnecting, "_subscribe_again", _forget_a_subscription)],
    "stale messages stay in the buffer": lambda: [(Inbox, "detach", _keep_stale)],
    "a loss counts as a confirmation": lambda: [(Receipts, "lose_all", _confirm_what_is_lost)],
    "a canceled send is sent again": lambda: [(Receipts, "give_up", _ignore_cancellation)],
    "a publisher exceeds its window": lambda: [(Window, "has_room", _always_room)],
    "an ended connection is kept": lambda: [_keeping_connections()],
    "a task is left behind": lambda: [(connecting, "supervise", _leave_a_task)],
    "a RECEIPT wakes the wrong sender": lambda: [(Receipts, "confirm", _confirm_the_newest)],
    "a RECEIPT wakes no sender": lambda: [_waking_no_sender()],
    "a place in the window is not released": lambda: [_keeping_a_place()],
    "a consumer is not woken": lambda: [_waking_no_consumer()],
    "silence is not noticed": lambda: [(reconnecting, "SERVICES", _SERVICES)],
}


@contextmanager
def planted(name: str) -> Generator[None]:
    """Put a fault into the client for the length of a block."""
    with pytest.MonkeyPatch.context() as patch:
        for target, attribute, new in PLANTED[name]():
            patch.setattr(target, attribute, new)
        yield


def search(name: str, *, loop: str = "trio", most: int = 1000) -> Result | None:
    """Run seeds with a fault planted, from 0 on, until one fails; None if none does."""
    for seed in range(most):
        with planted(name):
            result = simulate(seed, loop=loop)
        # A seed that fails without it tells nothing about it.
        if result.troubles and not simulate(seed, loop=loop).troubles:
            return result
    return None
