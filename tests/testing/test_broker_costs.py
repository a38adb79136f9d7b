"""What a frame costs the broker, codec included: in calls, and where it holds a lot also in time."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from tests.kit.costs import count_calls
from trio_stomp.testing import BrokerOptions
from trio_stomp.testing.broker_state import BrokerState
from trio_stomp.testing.conversation import Conversation
from trio_stomp.types import Command

_PLAIN = 640
_SUBSCRIBERS = 10
# The counts differ a little between versions of Python.
_SLACK = 1.05

_FEW, _TIMES = 500, 8
# Linear is 8, quadratic 64; what lies between is for the noise of a busy machine.
_MOST = 28
# Of calls, which a busy machine does not change: linear is 8, and fewer show it too.
_MOST_CALLS = 10
_FEW_FOR_CALLS = 125


class OpenGate:
    """Lets every receipt through."""

    def answers_connect(self) -> bool:
        return False

    def receipts(self, command: Command, receipt_id: str) -> Sequence[str]:
        del command
        return [receipt_id]


class Session:
    """A client of a broker without links, or a further client of the broker of another."""

    def __init__(self, other: Session | None = None, *, name: str = "a", version: str = "1.2") -> None:
        self.state: BrokerState = _state() if other is None else other.state
        self._conversation = Conversation(session_id=name, state=self.state, gate=OpenGate(), wake=lambda: None)
        self.say(f"CONNECT\naccept-version:{version}\nhost:h\n\n\0")

    def say(self, *frames: str) -> bytes:
        self._conversation.receive("".join(frames).encode())
        self._deliver_the_rest()
        said = self._conversation.take_output()
        self._conversation.relieved()
        return said

    def listen(self) -> bytes:
        """Take what has come without being asked for."""
        return self.say()

    def leave(self) -> None:
        self._conversation.end()
        self._deliver_the_rest()

    def _deliver_the_rest(self) -> None:
        while self.state.namespace().dirty.queues:
            self.state.dispatch()


def _state() -> BrokerState:
    options = BrokerOptions(outbox_bytes=1 << 30)
    return BrokerState(options, output_full=lambda: None, more_to_do=lambda: None)


Action = Callable[[], object]
Scene = Callable[[Session, int], Action]


def _acks(count: int) -> list[str]:
    return [f"ACK\nid:1.{number + 1}\n\n\0" for number in range(count)]


def _subscriptions_left(session: Session, count: int, destination: str) -> Action:
    session.say(*(f"SUBSCRIBE\nid:{number}\ndestination:{destination}\n\n\0" for number in range(count)))
    return session.leave


def _unacked_left(session: Session, count: int) -> Action:
    session.say(
        "SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client\n\n\0", *["SEND\ndestination:/queue/a\n\n\0"] * count
    )
    return session.leave


def _destinations_unsubscribed(session: Session, count: int) -> Action:
    session.say(*(f"SUBSCRIBE\nid:{number}\ndestination:/queue/{number}\n\n\0" for number in range(count)))
    return lambda: [session.say(f"UNSUBSCRIBE\nid:{number}\n\n\0") for number in range(count)]


def _durable_left(session: Session, count: int) -> Action:
    headers = "destination:/topic/t\ndurable-subscription-name"
    session.say(*(f"SUBSCRIBE\nid:{number}\n{headers}:{number}\n\n\0" for number in range(count)))
    return session.leave


def _sessions_left(session: Session, count: int) -> Action:
    sessions = [session, *(Session(session, name=str(number)) for number in range(1, count))]
    session.say(*(f"SEND\ndestination:/queue/{number}\n\n\0" for number in range(count)))
    return lambda: list(map(Session.leave, sessions))


def _committed(session: Session, count: int) -> Action:
    session.say("BEGIN\ntransaction:t\n\n\0", *["SEND\ndestination:/queue/a\ntransaction:t\n\n\0"] * count)
    return lambda: session.say("COMMIT\ntransaction:t\n\n\0")


def _aborted(session: Session, count: int) -> Action:
    subscribe = "SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client-individual\n\n\0"
    session.say(subscribe, *["SEND\ndestination:/queue/a\n\n\0"] * count, "BEGIN\ntransaction:t\n\n\0")
    session.say(*(ack.replace("\n\n", "\ntransaction:t\n\n") for ack in _acks(count)))
    return lambda: session.say("ABORT\ntransaction:t\n\n\0")


def _in_transactions(session: Session, count: int, mode: str) -> Session:
    """The session, with as many open transactions as deliveries, each of which acknowledges one."""
    subscribe = f"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:{mode}\n\n\0"
    session.say(subscribe, *["SEND\ndestination:/queue/a\n\n\0"] * count)
    session.say(*(f"BEGIN\ntransaction:{number + 1}\n\n\0" for number in range(count)))
    session.say(*(f"ACK\nid:1.{number + 1}\ntransaction:{number + 1}\n\n\0" for number in range(count)))
    return session


def _transactions_left(session: Session, count: int) -> Action:
    return _in_transactions(session, count, "client-individual").leave


def _transactions_aborted(session: Session, count: int) -> Action:
    _in_transactions(session, count, "client")
    aborts = [f"ABORT\ntransaction:{number + 1}\n\n\0" for number in range(count)]
    return lambda: session.say(*aborts, f"ACK\nid:1.{count}\nreceipt:all\n\n\0")


def _one_by_one(session: Session, count: int) -> Action:
    """Many consumers, each with a prefetch of one, and each message acknowledged."""
    headers = "destination:/queue/a\nack:client-individual\nprefetch-count:1"
    session.say(*(f"SUBSCRIBE\nid:{number}\n{headers}\n\n\0" for number in range(count)))
    session.say(*["SEND\ndestination:/queue/a\n\n\0"] * (3 * count))
    return lambda: [session.say(f"ACK\nid:{number + 1}.1\n\n\0") for number in range(count)]


def _by_selector(session: Session, count: int) -> Action:
    """A busy consumer takes the messages one by one, past another that wants none of them."""
    headers = "destination:/queue/a\nack:client-individual\nprefetch-count:1\nselector"
    session.say(f"SUBSCRIBE\nid:1\n{headers}:n = 1\n\n\0", f"SUBSCRIBE\nid:2\n{headers}:n = 2\n\n\0")
    session.say(*["SEND\ndestination:/queue/a\nn:1\n\n\0"] * count)
    return lambda: [session.say(ack) for ack in _acks(count)]


def _expiring(session: Session, count: int) -> Action:
    """Messages expire one after the other, while others come."""
    now = [0.0]
    session.state.namespace().dirty.clock = lambda: now[0]
    session.say(*(f"SEND\ndestination:/queue/a\nexpiration:{number + 1}\n\n\0" for number in range(count)))

    def action() -> None:
        for _ in range(count):
            now[0] += 0.001
            session.say("SEND\ndestination:/queue/a\n\n\0")

    return action


def _acknowledged_in_1_0(session: Session, count: int) -> Action:
    old = Session(session, name="b", version="1.0")
    headers = "ack:client\ndestination:/queue/"
    old.say(*(f"SUBSCRIBE\nid:{number}\n{headers}{number}\n\n\0" for number in range(count)))
    old.say(*(f"SEND\ndestination:/queue/{number}\n\n\0" for number in range(count)))
    return lambda: [old.say(f"ACK\nmessage-id:m-{number + 1}\n\n\0") for number in range(count)]


# --- calls for each plain message -------------------------------------------------------------------------------------


def plain(more: str = "", name: str = "/queue/a") -> str:
    return f"SEND\ndestination:{name}\ncontent-type:text/plain\nn:1\n{more}content-length:3\n\nabc\0"


def _sent(session: Session, frame: str) -> Action:
    frames = [frame] * _PLAIN
    return lambda: session.say(*frames)


def _in_a_transaction(session: Session) -> Action:
    frames = [plain("transaction:t\n")] * _PLAIN
    return lambda: session.say("BEGIN\ntransaction:t\n\n\0", *frames, "COMMIT\ntransaction:t\n\n\0")


def _delivered(session: Session) -> Action:
    reader, frames = Session(session, name="b"), [plain()] * _PLAIN
    reader.say("SUBSCRIBE\nid:1\ndestination:/queue/a\nack:auto\n\n\0")
    return lambda: (session.say(*frames), reader.listen())


def _acknowledged(session: Session) -> Action:
    reader, frames, acks = Session(session, name="b"), [plain()] * _PLAIN, _acks(_PLAIN)
    reader.say("SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client-individual\n\n\0")
    return lambda: (session.say(*frames), reader.say(*acks))


def _copied(session: Session) -> Action:
    frames = [plain(name="/topic/a")] * _PLAIN
    readers = [Session(session, name=f"b{number}") for number in range(_SUBSCRIBERS)]
    for reader in readers:
        reader.say("SUBSCRIBE\nid:1\ndestination:/topic/a\nack:auto\n\n\0")
    return lambda: (session.say(*frames), list(map(Session.listen, readers)))


@pytest.mark.parametrize(
    ("scene", "most"),
    [
        (partial(_sent, frame=plain()), 42),
        (partial(_sent, frame=plain("receipt:r\n")), 60),
        (partial(_sent, frame=plain(name="/topic/a")), 44),
        (_in_a_transaction, 48),
        (_delivered, 71),
        (_acknowledged, 113),
        (_copied, 454),
    ],
    ids=["stored", "confirmed", "unheard", "in-a-transaction", "delivered", "acknowledged", "copied"],
)
def test_calls_when_messages_are_plain_then_are_no_more_than_they_were(
    scene: Callable[[Session], Action], most: int
) -> None:
    """A message pays for no feature that it does not use: no ttl, priority, delay, group or selector."""
    action = scene(Session())

    with count_calls() as calls:
        action()

    assert calls.count / _PLAIN < most * _SLACK


# --- time, where much is held -----------------------------------------------------------------------------------------

SCENES: dict[str, Scene] = {
    "topics_left": partial(_subscriptions_left, destination="/topic/t"),
    "wildcards_left": partial(_subscriptions_left, destination="/topic/*"),
    "consumers_left": partial(_subscriptions_left, destination="/queue/a"),
} | {
    scene.__name__.strip("_"): scene
    for scene in (
        _unacked_left,
        _destinations_unsubscribed,
        _durable_left,
        _sessions_left,
        _committed,
        _aborted,
        _transactions_left,
        _transactions_aborted,
        _one_by_one,
        _by_selector,
        _expiring,
        _acknowledged_in_1_0,
    )
}


@pytest.mark.parametrize("name", SCENES)
def test_calls_when_there_are_eight_times_as_many_then_grow_about_eightfold(name: str) -> None:
    few, many = (SCENES[name](Session(), _FEW_FOR_CALLS * times) for times in (1, _TIMES))

    with count_calls() as calls_for_few:
        few()
    with count_calls() as calls_for_many:
        many()

    assert calls_for_many.count < _MOST_CALLS * calls_for_few.count


def seconds(scene: Scene, count: int) -> float:
    action = scene(Session(), count)
    gc.disable()
    try:
        started = time.thread_time()
        action()
        return time.thread_time() - started
    finally:
        gc.enable()


@pytest.mark.parametrize("name", SCENES)
def test_cost_when_there_are_eight_times_as_many_then_grows_about_eightfold(name: str) -> None:
    scene = SCENES[name]
    few = min(seconds(scene, _FEW) for _ in range(3))

    # Once is enough, unless the machine was busy just then.
    assert any(seconds(scene, _FEW * _TIMES) < _MOST * few for _ in range(4))
