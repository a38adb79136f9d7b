import random

import anyio
import pytest

from tests.testing.raw_client import ALL, SINCE_1_1, RawClient, connected, with_options
from trio_stomp.testing import Broker, BrokerOptions, NackPolicy, open_broker
from trio_stomp.types import Command, Frame, Version

pytestmark = pytest.mark.anyio


class TestSend:
    @ALL
    async def test_send_when_headers_are_repeated_then_passed_through_in_order(self, client: RawClient) -> None:
        """Rows 1x-SEND-5, all-SEND-2, 12-MSG-2, 1x-REP-2."""
        await client.subscribe("/queue/a b:c")
        pairs = [("destination", "/queue/a b:c"), ("x", "1"), ("x", "2"), ("y", "a:b c")]

        await client.write(Command.SEND, [*pairs, ("content-type", "text/plain")], b"\0binary\0")

        message = await client.message(b"\0binary\0", destination="/queue/a b:c", content_type="text/plain")
        assert message.headers.get_all("x") == ("1", "2")
        assert message.headers["y"] == "a:b c"

    async def test_message_when_version_cannot_carry_a_header_then_comes_without_it(self, broker: Broker) -> None:
        old = await connected(broker, version=Version.V1_0)
        await old.subscribe("/queue/a")
        broker.publish("/queue/a", "x", [("bad", "two\nlines"), ("good", "1")])

        message = await old.message("x")

        assert "bad" not in message.headers
        assert message.headers["good"] == "1"

    @SINCE_1_1
    async def test_send_when_destination_is_unknown_then_error_and_close(self, client: RawClient) -> None:
        """Rows 11-SEND-6, 12-SEND-6, 1x-ERR-5, 1x-ERR-6, 1x-ERR-7, 12-ERR-2, all-ERR-1, all-ERR-3, all-ERR-4."""
        await client.send("nowhere", "body", receipt="r 1")

        error = await client.refused("no such destination")
        assert error.headers["receipt-id"] == "r 1"
        assert error.headers["content-type"] == "text/plain"
        assert error.headers["content-length"] == str(len(error.body))
        assert b"SEND" in error.body
        assert b"nowhere" in error.body

    @with_options(BrokerOptions(read_only={"reader"}))
    async def test_send_when_user_is_read_only_then_refused(self, broker: Broker) -> None:
        reader = await connected(broker, login="reader")
        writer = await connected(broker, login="writer")

        await writer.confirmed(Command.SEND, destination="/queue/a")
        await reader.subscribe("/queue/a")
        await reader.message()
        await reader.send("/queue/a")

        await reader.refused("access refused")

    @with_options(BrokerOptions(max_queue_length=1))
    async def test_send_when_queue_is_full_then_refused(self, broker: Broker, client: RawClient) -> None:
        await client.send("/queue/a", "1")
        await client.send("/queue/a", "2")

        await client.refused("queue is full")
        assert [message.body for message in broker.messages("/queue/a")] == [b"1"]


class TestTopics:
    async def test_topic_when_several_subscribe_then_each_gets_a_copy(self, broker: Broker) -> None:
        one, other = await connected(broker), await connected(broker)
        await one.send("/topic/t", "early")
        await one.subscribe("/topic/t")
        await other.subscribe("/topic/t")

        await one.send("/topic/t", "x")

        await one.message("x", subscription="1")
        await other.message("x")
        assert broker.consumers("/topic/t") == 2

    async def test_topic_when_unsubscribed_then_copies_stop(self, broker: Broker, client: RawClient) -> None:
        await client.subscribe("/topic/t", "client")
        await client.send("/topic/t", "x")
        await client.message("x")

        await client.confirmed(Command.UNSUBSCRIBE, id="1")
        await client.send("/topic/t", "y")

        await client.expect_nothing()
        assert broker.consumers("/topic/t") == broker.depth("/topic/t") == 0

    @with_options(BrokerOptions(max_queue_length=2))
    async def test_topic_when_a_backlog_is_full_then_it_loses_its_oldest(
        self, broker: Broker, client: RawClient
    ) -> None:
        await client.subscribe("/topic/t", "client", prefetch_count="1")
        for body in "1234":
            broker.publish("/topic/t", body)

        await client.acknowledge(await client.message("1"))

        await client.message("3")
        assert [message.body for message in broker.messages("/topic/t")] == [b"4"]

    @pytest.mark.parametrize(
        "headers", [{"activemq.subscriptionName": "d"}, {"durable-subscription-name": "d"}, {"durable": "true"}]
    )
    async def test_durable_when_away_then_gets_what_was_sent_meanwhile(
        self, broker: Broker, headers: dict[str, str]
    ) -> None:
        first = await connected(broker, client_id="me")
        await first.subscribe("/topic/t", "client", **headers)
        broker.publish("/topic/t", "1")
        await first.message("1")
        await first.confirmed(Command.DISCONNECT)
        broker.publish("/topic/t", "2")

        again = await connected(broker, client_id="me")
        await again.subscribe("/topic/t", "client", **headers)
        await again.message("1", redelivered="true")
        await again.message("2")

        await again.confirmed(Command.UNSUBSCRIBE, id="1", **headers)
        broker.publish("/topic/t", "3")
        assert broker.depth("/topic/t") == 0

    @with_options(BrokerOptions(errors_leave_open=True))
    async def test_durable_when_in_use_or_of_another_topic_or_unknown_then_refused(self, client: RawClient) -> None:
        durable = {"durable_subscription_name": "d"}
        await client.subscribe("/topic/t", **durable)
        await client.write(Command.SUBSCRIBE, id="2", destination="/topic/t", **durable)
        await client.expect(Command.ERROR, message="durable subscription in use")
        await client.write(Command.UNSUBSCRIBE, id="2", **durable)
        await client.expect(Command.ERROR, message="durable subscription in use")

        await client.confirmed(Command.UNSUBSCRIBE, id="1")
        await client.write(Command.SUBSCRIBE, id="3", destination="/topic/u", **durable)
        await client.expect(Command.ERROR, message="durable subscription exists")

        await client.confirmed(Command.UNSUBSCRIBE, id="1", **durable)
        await client.write(Command.UNSUBSCRIBE, id="1", **durable)
        await client.expect(Command.ERROR, message="no such subscription")

    async def test_durable_header_when_on_a_queue_then_means_nothing(self, broker: Broker, client: RawClient) -> None:
        await client.subscribe("/queue/a", durable="true")
        await client.confirmed(Command.UNSUBSCRIBE, id="1", durable="true")

        assert broker.consumers("/queue/a") == 0


class TestTemporary:
    async def test_temporary_when_same_name_on_two_connections_then_two_queues(self, broker: Broker) -> None:
        one, other = await connected(broker), await connected(broker)
        await one.subscribe("/temp-queue/x")
        await other.subscribe("/temp-queue/x")

        await one.send("/temp-queue/x", "for one")

        await one.message("for one")
        await other.expect_nothing()


class TestSubscribe:
    @SINCE_1_1
    async def test_subscribe_when_id_is_in_use_then_refused(self, client: RawClient) -> None:
        """Row 1x-SUB-4."""
        await client.subscribe("/queue/a")

        await client.write(Command.SUBSCRIBE, id="1", destination="/queue/b")

        await client.refused("subscription exists")

    @pytest.mark.parametrize(
        "headers",
        [{"prefetch-count": "many"}, {"prefetch-count": "-1"}, {"selector": "a > '1'"}, {"prefetch-count": "9" * 20}],
    )
    async def test_subscribe_when_header_makes_no_sense_then_refused(
        self, broker: Broker, client: RawClient, headers: dict[str, str]
    ) -> None:
        """Row 1x-SUB-4."""
        await client.write(Command.SUBSCRIBE, id="1", destination="/queue/a", **headers)

        error = await client.expect(Command.ERROR)
        assert error.headers["message"] in {"prefetch refused", "selector refused"}
        assert broker.consumers("/queue/a") == 0

    async def test_subscribe_when_id_cannot_be_sent_back_then_refused(self, broker: Broker) -> None:
        client = await connected(broker, version=Version.V1_1)

        await client.stream.send_all(b"SUBSCRIBE\nid:1\r\ndestination:/queue/a\n\n\0")

        await client.refused("subscription id refused")

    async def test_subscribe_when_1_0_without_id_then_message_names_no_subscription(self, broker: Broker) -> None:
        """Rows 10-MSG-1, 10-UNSUB-3."""
        client = await connected(broker, version=Version.V1_0)
        await client.confirmed(Command.SUBSCRIBE, destination="/queue/a")
        broker.publish("/queue/a", "x")

        assert "subscription" not in (await client.message("x")).headers
        await client.confirmed(Command.UNSUBSCRIBE, destination="/queue/a")
        assert broker.consumers("/queue/a") == 0

    async def test_subscribe_when_1_0_with_id_then_message_names_it(self, broker: Broker) -> None:
        """Rows 10-SUB-15, 10-BODY-3, 10-SUB-14."""
        client = await connected(broker, version=Version.V1_0)

        frame = b"SUBSCRIBE\nid:7\ndestination:/queue/a\nselector:n = 1\nreceipt:r\n\nignored body\0"
        await client.stream.send_all(frame)
        await client.expect(Command.RECEIPT)
        broker.publish("/queue/a", "x", [("n", "1")])

        await client.message("x", subscription="7")

    async def test_selector_when_set_then_only_what_fits_is_delivered(self, broker: Broker, client: RawClient) -> None:
        """Rows 10-SUB-14, 1x-SUB-5."""
        await client.subscribe("/queue/a", selector="n = 1")
        await client.subscribe("/topic/t", subscription_id="2", selector="n = 1")

        for name in ("/queue/a", "/topic/t"):
            broker.publish(name, "other", [("n", "2")])
            broker.publish(name, "mine", [("n", "1")])

        await client.message("mine", subscription="1")
        await client.message("mine", subscription="2")
        await client.expect_nothing()
        assert (broker.depth("/queue/a"), broker.depth("/topic/t")) == (1, 0)

    async def test_selector_when_two_consumers_want_others_then_the_rest_waits_in_place(self, broker: Broker) -> None:
        red, blue, everything = [await connected(broker) for _ in range(3)]
        await red.subscribe("/queue/a", selector="color = 'red'")
        await blue.subscribe("/queue/a", selector="color = 'blue'")
        for body, color in zip("abcd", ("blue", "green", "red", "green"), strict=True):
            broker.publish("/queue/a", body, [("color", color)])

        await red.message("c")
        await blue.message("a")
        assert [message.body for message in broker.messages("/queue/a")] == [b"b", b"d"]
        await everything.subscribe("/queue/a")
        assert await everything.bodies(2) == ["b", "d"]

    async def test_browser_when_it_subscribes_then_gets_copies_and_the_end_and_the_queue_keeps_its_own(
        self, broker: Broker, client: RawClient
    ) -> None:
        for body, kind in (("1", "mine"), ("2", "mine"), ("3", "other")):
            broker.publish("/queue/a", body, [("kind", kind)])

        await client.subscribe("/queue/a", "client", browser="true", selector="kind = 'mine'")
        assert await client.bodies(2) == ["1", "2"]
        await client.message("", browser="end")
        await client.subscribe("/topic/t", subscription_id="2", browser="true")
        await client.message("", browser="end")

        await client.expect_nothing()
        assert [message.deliveries for message in broker.messages("/queue/a")] == [0, 0, 0]

    @SINCE_1_1
    async def test_unsubscribe_when_id_is_unknown_then_refused(self, client: RawClient) -> None:
        """Rows 1x-UNSUB-1, 1x-UNSUB-2."""
        await client.write(Command.UNSUBSCRIBE, id="1")

        await client.refused("no such subscription")

    @ALL
    async def test_unsubscribe_when_messages_are_unacknowledged_then_others_get_them(
        self, broker: Broker, version: Version
    ) -> None:
        one, other = await connected(broker, version=version), await connected(broker)
        await one.subscribe("/queue/a", "client")
        broker.publish("/queue/a", "1")
        broker.publish("/queue/a", "2")
        assert await one.bodies(2) == ["1", "2"]
        await other.subscribe("/queue/a")

        await one.confirmed(Command.UNSUBSCRIBE, id="1")

        await other.message("1", redelivered="true", delivery_count="2")
        await other.message("2", redelivered="true")


class TestPrefetch:
    @pytest.mark.parametrize("header", ["prefetch-count", "activemq.prefetchSize"])
    async def test_prefetch_when_used_up_then_next_comes_with_the_ack(
        self, broker: Broker, client: RawClient, header: str
    ) -> None:
        for body in "1234":
            broker.publish("/queue/a", body)
        await client.subscribe("/queue/a", "client-individual", **{header: "2"})
        first = await client.message("1")
        await client.message("2")
        await client.expect_nothing()

        await client.acknowledge(first)

        await client.message("3")
        await client.expect_nothing()
        assert (broker.depth("/queue/a"), broker.unacknowledged("/queue/a")) == (1, 2)

    @with_options(BrokerOptions(prefetch=1))
    async def test_prefetch_when_not_named_then_options_count_and_0_is_no_bound(
        self, broker: Broker, client: RawClient
    ) -> None:
        for body in "123":
            broker.publish("/queue/a", body)
            broker.publish("/queue/b", body)
        await client.subscribe("/queue/a", "client")
        await client.message("1")
        await client.expect_nothing()

        await client.subscribe("/queue/b", "client", subscription_id="2", prefetch_count="0")
        assert await client.bodies(3) == ["1", "2", "3"]

    async def test_prefetch_when_auto_then_has_no_effect(self, broker: Broker, client: RawClient) -> None:
        for body in "123":
            broker.publish("/queue/a", body)

        await client.subscribe("/queue/a", prefetch_count="1")

        assert await client.bodies(3) == ["1", "2", "3"]

    async def test_messages_when_several_consumers_give_them_back_then_they_take_their_old_places(
        self, broker: Broker
    ) -> None:
        one, other = await connected(broker), await connected(broker)
        for client in (one, other):
            await client.subscribe("/queue/a", "client", prefetch_count="2")
        for body in "abcdef":
            broker.publish("/queue/a", body)
        assert (await one.bodies(2), await other.bodies(2)) == (["a", "c"], ["b", "d"])

        await other.stream.aclose()
        await one.leave(broker)

        waiting = broker.messages("/queue/a")
        assert [message.body.decode() for message in waiting] == list("abcdef")
        assert [message.deliveries for message in waiting] == [1, 1, 1, 1, 0, 0]


class TestAcknowledge:
    @ALL
    @pytest.mark.parametrize(("ack", "left"), [("client", [b"3"]), ("client-individual", [b"1", b"3"])])
    async def test_ack_when_of_the_second_then_the_mode_decides_which_are_left(
        self, broker: Broker, client: RawClient, ack: str, left: list[bytes]
    ) -> None:
        """Rows all-ACK-3, 1x-SUB-10, 1x-SUB-13, 10-ACK-1, 11-ACK-1, 12-ACK-1."""
        frames = await client.delivered(broker, "123", ack=ack)

        await client.settle(frames[1])
        await client.leave(broker)

        assert [message.body for message in broker.messages("/queue/a")] == left

    async def test_message_when_client_mode_in_1_2_then_has_an_ack_header_of_its_own(
        self, broker: Broker, client: RawClient
    ) -> None:
        """Rows 12-MSG-3, 12-ACK-1, 12-MSG-1, 12-MSG-4."""
        for subscription_id, ack in (("1", "client"), ("2", "client-individual"), ("3", "auto")):
            await client.subscribe(f"/queue/{ack}", ack, subscription_id=subscription_id)
        for ack in ("client", "client-individual", "auto"):
            broker.publish(f"/queue/{ack}", "x")

        frames = [await client.message("x") for _ in range(3)]

        assert len({frame.headers["message-id"] for frame in frames}) == 3
        acks = [frame.headers.get("ack") for frame in frames]
        assert acks[2] is None
        assert len(set(acks)) == 3
        assert all(frame.headers["message-id"] not in acks for frame in frames)

    async def test_ack_when_message_id_is_used_in_1_2_then_refused(self, broker: Broker, client: RawClient) -> None:
        """Rows 12-ACK-1, 1x-ACK-4."""
        (message,) = await client.delivered(broker)

        await client.write(Command.ACK, id=message.headers["message-id"], receipt="r")

        error = await client.refused("nothing to acknowledge")
        assert error.headers["receipt-id"] == "r"
        assert broker.depth("/queue/a") == 1

    @with_options(BrokerOptions(ack_is_message_id=True))
    async def test_ack_when_options_make_it_the_message_id_then_that_is_taken(
        self, broker: Broker, client: RawClient
    ) -> None:
        (message,) = await client.delivered(broker)
        assert message.headers["ack"] == message.headers["message-id"]

        await client.settle(message)

        assert broker.unacknowledged("/queue/a") == 0

    @ALL
    @pytest.mark.parametrize("ack", ["client", "client-individual"])
    async def test_ack_when_given_twice_then_refused(self, broker: Broker, client: RawClient, ack: str) -> None:
        """Row 1x-ACK-4."""
        (message,) = await client.delivered(broker, ack=ack)

        await client.acknowledge(message)
        await client.acknowledge(message)

        await client.refused("nothing to acknowledge")

    async def test_ack_when_1_0_and_two_copies_then_each_ack_settles_one(self, broker: Broker) -> None:
        """Row 10-ACK-1."""
        client = await connected(broker, version=Version.V1_0)
        await client.subscribe("/topic/t", "client", subscription_id="1")
        await client.subscribe("/topic/t", "client", subscription_id="2")
        broker.publish("/topic/t", "x")
        message = await client.message()
        await client.message()

        for left in (1, 0):
            await client.write(Command.ACK, message_id=message.headers["message-id"], receipt="r")
            await client.expect(Command.RECEIPT)
            assert broker.unacknowledged("/topic/t") == left

    async def test_ack_when_1_1_names_another_subscription_then_refused(self, broker: Broker) -> None:
        """Row 11-ACK-1."""
        client = await connected(broker, version=Version.V1_1)
        (message,) = await client.delivered(broker)
        await client.subscribe("/queue/b", "client", subscription_id="2")

        await client.write(Command.ACK, message_id=message.headers["message-id"], subscription="2")

        await client.refused("nothing to acknowledge")


class TestNack:
    @SINCE_1_1
    @pytest.mark.parametrize(("ack", "dead"), [("client", ["1", "2"]), ("client-individual", ["2"])])
    @with_options(BrokerOptions(nack=NackPolicy.DEAD_LETTER, dead_letter="/queue/DLQ.{name}"))
    async def test_nack_when_dead_letter_policy_then_settles_as_an_ack_does(
        self, broker: Broker, client: RawClient, ack: str, dead: list[str]
    ) -> None:
        """Rows 11-NACK-3, 12-NACK-3, 1x-NACK-1, 1x-FRM-16."""
        frames = await client.delivered(broker, "123", ack=ack)

        await client.settle(frames[1], Command.NACK)

        assert [message.body.decode() for message in broker.messages("/queue/DLQ.a")] == dead

    @with_options(BrokerOptions(max_deliveries=3))
    async def test_nack_when_requeue_policy_then_redelivered_until_dead_letter(
        self, broker: Broker, client: RawClient
    ) -> None:
        """Row 1x-NACK-4."""
        await client.subscribe("/queue/a", "client-individual", prefetch_count="1")
        broker.publish("/queue/a", "bad", [("kind", "test")])
        broker.publish("/queue/a", "good")

        counts: list[str | None] = []
        acks: set[str] = set()
        for _ in range(3):
            frame = await client.message("bad")
            counts.append(frame.headers.get("delivery-count"))
            acks.add(frame.headers["ack"])
            await client.acknowledge(frame, Command.NACK)

        await client.message("good")
        assert counts == [None, "2", "3"]
        assert len(acks) == 3
        (dead,) = broker.messages("/queue/dead-letter")
        assert dead.body == b"bad"
        given = {"kind": "test", "dead-letter-source": "/queue/a", "dead-letter-deliveries": "3"}
        assert {name: dead.headers[name] for name in given} == given

    @pytest.mark.parametrize(
        ("options", "comes_back"),
        [
            pytest.param(BrokerOptions(nack=NackPolicy.DISCARD), False, id="discarded"),
            pytest.param(BrokerOptions(nack=NackPolicy.DEAD_LETTER, dead_letter=None), False, id="no-dead-letters"),
            pytest.param(BrokerOptions(nack=NackPolicy.DEAD_LETTER, dead_letter="/queue/a"), True, id="dead-already"),
            pytest.param(
                BrokerOptions(nack=NackPolicy.DEAD_LETTER, dead_letter="/queue/full", max_queue_length=1),
                True,
                id="full",
            ),
        ],
    )
    async def test_nack_when_there_are_no_dead_letters_for_it_then_gone_or_redelivered(
        self, broker: Broker, client: RawClient, *, comes_back: bool
    ) -> None:
        broker.publish("/queue/full", "there")
        broker.publish("/queue/a", "x")
        await client.subscribe("/queue/a", "client")

        await client.settle(await client.message("x"), Command.NACK)

        assert broker.unacknowledged("/queue/a") == comes_back
        depths = [broker.depth(f"/queue/{name}") for name in ("a", "dead-letter", "full")]
        assert depths == [0, 0, 1]

    @pytest.mark.parametrize("policy", [NackPolicy.REQUEUE, NackPolicy.DEAD_LETTER])
    @pytest.mark.parametrize(
        ("requeue", "comes_back"),
        [
            ("true", True),
            ("True", True),
            ("false", False),
            ("False", False),
            *((other, None) for other in ("TRUE", "FALSE", "fAlse", "0", "1", "no", " true", "")),
        ],
    )
    async def test_nack_when_requeue_is_said_then_read_as_rabbitmq_reads_it(
        self, policy: NackPolicy, requeue: str, *, comes_back: bool | None
    ) -> None:
        """What it cannot read counts as if it were not there, as measured on RabbitMQ 3.10.8 and 4.3.6."""
        async with open_broker(listen=False, options=BrokerOptions(nack=policy)) as broker:
            client = await connected(broker)
            (message,) = await client.delivered(broker)

            await client.settle(message, Command.NACK, requeue=requeue)

            expected = policy is NackPolicy.REQUEUE if comes_back is None else comes_back
            assert (broker.unacknowledged("/queue/a"), broker.depth("/queue/dead-letter")) == (expected, not expected)

    @pytest.mark.parametrize(("durable", "stays"), [("true", True), ("True", True), ("TRUE", False), ("1", False)])
    async def test_subscribe_when_durable_is_said_then_read_as_rabbitmq_reads_it(
        self, broker: Broker, client: RawClient, durable: str, *, stays: bool
    ) -> None:
        await client.subscribe("/topic/a", durable=durable)
        await client.leave(broker)

        broker.publish("/topic/a", "x")

        assert broker.depth("/topic/a") == stays

    async def test_nack_when_1_0_then_protocol_error(self, broker: Broker) -> None:
        """Rows 10-NACK-2, 10-FRM-16."""
        client = await connected(broker, version=Version.V1_0)

        await client.stream.send_all(b"NACK\nmessage-id:1\n\n\0")

        await client.refused("protocol error")


async def begun(broker: Broker, version: Version = Version.V1_2) -> tuple[RawClient, Frame]:
    """A client in a transaction, and a message of /queue/a that it has not acknowledged yet."""
    client = await connected(broker, version=version)
    (message,) = await client.delivered(broker)
    await client.write(Command.BEGIN, transaction="t")
    return client, message


class TestTransactions:
    @ALL
    async def test_commit_when_sends_and_acks_then_take_effect_together(self, broker: Broker, version: Version) -> None:
        """Rows all-TX-1, all-TX-3, all-SEND-3, all-ACK-2, 10-TX-8."""
        client, message = await begun(broker, version)
        await client.send("/queue/b", "1", transaction="t")
        await client.acknowledge(message, transaction="t")
        await client.send("/queue/b", "2", transaction="t", receipt="sent")
        await client.expect(Command.RECEIPT, receipt_id="sent")
        before = broker.depth("/queue/b"), broker.unacknowledged("/queue/a")
        await client.confirmed(Command.COMMIT, transaction="t")

        assert before == (0, 1)
        assert (broker.depth("/queue/b"), broker.unacknowledged("/queue/a")) == (2, 0)
        assert [message.body for message in broker.messages("/queue/b")] == [b"1", b"2"]

    @ALL
    async def test_abort_when_sends_and_acks_then_undone(self, broker: Broker, version: Version) -> None:
        """Rows all-TX-4, all-ACK-2, 12-TX-2."""
        client, message = await begun(broker, version)
        await client.send("/queue/b", "1", transaction="t")
        await client.acknowledge(message, transaction="t")
        await client.confirmed(Command.ABORT, transaction="t")

        assert (broker.depth("/queue/b"), broker.unacknowledged("/queue/a")) == (0, 1)
        await client.settle(message)
        assert broker.unacknowledged("/queue/a") == 0

    @SINCE_1_1
    @with_options(BrokerOptions(nack=NackPolicy.DEAD_LETTER))
    async def test_nack_when_in_a_transaction_then_waits_for_commit(self, broker: Broker, version: Version) -> None:
        """Row 1x-NACK-1."""
        client, message = await begun(broker, version)
        await client.settle(message, Command.NACK, transaction="t")
        assert broker.depth("/queue/dead-letter") == 0
        await client.confirmed(Command.COMMIT, transaction="t")

        assert broker.depth("/queue/dead-letter") == 1

    async def test_ack_when_in_a_transaction_then_makes_room_for_the_next_at_commit(
        self, broker: Broker, client: RawClient
    ) -> None:
        await client.subscribe("/queue/a", "client-individual", prefetch_count="1")
        broker.publish("/queue/a", "1")
        broker.publish("/queue/a", "2")
        message = await client.message("1")
        await client.write(Command.BEGIN, transaction="t")

        await client.acknowledge(message, transaction="t")

        await client.expect_nothing()
        await client.confirmed(Command.COMMIT, transaction="t")
        await client.message("2")

    async def test_abort_when_several_had_acks_then_the_order_of_the_messages_is_as_before(
        self, broker: Broker, client: RawClient
    ) -> None:
        frames = await client.delivered(broker, "abcde")
        for name, frame in (("t", frames[1]), ("u", frames[2])):
            await client.write(Command.BEGIN, transaction=name)
            await client.acknowledge(frame, transaction=name)
        await client.write(Command.ABORT, transaction="t")
        await client.confirmed(Command.ABORT, transaction="u")

        await client.acknowledge(frames[3])
        await client.confirmed(Command.UNSUBSCRIBE, id="1")

        assert [message.body for message in broker.messages("/queue/a")] == [b"e"]

    async def test_abort_when_the_subscription_has_ended_then_its_messages_go_back_to_the_queue(
        self, broker: Broker
    ) -> None:
        client, message = await begun(broker)
        broker.publish("/queue/a", "next")
        await client.message("next")
        await client.acknowledge(message, transaction="t")
        await client.confirmed(Command.UNSUBSCRIBE, id="1")
        assert (broker.depth("/queue/a"), broker.unacknowledged("/queue/a")) == (1, 1)

        await client.confirmed(Command.ABORT, transaction="t")

        assert [message.body for message in broker.messages("/queue/a")] == [b"x", b"next"]
        assert broker.unacknowledged("/queue/a") == 0

    @with_options(BrokerOptions(max_queue_length=2))
    async def test_send_when_the_transaction_is_full_then_refused(self, broker: Broker) -> None:
        client, message = await begun(broker)
        await client.acknowledge(message, transaction="t")
        await client.confirmed(Command.SEND, destination="/queue/b", transaction="t")

        await client.send("/queue/b", "2", transaction="t")

        await client.refused("transaction is full")

    @pytest.mark.parametrize("disconnects", [True, False])
    async def test_transaction_when_the_session_ends_in_it_then_aborted(
        self, broker: Broker, *, disconnects: bool
    ) -> None:
        """Rows 1x-TX-5, 1x-TX-6."""
        client, message = await begun(broker)
        await client.send("/queue/b", "1", transaction="t")
        await client.settle(message, transaction="t")
        assert broker.sessions[0].transactions == 1

        if disconnects:
            await client.confirmed(Command.DISCONNECT)
        await client.leave(broker)

        assert (broker.depth("/queue/a"), broker.depth("/queue/b")) == (1, 0)

    @ALL
    @pytest.mark.parametrize("command", [Command.COMMIT, Command.ABORT])
    async def test_end_when_transaction_is_unknown_then_refused(self, client: RawClient, command: Command) -> None:
        """Row all-TX-7."""
        await client.write(command, transaction="t")

        await client.refused("no such transaction")

    async def test_begin_when_id_is_open_then_refused(self, client: RawClient) -> None:
        """Row 12-TX-2."""
        await client.write(Command.BEGIN, transaction="t")
        await client.confirmed(Command.COMMIT, transaction="t")
        await client.confirmed(Command.BEGIN, transaction="t")
        await client.write(Command.BEGIN, transaction="t")

        await client.refused("transaction exists")

    @with_options(BrokerOptions(max_queue_length=2, errors_leave_open=True))
    async def test_commit_when_a_queue_would_overflow_then_nothing_takes_effect(self, broker: Broker) -> None:
        """Row all-TX-3."""
        client, message = await begun(broker)
        await client.acknowledge(message, transaction="t")
        await client.send("/queue/b", "1", transaction="t")
        broker.publish("/queue/b", "there")
        broker.publish("/queue/b", "too")
        await client.write(Command.COMMIT, transaction="t", receipt="c")

        await client.expect(Command.ERROR, message="queue is full", receipt_id="c")
        assert (broker.depth("/queue/b"), broker.unacknowledged("/queue/a")) == (2, 1)


class TestDisconnect:
    @ALL
    async def test_disconnect_when_100_sends_came_before_then_all_are_stored(
        self, broker: Broker, client: RawClient
    ) -> None:
        """Row 12-RECEIPT-4."""
        for number in range(100):
            await client.send("/queue/a", str(number), receipt=f"r{number}")
        await client.write(Command.DISCONNECT)
        await client.leave(broker)

        assert broker.depth("/queue/a") == 100

    @ALL
    async def test_disconnect_when_receipt_is_asked_for_then_confirmed_and_closed(
        self, broker: Broker, client: RawClient
    ) -> None:
        """Rows all-DISC-3, 12-RECEIPT-2."""
        await client.delivered(broker)

        await client.confirmed(Command.DISCONNECT)

        await client.expect_eof()
        assert broker.depth("/queue/a") == 1
        await client.leave(broker)


class Crowd:
    """Clients that do anything at random, and an account of where each message has gone."""

    def __init__(self, broker: Broker, seed: int) -> None:
        self.broker = broker
        self.seed = seed
        self.sent: set[str] = set()
        self.consumed: list[str] = []

    async def session(self, number: int) -> None:
        """One session, whose end is sudden as often as not."""
        # Its own chance: which session comes first is the loop's to choose, and must not change what each of them does.
        chance = random.Random(f"{self.seed}-{number}")  # noqa: S311  # it chooses what to do, and keeps no secret
        client = await connected(self.broker)
        mode = chance.choice(("client", "client-individual"))
        await client.write(
            Command.SUBSCRIBE, id="1", destination="/queue/a", ack=mode, prefetch_count=str(chance.randint(1, 6))
        )
        for _ in range(chance.randint(1, 12)):
            await self.transaction(client, mode, chance)
        # One transaction stays open: nothing of it may take effect.
        await client.write(Command.BEGIN, transaction="open")
        await client.send("/queue/a", "never", transaction="open")
        for frame in client.kept[-1:]:
            await client.acknowledge(frame, transaction="open")
        if chance.random() < 0.5:
            await client.confirmed_amid_messages(Command.DISCONNECT)
        await client.stream.aclose()

    async def transaction(self, client: RawClient, mode: str, chance: random.Random) -> None:
        """Some SENDs, and an ACK or NACK of what has come so far: all of it, or none."""
        name = f"t{chance.random()}"
        await client.write(Command.BEGIN, transaction=name)
        sent = [f"{name}.{number}" for number in range(chance.randint(0, 5))]
        for body in sent:
            await client.send("/queue/a", body, transaction=name)
        held = await client.confirmed_amid_messages(Command.BEGIN, transaction=f"{name}-other")
        command = chance.choice((Command.ACK, Command.NACK))
        settled = [held[-1]] if held else []
        for frame in settled:
            await client.acknowledge(frame, command, transaction=name)
        settled = held if mode == "client" else settled
        end = chance.choice((Command.COMMIT, Command.ABORT))
        client.kept = await client.confirmed_amid_messages(end, transaction=name)
        if end is Command.COMMIT:
            self.sent |= set(sent)
            if command is Command.ACK:
                self.consumed += [frame.body.decode() for frame in settled]
            client.kept = [frame for frame in client.kept if frame not in settled]


@pytest.mark.parametrize("seed", range(12))
@with_options(BrokerOptions(max_deliveries=1000))
async def test_messages_when_many_sessions_do_anything_then_none_is_lost_or_doubled(broker: Broker, seed: int) -> None:
    """Rows all-TX-3, all-TX-4, 1x-TX-5, 1x-TX-6, all-ACK-3."""
    crowd = Crowd(broker, seed)
    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(crowd.session, number)
    await broker.wait_until(lambda: not broker.sessions)

    left = [message.body.decode() for message in broker.messages("/queue/a")]
    assert sorted(crowd.consumed + left) == sorted(crowd.sent)
    assert len(left) + len(crowd.consumed) > 20
    assert broker.unacknowledged("/queue/a") == 0
