"""What a frame costs the broker, codec included: in calls for the plain ones, and in time when it holds a lot."""

import gc
import time
from collections.abc import Callable

import pytest

from tests.kit.costs import count_calls
from tests.testing.test_conversation import OpenGate
from trio_stomp.testing import BrokerOptions
from trio_stomp.testing.admission import Door
from trio_stomp.testing.conversation import Conversation, Setting
from trio_stomp.testing.counters import Counters

_PLAIN = 640
_SUBSCRIBERS = 10
# The counts differ a little between versions of Python.
_SLACK = 1.05

_FEW, _TIMES = 500, 8
# Linear is 8, quadratic 64; what lies between is for the noise of a busy machine.
_MOST = 28


def new_setting() -> Setting:
    options = BrokerOptions(outbox_octets=1 << 30)
    return Setting(options=options, door=Door(options), counters=Counters())


class Session:
    """A client of a broker without links."""

    def __init__(self, setting: Setting, name: str, version: str = "1.2") -> None:
        self._conversation = Conversation(session_id=name, setting=setting, gate=OpenGate(), wake=lambda: None)
        self.say(f"CONNECT\naccept-version:{version}\nhost:h\n\n\0")

    def say(self, *frames: str) -> bytes:
        self._conversation.receive("".join(frames).encode())
        said = self._conversation.take_output()
        self._conversation.relieved()
        return said

    def listen(self) -> bytes:
        """Take what has come without being asked for."""
        return self.say()

    def leave(self) -> None:
        self._conversation.end()


Action = Callable[[], object]
Scene = Callable[[Setting, int], Action]


def _acks(count: int) -> list[str]:
    return [f"ACK\nid:1.{number + 1}\n\n\0" for number in range(count)]


def _topics_left(setting: Setting, count: int) -> Action:
    session = Session(setting, "a")
    session.say(*(f"SUBSCRIBE\nid:{number}\ndestination:/topic/t\n\n\0" for number in range(count)))
    return session.leave


def _wildcards_left(setting: Setting, count: int) -> Action:
    session = Session(setting, "a")
    session.say(*(f"SUBSCRIBE\nid:{number}\ndestination:/topic/*\n\n\0" for number in range(count)))
    return session.leave


def _consumers_left(setting: Setting, count: int) -> Action:
    session = Session(setting, "a")
    session.say(*(f"SUBSCRIBE\nid:{number}\ndestination:/queue/a\n\n\0" for number in range(count)))
    return session.leave


def _unacked_left(setting: Setting, count: int) -> Action:
    session = Session(setting, "a")
    session.say(
        "SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client\n\n\0", *["SEND\ndestination:/queue/a\n\n\0"] * count
    )
    return session.leave


def _destinations_unsubscribed(setting: Setting, count: int) -> Action:
    session = Session(setting, "a")
    session.say(*(f"SUBSCRIBE\nid:{number}\ndestination:/queue/{number}\n\n\0" for number in range(count)))
    return lambda: [session.say(f"UNSUBSCRIBE\nid:{number}\n\n\0") for number in range(count)]


def _durable_left(setting: Setting, count: int) -> Action:
    session = Session(setting, "a")
    headers = "destination:/topic/t\ndurable-subscription-name"
    session.say(*(f"SUBSCRIBE\nid:{number}\n{headers}:{number}\n\n\0" for number in range(count)))
    return session.leave


def _sessions_left(setting: Setting, count: int) -> Action:
    sessions = [Session(setting, str(number)) for number in range(count)]
    sessions[0].say(*(f"SEND\ndestination:/queue/{number}\n\n\0" for number in range(count)))
    return lambda: list(map(Session.leave, sessions))


def _committed(setting: Setting, count: int) -> Action:
    session = Session(setting, "a")
    session.say("BEGIN\ntransaction:t\n\n\0", *["SEND\ndestination:/queue/a\ntransaction:t\n\n\0"] * count)
    return lambda: session.say("COMMIT\ntransaction:t\n\n\0")


def _aborted(setting: Setting, count: int) -> Action:
    session = Session(setting, "a")
    subscribe = "SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client-individual\n\n\0"
    session.say(subscribe, *["SEND\ndestination:/queue/a\n\n\0"] * count, "BEGIN\ntransaction:t\n\n\0")
    session.say(*(ack.replace("\n\n", "\ntransaction:t\n\n") for ack in _acks(count)))
    return lambda: session.say("ABORT\ntransaction:t\n\n\0")


def _one_by_one(setting: Setting, count: int) -> Action:
    """Many consumers, each with a prefetch of one, and each message acknowledged."""
    session = Session(setting, "a")
    headers = "destination:/queue/a\nack:client-individual\nprefetch-count:1"
    session.say(*(f"SUBSCRIBE\nid:{number}\n{headers}\n\n\0" for number in range(count)))
    session.say(*["SEND\ndestination:/queue/a\n\n\0"] * (3 * count))
    return lambda: [session.say(f"ACK\nid:{number + 1}.1\n\n\0") for number in range(count)]


def _by_selector(setting: Setting, count: int) -> Action:
    """A busy consumer takes the messages one by one, past another that wants none of them."""
    session = Session(setting, "a")
    headers = "destination:/queue/a\nack:client-individual\nprefetch-count:1\nselector"
    session.say(f"SUBSCRIBE\nid:1\n{headers}:n = 1\n\n\0", f"SUBSCRIBE\nid:2\n{headers}:n = 2\n\n\0")
    session.say(*["SEND\ndestination:/queue/a\nn:1\n\n\0"] * count)
    return lambda: [session.say(ack) for ack in _acks(count)]


def _acknowledged_in_1_0(setting: Setting, count: int) -> Action:
    session = Session(setting, "a", "1.0")
    headers = "ack:client\ndestination:/queue/"
    session.say(*(f"SUBSCRIBE\nid:{number}\n{headers}{number}\n\n\0" for number in range(count)))
    session.say(*(f"SEND\ndestination:/queue/{number}\n\n\0" for number in range(count)))
    return lambda: [session.say(f"ACK\nmessage-id:m-{number + 1}\n\n\0") for number in range(count)]


# --- calls for each plain message -------------------------------------------------------------------------------------


def plain(more: str = "", name: str = "/queue/a") -> str:
    return f"SEND\ndestination:{name}\ncontent-type:text/plain\nn:1\n{more}content-length:3\n\nabc\0"


def _stored(setting: Setting) -> Action:
    session, frames = Session(setting, "a"), [plain()] * _PLAIN
    return lambda: session.say(*frames)


def _confirmed(setting: Setting) -> Action:
    session, frames = Session(setting, "a"), [plain("receipt:r\n")] * _PLAIN
    return lambda: session.say(*frames)


def _unheard(setting: Setting) -> Action:
    session, frames = Session(setting, "a"), [plain(name="/topic/a")] * _PLAIN
    return lambda: session.say(*frames)


def _in_a_transaction(setting: Setting) -> Action:
    session, frames = Session(setting, "a"), [plain("transaction:t\n")] * _PLAIN
    return lambda: session.say("BEGIN\ntransaction:t\n\n\0", *frames, "COMMIT\ntransaction:t\n\n\0")


def _delivered(setting: Setting) -> Action:
    sender, reader, frames = Session(setting, "a"), Session(setting, "b"), [plain()] * _PLAIN
    reader.say("SUBSCRIBE\nid:1\ndestination:/queue/a\nack:auto\n\n\0")
    return lambda: (sender.say(*frames), reader.listen())


def _acknowledged(setting: Setting) -> Action:
    sender, reader, frames, acks = Session(setting, "a"), Session(setting, "b"), [plain()] * _PLAIN, _acks(_PLAIN)
    reader.say("SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client-individual\n\n\0")
    return lambda: (sender.say(*frames), reader.say(*acks))


def _copied(setting: Setting) -> Action:
    sender, frames = Session(setting, "a"), [plain(name="/topic/a")] * _PLAIN
    readers = [Session(setting, f"b{number}") for number in range(_SUBSCRIBERS)]
    for reader in readers:
        reader.say("SUBSCRIBE\nid:1\ndestination:/topic/a\nack:auto\n\n\0")
    return lambda: (sender.say(*frames), list(map(Session.listen, readers)))


@pytest.mark.parametrize(
    ("scene", "most"),
    [
        (_stored, 42),
        (_confirmed, 60),
        (_unheard, 44),
        (_in_a_transaction, 48),
        (_delivered, 71),
        (_acknowledged, 113),
        (_copied, 454),
    ],
)
def test_calls_when_messages_are_plain_then_are_no_more_than_they_were(
    scene: Callable[[Setting], Action], most: int
) -> None:
    """A message pays for no feature that it does not use: no ttl, priority, delay, group or selector."""
    action = scene(new_setting())

    with count_calls() as calls:
        action()

    assert calls.count / _PLAIN < most * _SLACK


# --- time, where much is held -----------------------------------------------------------------------------------------

SCENES: dict[str, Scene] = {
    scene.__name__.strip("_"): scene
    for scene in (
        _topics_left,
        _wildcards_left,
        _consumers_left,
        _unacked_left,
        _destinations_unsubscribed,
        _durable_left,
        _sessions_left,
        _committed,
        _aborted,
        _one_by_one,
        _by_selector,
        _acknowledged_in_1_0,
    )
}


def seconds(scene: Scene, count: int) -> float:
    action = scene(new_setting(), count)
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
