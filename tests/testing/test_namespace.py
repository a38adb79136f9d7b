import itertools

import pytest

from tests.testing.test_destinations import Taken
from trio_stomp.testing import BrokerOptions, NackPolicy, Refusal
from trio_stomp.testing.destinations import StoredMessage, Taker
from trio_stomp.testing.namespace import Namespace, global_name, is_topic, with_global_reply_to
from trio_stomp.testing.selector import Selector
from trio_stomp.types import Headers


def namespace(options: BrokerOptions | None = None) -> Namespace:
    numbers = itertools.count(1)
    return Namespace(BrokerOptions() if options is None else options, lambda: f"m-{next(numbers)}")


def publish(space: Namespace, name: str, body: str = "x") -> StoredMessage:
    message = space.new_message(Headers([("kind", "test")]), body.encode(), 1)
    space.target(name).publish(message)
    return message


def texts(space: Namespace, name: str) -> list[str]:
    return [message.body.decode() for queue in space.all_queues(name) for message in queue.waiting()]


@pytest.mark.parametrize("name", ["/queue/", "/topic/", "orders", "", "/exchange/x", "/queue/a\n", "/queue/a\rb"])
def test_target_when_name_is_of_no_known_kind_then_refused(name: str) -> None:
    with pytest.raises(Refusal, match="destination"):
        namespace().target(name)


def test_target_when_bare_queues_are_allowed_then_any_name_is_a_queue() -> None:
    space = namespace(BrokerOptions(bare_queues=True))

    publish(space, "orders")

    assert texts(space, "orders") == ["x"]


@pytest.mark.parametrize("name", ["/queue/a b:c", "/queue/\u00e9", "/queue/a/b"])
def test_target_when_name_has_odd_characters_then_is_taken_unchanged(name: str) -> None:
    """Row all-SEND-2."""
    space = namespace()

    publish(space, name)

    assert texts(space, name) == ["x"]


def test_look_when_nobody_has_named_it_then_there_is_nothing() -> None:
    assert namespace().all_queues("/queue/a") == []


def test_new_message_when_headers_concern_the_frame_then_they_are_left_out() -> None:
    """Row 1x-SEND-5."""
    pairs = [("destination", "/queue/a"), ("receipt", "r"), ("x", "1"), ("ack", "forged"), ("x", "2"), ("X", "3")]

    message = namespace().new_message(Headers(pairs), b"", 1)

    assert message.headers == [("x", "1"), ("x", "2"), ("X", "3")]


def test_message_ids_when_many_messages_then_all_differ() -> None:
    """Row 12-MSG-4."""
    space = namespace()

    assert len({space.new_message(Headers(), b"", 1).message_id for _ in range(100)}) == 100


def test_temporary_name_when_made_global_then_holds_its_session() -> None:
    assert global_name("/temp-queue/x", "s-1") == "/remote-temp-queue/s-1.x"
    assert global_name("/temp-topic/x", "s-1") == "/remote-temp-topic/s-1.x"
    assert global_name("/queue/x", "s-1") == "/queue/x"
    assert is_topic("/remote-temp-topic/s-1.x")


def test_reply_to_when_temporary_then_is_made_global() -> None:
    headers = Headers([("a", "1"), ("reply-to", "/temp-queue/x"), ("a", "2")])

    pairs = with_global_reply_to(headers, "s-1").pairs

    assert pairs == (("a", "1"), ("reply-to", "/remote-temp-queue/s-1.x"), ("a", "2"))


def test_temporary_queue_when_its_session_ends_then_is_gone() -> None:
    space = namespace()
    space.begin_session("s-1", None)
    publish(space, global_name("/temp-queue/x", "s-1"))
    publish(space, global_name("/temp-topic/x", "s-1"))

    space.end_session("s-1", None)

    for name in ("/remote-temp-queue/s-1.x", "/remote-temp-topic/s-1.x"):
        assert space.all_queues(name) == []
        with pytest.raises(Refusal, match="no such destination"):
            space.target(name)


def test_client_id_when_in_use_then_refused_until_its_session_ends() -> None:
    space = namespace()
    space.begin_session("s-1", "me")

    with pytest.raises(Refusal, match="client-id in use"):
        space.begin_session("s-2", "me")

    space.end_session("s-1", "me")
    space.begin_session("s-3", "me")
    assert space.client_ids == {"me"}


def reject(space: Namespace, policy: NackPolicy = NackPolicy.REQUEUE) -> list[str]:
    queue = space.queue("/queue/a")
    taker: Taker = Taken()
    queue.attach(taker)
    queue.dispatch()
    queue.detach(taker)
    assert isinstance(taker, Taken)
    space.reject(queue, taker.messages, policy)
    return texts(space, "/queue/a")


def test_reject_when_requeue_then_message_returns_until_max_deliveries() -> None:
    """Row 1x-NACK-4."""
    space = namespace(BrokerOptions(max_deliveries=2))
    publish(space, "/queue/a")

    assert reject(space) == ["x"]
    assert reject(space) == []

    (dead,) = space.queue("/queue/dead-letter").waiting()
    assert dead.body == b"x"
    assert ("dead-letter-source", "/queue/a") in dead.headers
    assert ("kind", "test") in dead.headers


def test_reject_when_dead_letter_policy_then_message_moves_at_once() -> None:
    space = namespace(BrokerOptions(dead_letter="/queue/DLQ.{name}"))
    publish(space, "/queue/a")

    assert reject(space, NackPolicy.DEAD_LETTER) == []
    assert texts(space, "/queue/DLQ.a") == ["x"]


def test_reject_when_discard_policy_then_message_is_gone() -> None:
    space = namespace()
    publish(space, "/queue/a")

    assert reject(space, NackPolicy.DISCARD) == []
    assert texts(space, "/queue/dead-letter") == []


def test_reject_when_there_are_no_dead_letters_then_message_is_gone() -> None:
    space = namespace(BrokerOptions(dead_letter=None))
    publish(space, "/queue/a")

    assert reject(space, NackPolicy.DEAD_LETTER) == []


@pytest.mark.parametrize("dead_letter", ["/queue/a", "/queue/full"])
def test_reject_when_dead_letters_cannot_take_it_then_message_returns(dead_letter: str) -> None:
    space = namespace(BrokerOptions(dead_letter=dead_letter, max_queue_length=1))
    publish(space, "/queue/full")
    publish(space, "/queue/a")

    assert reject(space, NackPolicy.DEAD_LETTER) == ["x"]


def test_source_when_topic_then_each_subscription_has_a_backlog_of_its_own() -> None:
    space = namespace()
    one = space.open_source("/topic/t", None, None, session_id="s-1")
    other = space.open_source("/topic/t", Selector.parse("kind = 'none'"), None, session_id="s-1")

    publish(space, "/topic/t")

    assert (one.depth, other.depth) == (1, 0)
    space.close_source(one)
    assert space.all_queues("/topic/t") == [other]


def test_source_when_queue_then_is_shared_until_nothing_holds_it() -> None:
    space = namespace()
    one = space.open_source("/queue/a", None, None, session_id="s-1")

    assert space.open_source("/queue/a", None, None, session_id="s-1") is one
    publish(space, "/queue/a")
    space.close_source(one)
    assert space.queue("/queue/a") is one

    taker = Taken()
    one.attach(taker)
    space.dirty.dispatch()
    one.detach(taker)
    space.close_source(one)
    assert space.all_queues("/queue/a") == []


def test_durable_source_when_closed_then_goes_on_gathering() -> None:
    space = namespace()
    backlog = space.open_source("/topic/t", None, ("me", "d"), session_id="s-1")
    space.close_source(backlog)

    publish(space, "/topic/t")

    assert space.open_source("/topic/t", None, ("me", "d"), session_id="s-1") is backlog
    assert backlog.depth == 1


def test_durable_source_when_in_use_or_of_another_topic_then_refused() -> None:
    space = namespace()
    backlog = space.open_source("/topic/t", None, ("me", "d"), session_id="s-1")
    with pytest.raises(Refusal, match="durable subscription exists"):
        space.open_source("/topic/u", None, ("me", "d"), session_id="s-1")

    backlog.attach(Taken())
    with pytest.raises(Refusal, match="durable subscription in use"):
        space.open_source("/topic/t", None, ("me", "d"), session_id="s-1")
    with pytest.raises(Refusal, match="durable subscription in use"):
        space.forget_durable(("me", "d"))


def test_durable_source_when_forgotten_then_gathers_no_more() -> None:
    space = namespace()
    space.open_source("/topic/t", None, ("me", "d"), session_id="s-1")

    space.forget_durable(("me", "d"))

    assert space.all_queues("/topic/t") == []
    with pytest.raises(Refusal, match="no such subscription"):
        space.forget_durable(("me", "d"))


def test_snapshot_when_taken_then_copies_and_the_end_and_the_queue_keeps_its_own() -> None:
    space = namespace()
    publish(space, "/queue/a", "1")
    publish(space, "/queue/a", "2")
    space.target("/queue/a").publish(space.new_message(Headers([("kind", "other")]), b"3", 1))

    copies = space.snapshot("/queue/a", Selector.parse("kind = 'test'"), session_id="s-1").waiting()

    assert [copy.body for copy in copies] == [b"1", b"2", b""]
    assert copies[-1].headers == [("browser", "end")]
    copies[0].deliveries += 1
    assert [message.deliveries for message in space.queue("/queue/a").waiting()] == [0, 0, 0]


def test_snapshot_when_topic_then_there_is_nothing_to_see() -> None:
    assert len(namespace().snapshot("/topic/t", None, session_id="s-1").waiting()) == 1
