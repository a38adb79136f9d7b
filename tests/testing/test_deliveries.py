from trio_stomp import AckMode
from trio_stomp.testing.deliveries import Consumer
from trio_stomp.testing.destinations import Dirty, Queue, StoredMessage


class Inbox:
    """A session that keeps what it is given."""

    def __init__(self, *, ack_ids: bool = True) -> None:
        self.ready = True
        self.ack_ids = self.own_ack_ids = ack_ids
        self.delivered: list[tuple[str, str | None]] = []
        self.waiting: list[Consumer] = []

    def wake_later(self, consumer: Consumer) -> None:
        self.waiting.append(consumer)

    def deliver(self, consumer: Consumer, message: StoredMessage, ack_id: str | None) -> None:
        self.delivered.append((message.body.decode(), ack_id))


class Scene:
    """A queue with a consumer."""

    def __init__(self, mode: AckMode, bodies: str, *, prefetch: int | None = None, ack_ids: bool = True) -> None:
        self.dirty = Dirty()
        self.queue = Queue("/queue/a", dirty=self.dirty, limit=1000)
        self.inbox = Inbox(ack_ids=ack_ids)
        self.consumer = Consumer(
            number=7,
            subscription_id="s",
            destination="/queue/a",
            mode=mode,
            prefetch=prefetch,
            selector=None,
            sink=self.inbox,
            source=self.queue,
        )
        self.queue.attach(self.consumer)
        for body in bodies:
            self.queue.publish(StoredMessage(message_id=f"m-{body}", headers=(), body=body.encode()))
        self.dirty.dispatch()

    @property
    def delivered(self) -> str:
        return "".join(body for body, _ in self.inbox.delivered)

    @property
    def held(self) -> str:
        return bodies(sorted(self.consumer.unacked.values(), key=lambda message: message.order))

    @property
    def waiting(self) -> str:
        return bodies(self.queue.waiting())


def bodies(messages: list[StoredMessage]) -> str:
    return "".join(message.body.decode() for message in messages)


def test_auto_when_delivered_then_nothing_is_held() -> None:
    scene = Scene(AckMode.AUTO, "abc")

    assert scene.inbox.delivered == [("a", None), ("b", None), ("c", None)]
    assert (scene.held, scene.queue.in_flight) == ("", 0)


def test_client_individual_when_later_one_is_claimed_then_earlier_ones_stay() -> None:
    """Row 1x-SUB-13."""
    scene = Scene(AckMode.CLIENT_INDIVIDUAL, "abc")

    assert bodies(scene.consumer.claim("7.2")) == "b"
    assert scene.held == "ac"


def test_client_when_later_one_is_claimed_then_earlier_ones_are_too() -> None:
    scene = Scene(AckMode.CLIENT, "abc")

    assert bodies(scene.consumer.claim("7.2")) == "ab"
    assert scene.held == "c"


def test_claim_when_tag_is_unknown_then_claims_nothing() -> None:
    for mode in (AckMode.CLIENT, AckMode.CLIENT_INDIVIDUAL):
        scene = Scene(mode, "ab")

        assert scene.consumer.claim("m-a") == []
        assert scene.held == "ab"


def test_ack_id_when_version_has_them_then_differs_from_the_message_id() -> None:
    """Row 12-ACK-1."""
    scene = Scene(AckMode.CLIENT, "a")

    assert scene.inbox.delivered == [("a", "7.1")]


def test_ack_id_when_version_has_none_then_message_id_is_the_tag() -> None:
    scene = Scene(AckMode.CLIENT, "a", ack_ids=False)

    assert scene.inbox.delivered == [("a", None)]
    assert bodies(scene.consumer.claim("m-a")) == "a"


def test_ack_id_when_it_is_the_message_id_then_message_has_it_as_well() -> None:
    scene = Scene(AckMode.CLIENT, "")
    scene.inbox.own_ack_ids = False
    scene.queue.publish(StoredMessage(message_id="m-a", headers=(), body=b"a"))

    scene.dirty.dispatch()

    assert scene.inbox.delivered == [("a", "m-a")]
    assert bodies(scene.consumer.claim("m-a")) == "a"


def test_prefetch_when_used_up_then_waits_for_a_settlement() -> None:
    scene = Scene(AckMode.CLIENT_INDIVIDUAL, "abcd", prefetch=2)
    assert (scene.delivered, scene.queue.in_flight) == ("ab", 2)

    claimed = scene.consumer.claim("7.1")
    scene.dirty.dispatch()
    assert scene.delivered == "ab"

    scene.consumer.settle(claimed)
    scene.dirty.dispatch()
    assert (scene.delivered, scene.queue.in_flight) == ("abc", 2)


def test_session_when_not_ready_then_consumer_is_not() -> None:
    scene = Scene(AckMode.AUTO, "")
    assert scene.consumer.ready

    scene.inbox.ready = False

    assert not scene.consumer.ready


def test_restore_when_claims_are_undone_then_order_is_as_before() -> None:
    scene = Scene(AckMode.CLIENT, "abcd")
    first = scene.consumer.claim("7.2")
    second = scene.consumer.claim("7.3")

    scene.consumer.restore(first)
    scene.consumer.restore(second)

    assert scene.held == "abcd"
    assert bodies(scene.consumer.claim("7.4")) == "abcd"


def test_close_when_messages_are_held_then_they_go_back_to_their_places() -> None:
    scene = Scene(AckMode.CLIENT, "abc", prefetch=2)

    scene.consumer.close()

    assert (scene.waiting, scene.queue.in_flight, scene.queue.takers) == ("abc", 0, 0)
    assert [message.deliveries for message in scene.queue.waiting()] == [1, 1, 0]


def test_restore_when_closed_meanwhile_then_messages_go_back_to_the_queue() -> None:
    scene = Scene(AckMode.CLIENT, "abc")
    claimed = scene.consumer.claim("7.1")
    scene.consumer.close()
    assert (scene.waiting, scene.queue.in_flight) == ("bc", 1)

    scene.consumer.restore(claimed)

    assert (scene.waiting, scene.queue.in_flight) == ("abc", 0)
