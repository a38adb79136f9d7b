import pytest

from trio_stomp.testing import Refusal
from trio_stomp.testing.destinations import Dirty, Queue, StoredMessage, Topic
from trio_stomp.testing.selector import Selector


class Taken:
    """A taker with room for so many messages."""

    def __init__(self, room: int = 1000, selector: str | None = None) -> None:
        self.room = room
        self.selector = None if selector is None else Selector.parse(selector)
        self.messages: list[StoredMessage] = []
        self.rests = 0

    @property
    def ready(self) -> bool:
        return self.room > 0

    def rest(self) -> None:
        self.rests += 1

    def take(self, message: StoredMessage) -> None:
        self.room -= 1
        self.messages.append(message)

    @property
    def bodies(self) -> str:
        return "".join(message.body.decode() for message in self.messages)


def message(body: str, **headers: str) -> StoredMessage:
    return StoredMessage(message_id=f"m-{body}", headers=list(headers.items()), body=body.encode())


def queue(bodies: str = "", *, limit: int = 1000) -> tuple[Queue, Dirty]:
    dirty = Dirty()
    made = Queue("/queue/a", dirty=dirty, limit=limit)
    for body in bodies:
        made.publish(message(body))
    return made, dirty


def waiting(made: Queue) -> str:
    return "".join(message.body.decode() for message in made.waiting())


def test_queue_when_one_taker_then_gives_in_order_of_arrival() -> None:
    made, dirty = queue("abc")
    taker = Taken()

    made.attach(taker)
    dirty.dispatch()

    assert taker.bodies == "abc"
    assert made.depth == 0


def test_queue_when_two_takers_then_serves_them_in_turn() -> None:
    made, dirty = queue()
    first, second = Taken(), Taken()
    made.attach(first)
    made.attach(second)

    for body in "abcd":
        made.publish(message(body))
        dirty.dispatch()

    assert (first.bodies, second.bodies) == ("ac", "bd")


def test_queue_when_a_taker_is_not_ready_then_the_other_gets_all() -> None:
    made, dirty = queue("abc")
    full, free = Taken(room=0), Taken()
    made.attach(full)
    made.attach(free)

    dirty.dispatch()

    assert (full.bodies, free.bodies) == ("", "abc")


def test_queue_when_nobody_is_ready_then_keeps_the_rest() -> None:
    made, dirty = queue("abc")
    taker = Taken(room=1)
    made.attach(taker)

    dirty.dispatch()

    assert (taker.bodies, waiting(made)) == ("a", "bc")


def test_queue_when_messages_come_back_then_they_take_their_old_places() -> None:
    made, dirty = queue("abcdef")
    first, second = Taken(room=2), Taken(room=2)
    made.attach(first)
    made.attach(second)
    dirty.dispatch()
    assert (first.bodies, second.bodies) == ("ac", "bd")

    made.give_back(second.messages)
    made.give_back(reversed(first.messages))

    assert waiting(made) == "abcdef"
    last = Taken()
    made.attach(last)
    dirty.dispatch()
    assert last.bodies == "abcdef"


def test_queue_when_full_then_refuses() -> None:
    made, _ = queue("ab", limit=2)

    with pytest.raises(Refusal, match="queue is full"):
        made.publish(message("c"))
    assert waiting(made) == "ab"


def test_queue_when_full_and_told_to_keep_then_loses_its_oldest() -> None:
    made, _ = queue("ab", limit=2)

    made.keep(message("c"))

    assert (waiting(made), made.dropped) == ("bc", 1)


def test_queue_when_taker_leaves_then_it_gets_nothing_more() -> None:
    made, dirty = queue()
    taker = Taken()
    made.attach(taker)
    made.detach(taker)

    made.publish(message("a"))
    dirty.dispatch()

    assert (taker.bodies, made.takers) == ("", 0)


def test_queue_when_selectors_then_each_gets_what_it_wants_and_the_rest_waits_in_place() -> None:
    made, dirty = queue()
    red, blue = Taken(selector="color = 'red'"), Taken(selector="color = 'blue'")
    made.attach(red)
    made.attach(blue)
    for body, color in zip("abcd", ("blue", "green", "red", "green"), strict=True):
        made.publish(message(body, color=color))

    dirty.dispatch()

    assert (red.bodies, blue.bodies, waiting(made)) == ("c", "a", "bd")
    everything = Taken()
    made.attach(everything)
    dirty.dispatch()
    assert everything.bodies == "bd"


def test_dispatch_when_nothing_changed_then_queue_is_left_alone() -> None:
    made, dirty = queue("a")

    dirty.dispatch()

    assert dirty.queues == {}
    made.touch()
    assert list(dirty.queues) == [made]


def test_topic_when_published_to_then_each_backlog_has_its_own_copy() -> None:
    topic = Topic("/topic/t", dirty=Dirty())
    (one, _), (other, _) = queue(), queue()
    topic.add(one, None)
    topic.add(other, None)

    topic.publish(message("a"))

    (first,), (second,) = one.waiting(), other.waiting()
    assert first.body == second.body == b"a"
    assert first is not second
    assert topic.backlogs == [one, other]


def test_topic_when_backlog_has_selector_then_keeps_only_what_it_wants() -> None:
    topic = Topic("/topic/t", dirty=Dirty())
    backlog, _ = queue()
    topic.add(backlog, Selector.parse("n = 1"))

    topic.publish(message("a", n="1"))
    topic.publish(message("b", n="2"))

    assert waiting(backlog) == "a"


def test_topic_when_backlog_is_full_then_it_loses_its_oldest() -> None:
    topic = Topic("/topic/t", dirty=Dirty())
    backlog, _ = queue(limit=1)
    topic.add(backlog, None)

    topic.publish(message("a"))
    topic.publish(message("b"))

    assert waiting(backlog) == "b"


def test_topic_when_backlog_is_removed_then_copies_no_more_to_it() -> None:
    topic = Topic("/topic/t", dirty=Dirty())
    backlog, _ = queue()
    topic.add(backlog, None)
    topic.remove(backlog)

    topic.publish(message("a"))

    assert backlog.depth == 0
