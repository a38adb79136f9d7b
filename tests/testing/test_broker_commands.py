import random

import pytest
import trio
from trio.testing import MockClock

from tests.testing.raw_client import RawClient, connected
from trio_stomp.testing import Broker, BrokerOptions, NackPolicy, open_broker
from trio_stomp.types import Command, Frame, Version

ALL = pytest.mark.parametrize("version", list(Version))
SINCE_1_1 = pytest.mark.parametrize("version", [Version.V1_1, Version.V1_2])


class TestSend:
    @ALL
    async def test_send_when_headers_are_repeated_then_passed_through_in_order(
        self, version: Version, autojump_clock: MockClock
    ) -> None:
        """Rows 1x-SEND-5, all-SEND-2, 12-MSG-2, 1x-REP-2."""
        async with open_broker(listen=False) as broker:
            client = await connected(broker, version=version)
            await client.subscribe("/queue/a b:c")
            pairs = [("destination", "/queue/a b:c"), ("x", "1"), ("x", "2"), ("y", "a:b c")]

            await client.write(Command.SEND, [*pairs, ("content-type", "text/plain")], b"\0binary\0")

            message = await client.message(b"\0binary\0", destination="/queue/a b:c", content_type="text/plain")
            assert message.headers.get_all("x") == ("1", "2")
            assert message.headers["y"] == "a:b c"

    async def test_send_when_header_is_escaped_then_comes_out_the_same(self, autojump_clock: MockClock) -> None:
        """Row 1x-SEND-5."""
        async with open_broker(listen=False) as broker:
            client = await connected(broker)
            await client.subscribe("/queue/a")

            await client.write(Command.SEND, [("destination", "/queue/a"), ("a:b\\", "line\r\nnext:\\n")])

            assert (await client.message()).headers["a:b\\"] == "line\r\nnext:\\n"

    async def test_message_when_version_cannot_carry_a_header_then_comes_without_it(
        self, autojump_clock: MockClock
    ) -> None:
        async with open_broker(listen=False) as broker:
            old = await connected(broker, version=Version.V1_0)
            await old.subscribe("/queue/a")
            broker.publish("/queue/a", "x", [("bad", "two\nlines"), ("good", "1")])

            message = await old.message("x")

            assert "bad" not in message.headers
            assert message.headers["good"] == "1"

    @SINCE_1_1
    async def test_send_when_destination_is_unknown_then_error_and_close(
        self, version: Version, autojump_clock: MockClock
    ) -> None:
        """Rows 11-SEND-6, 12-SEND-6, 1x-ERR-5, 1x-ERR-6, 1x-ERR-7, 12-ERR-2, all-ERR-1, all-ERR-3, all-ERR-4."""
        async with open_broker(listen=False) as broker:
            client = await connected(broker, version=version)

            await client.send("nowhere", "body", receipt="r 1")

            error = await client.refused("no such destination")
            assert error.headers["receipt-id"] == "r 1"
            assert error.headers["content-type"] == "text/plain"
            assert error.headers["content-length"] == str(len(error.body))
            assert b"SEND" in error.body
            assert b"nowhere" in error.body

    async def test_send_when_user_is_read_only_then_refused(self, autojump_clock: MockClock) -> None:
        async with open_broker(listen=False, options=BrokerOptions(read_only={"reader"})) as broker:
            reader = await connected(broker, login="reader")
            writer = await connected(broker, login="writer")

            await writer.send("/queue/a", receipt="r")
            await writer.expect(Command.RECEIPT)
            await reader.subscribe("/queue/a")
            await reader.message()
            await reader.send("/queue/a")

            await reader.refused("access refused")

    async def test_send_when_queue_is_full_then_refused(self, autojump_clock: MockClock) -> None:
        async with open_broker(listen=False, options=BrokerOptions(max_queue_length=1)) as broker:
            client = await connected(broker)

            await client.send("/queue/a", "1")
            await client.send("/queue/a", "2")

            await client.refused("queue is full")
            assert [message.body for message in broker.messages("/queue/a")] == [b"1"]


class TestTopics:
    async def test_topic_when_several_subscribe_then_each_gets_a_copy(self, autojump_clock: MockClock) -> None:
        async with open_broker(listen=False) as broker:
            one, other = await connected(broker), await connected(broker)
            await one.send("/topic/t", "early")
            await one.subscribe("/topic/t")
            await other.subscribe("/topic/t")

            await one.send("/topic/t", "x")

            await one.message("x", subscription="1")
            await other.message("x")
            assert broker.consumers("/topic/t") == 2

    async def test_topic_when_unsubscribed_then_copies_stop(self, autojump_clock: MockClock) -> None:
        async with open_broker(listen=False) as broker:
            client = await connected(broker)
            await client.subscribe("/topic/t", "client")
            await client.send("/topic/t", "x")
            await client.message("x")

            await client.confirmed(Command.UNSUBSCRIBE, id="1")
            await client.send("/topic/t", "y")

            await client.expect_nothing()
            assert broker.consumers("/topic/t") == broker.depth("/topic/t") == 0

    @pytest.mark.parametrize(
        "headers",
        [
            {"activemq.subscriptionName": "d"},
            {"durable-subscription-name": "d"},
            {"durable": "true"},
        ],
    )
    async def test_durable_when_away_then_gets_what_was_sent_meanwhile(
        self, headers: dict[str, str], autojump_clock: MockClock
    ) -> None:
        async with open_broker(listen=False) as broker:
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

    async def test_durable_header_when_on_a_queue_then_means_nothing(self, autojump_clock: MockClock) -> None:
        async with open_broker(listen=False) as broker:
            client = await connected(broker)

            await client.subscribe("/queue/a", durable="true")
            await client.confirmed(Command.UNSUBSCRIBE, id="1", durable="true")

            assert broker.consumers("/queue/a") == 0


class TestTemporary:
    async def test_request_when_reply_to_is_temporary_then_answer_crosses_connections(
        self, autojump_clock: MockClock
    ) -> None:
        async with open_broker(listen=False) as broker:
            requester, responder = await connected(broker), await connected(broker)
            await responder.subscribe("/queue/service")
            await requester.subscribe("/temp-queue/answers", subscription_id="mine")

            await requester.send("/queue/service", "2+2", reply_to="/temp-queue/answers", correlation_id="c1")
            request = await responder.message("2+2", correlation_id="c1")
            await responder.send(request.headers["reply-to"], "4", correlation_id="c1")

            await requester.message("4", subscription="mine", destination="/temp-queue/answers", correlation_id="c1")

    async def test_temporary_when_same_name_on_two_connections_then_two_queues(self, autojump_clock: MockClock) -> None:
        async with open_broker(listen=False) as broker:
            one, other = await connected(broker), await connected(broker)
            await one.subscribe("/temp-queue/x")
            await other.subscribe("/temp-queue/x")

            await one.send("/temp-queue/x", "for one")

            await one.message("for one")
            await other.expect_nothing()

    async def test_temporary_when_its_connection_ended_then_send_is_refused(self, autojump_clock: MockClock) -> None:
        async with open_broker(listen=False) as broker:
            one, other = await connected(broker), await connected(broker)
            await one.subscribe("/temp-topic/x")
            await one.send("/queue/a", reply_to="/temp-topic/x", receipt="r")
            await one.expect(Command.RECEIPT)
            (message,) = broker.messages("/queue/a")
            await one.confirmed(Command.DISCONNECT)

            await other.send(message.headers["reply-to"], "late")

            await other.refused("no such destination")


class TestSubscribe:
    @SINCE_1_1
    async def test_subscribe_when_id_is_in_use_then_refused(self, version: Version, autojump_clock: MockClock) -> None:
        """Row 1x-SUB-4."""
        async with open_broker(listen=False) as broker:
            client = await connected(broker, version=version)
            await client.subscribe("/queue/a")

            await client.write(Command.SUBSCRIBE, id="1", destination="/queue/b")

            await client.refused("subscription exists")

    @pytest.mark.parametrize(
        "headers",
        [{"prefetch-count": "many"}, {"prefetch-count": "-1"}, {"selector": "a > '1'"}, {"prefetch-count": "9" * 20}],
    )
    async def test_subscribe_when_header_makes_no_sense_then_refused(
        self, headers: dict[str, str], autojump_clock: MockClock
    ) -> None:
        """Row 1x-SUB-4."""
        async with open_broker(listen=False) as broker:
            client = await connected(broker)

            await client.write(Command.SUBSCRIBE, id="1", destination="/queue/a", **headers)

            error = await client.expect(Command.ERROR)
            assert error.headers["message"] in {"prefetch refused", "selector refused"}
            assert broker.consumers("/queue/a") == 0

    async def test_subscribe_when_id_cannot_be_sent_back_then_refused(self, autojump_clock: MockClock) -> None:
        async with open_broker(listen=False) as broker:
            client = await connected(broker, version=Version.V1_1)

            await client.stream.send_all(b"SUBSCRIBE\nid:1\r\ndestination:/queue/a\n\n\0")

            await client.refused("subscription id refused")

    async def test_subscribe_when_1_0_without_id_then_message_names_no_subscription(
        self, autojump_clock: MockClock
    ) -> None:
        """Rows 10-MSG-1, 10-UNSUB-3."""
        async with open_broker(listen=False) as broker:
            client = await connected(broker, version=Version.V1_0)
            await client.confirmed(Command.SUBSCRIBE, destination="/queue/a")
            broker.publish("/queue/a", "x")

            assert "subscription" not in (await client.message("x")).headers
            await client.confirmed(Command.UNSUBSCRIBE, destination="/queue/a")
            assert broker.consumers("/queue/a") == 0

    async def test_subscribe_when_1_0_with_id_then_message_names_it(self, autojump_clock: MockClock) -> None:
        """Rows 10-SUB-15, 10-BODY-3, 10-SUB-14."""
        async with open_broker(listen=False) as broker:
            client = await connected(broker, version=Version.V1_0)

            frame = b"SUBSCRIBE\nid:7\ndestination:/queue/a\nselector:n = 1\nreceipt:r\n\nignored body\0"
            await client.stream.send_all(frame)
            await client.expect(Command.RECEIPT)
            broker.publish("/queue/a", "x", [("n", "1")])

            await client.message("x", subscription="7")

    async def test_selector_when_set_then_only_what_fits_is_delivered(self, autojump_clock: MockClock) -> None:
        """Rows 10-SUB-14, 1x-SUB-5."""
        async with open_broker(listen=False) as broker:
            client = await connected(broker)
            await client.subscribe("/queue/a", selector="n = 1")
            await client.subscribe("/topic/t", subscription_id="2", selector="n = 1")

            for name in ("/queue/a", "/topic/t"):
                broker.publish(name, "other", [("n", "2")])
                broker.publish(name, "mine", [("n", "1")])

            await client.message("mine", subscription="1")
            await client.message("mine", subscription="2")
            await client.expect_nothing()
            assert (broker.depth("/queue/a"), broker.depth("/topic/t")) == (1, 0)

    @SINCE_1_1
    async def test_unsubscribe_when_id_is_unknown_then_refused(
        self, version: Version, autojump_clock: MockClock
    ) -> None:
        """Row 1x-UNSUB-2."""
        async with open_broker(listen=False) as broker:
            client = await connected(broker, version=version)

            await client.write(Command.UNSUBSCRIBE, id="1")

            await client.refused("no such subscription")

    @ALL
    async def test_unsubscribe_when_messages_are_unacknowledged_then_others_get_them(
        self, version: Version, autojump_clock: MockClock
    ) -> None:
        async with open_broker(listen=False) as broker:
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
        self, header: str, autojump_clock: MockClock
    ) -> None:
        async with open_broker(listen=False) as broker:
            client = await connected(broker)
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

    async def test_prefetch_when_not_named_then_options_count_and_0_is_no_bound(
        self, autojump_clock: MockClock
    ) -> None:
        async with open_broker(listen=False, options=BrokerOptions(prefetch=1)) as broker:
            client = await connected(broker)
            for body in "123":
                broker.publish("/queue/a", body)
                broker.publish("/queue/b", body)
            await client.subscribe("/queue/a", "client")
            await client.message("1")
            await client.expect_nothing()

            await client.subscribe("/queue/b", "client", subscription_id="2", prefetch_count="0")
            assert await client.bodies(3) == ["1", "2", "3"]

    async def test_prefetch_when_auto_then_has_no_effect(self, autojump_clock: MockClock) -> None:
        async with open_broker(listen=False) as broker:
            client = await connected(broker)
            for body in "123":
                broker.publish("/queue/a", body)

            await client.subscribe("/queue/a", prefetch_count="1")

            assert await client.bodies(3) == ["1", "2", "3"]

    async def test_competing_consumers_when_prefetch_1_then_share_by_turns(self, autojump_clock: MockClock) -> None:
        async with open_broker(listen=False) as broker:
            one, other = await connected(broker), await connected(broker)
            for client in (one, other):
                await client.subscribe("/queue/a", "client-individual", prefetch_count="1")
            for body in "1234":
                broker.publish("/queue/a", body)

            first, second = await one.message("1"), await other.message("2")
            await other.acknowledge(second)
            await other.message("3")
            await one.acknowledge(first)
            await one.message("4")


async def three(broker: Broker, client: RawClient, ack: str) -> list[str]:
    """Deliver 1, 2, 3, acknowledge 2; return what the others get when the client is gone."""
    await client.subscribe("/queue/a", ack)
    for body in "123":
        broker.publish("/queue/a", body)
    frames = [await client.message(body) for body in "123"]
    await client.acknowledge(frames[1], receipt="acked")
    await client.expect(Command.RECEIPT)
    await client.stream.aclose()
    await broker.wait_until(lambda: not broker.sessions)
    return [message.body.decode() for message in broker.messages("/queue/a")]


class TestAcknowledge:
    @ALL
    async def test_client_mode_when_second_is_acked_then_third_is_left(
        self, version: Version, autojump_clock: MockClock
    ) -> None:
        """Rows all-ACK-3, 1x-SUB-10, 10-ACK-1, 11-ACK-1, 12-ACK-1."""
        async with open_broker(listen=False) as broker:
            assert await three(broker, await connected(broker, version=version), "client") == ["3"]

    @SINCE_1_1
    async def test_individual_mode_when_second_is_acked_then_others_are_left(
        self, version: Version, autojump_clock: MockClock
    ) -> None:
        """Rows 1x-SUB-13, all-ACK-3."""
        async with open_broker(listen=False) as broker:
            client = await connected(broker, version=version)

            assert await three(broker, client, "client-individual") == ["1", "3"]

    async def test_message_when_client_mode_in_1_2_then_has_an_ack_header_of_its_own(
        self, autojump_clock: MockClock
    ) -> None:
        """Rows 12-MSG-3, 12-ACK-1, 12-MSG-1, 12-MSG-4."""
        async with open_broker(listen=False) as broker:
            client = await connected(broker)
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

    async def test_ack_when_message_id_is_used_in_1_2_then_refused(self, autojump_clock: MockClock) -> None:
        """Rows 12-ACK-1, 1x-ACK-4."""
        async with open_broker(listen=False) as broker:
            client = await connected(broker)
            await client.subscribe("/queue/a", "client")
            broker.publish("/queue/a", "x")
            message = await client.message()

            await client.write(Command.ACK, id=message.headers["message-id"], receipt="r")

            error = await client.refused("nothing to acknowledge")
            assert error.headers["receipt-id"] == "r"
            assert broker.depth("/queue/a") == 1

    async def test_ack_when_options_make_it_the_message_id_then_that_is_taken(self, autojump_clock: MockClock) -> None:
        async with open_broker(listen=False, options=BrokerOptions(ack_is_message_id=True)) as broker:
            client = await connected(broker)
            await client.subscribe("/queue/a", "client-individual")
            broker.publish("/queue/a", "x")
            message = await client.message()
            assert message.headers["ack"] == message.headers["message-id"]

            await client.acknowledge(message, receipt="r")

            await client.expect(Command.RECEIPT, receipt_id="r")
            assert broker.unacknowledged("/queue/a") == 0

    @ALL
    async def test_ack_when_given_twice_then_refused(self, version: Version, autojump_clock: MockClock) -> None:
        """Row 1x-ACK-4."""
        async with open_broker(listen=False) as broker:
            client = await connected(broker, version=version)
            await client.subscribe("/queue/a", "client")
            broker.publish("/queue/a", "x")
            message = await client.message()

            await client.acknowledge(message)
            await client.acknowledge(message)

            await client.refused("nothing to acknowledge")

    async def test_ack_when_1_0_and_two_copies_then_each_ack_settles_one(self, autojump_clock: MockClock) -> None:
        """Row 10-ACK-1."""
        async with open_broker(listen=False) as broker:
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

    async def test_ack_when_1_1_names_another_subscription_then_refused(self, autojump_clock: MockClock) -> None:
        """Row 11-ACK-1."""
        async with open_broker(listen=False) as broker:
            client = await connected(broker, version=Version.V1_1)
            await client.subscribe("/queue/a", "client")
            await client.subscribe("/queue/b", "client", subscription_id="2")
            broker.publish("/queue/a", "x")
            message = await client.message()

            await client.write(Command.ACK, message_id=message.headers["message-id"], subscription="2")

            await client.refused("nothing to acknowledge")


class TestNack:
    @SINCE_1_1
    @pytest.mark.parametrize(("ack", "dead"), [("client", ["1", "2"]), ("client-individual", ["2"])])
    async def test_nack_when_dead_letter_policy_then_settles_as_an_ack_does(
        self, version: Version, ack: str, dead: list[str]
    ) -> None:
        """Rows 11-NACK-3, 12-NACK-3, 1x-NACK-1."""
        async with open_broker(listen=False, options=BrokerOptions(nack=NackPolicy.DEAD_LETTER)) as broker:
            client = await connected(broker, version=version)
            await client.subscribe("/queue/a", ack)
            for body in "123":
                broker.publish("/queue/a", body)
            frames = [await client.message(body) for body in "123"]

            await client.acknowledge(frames[1], Command.NACK, receipt="r")
            await client.expect(Command.RECEIPT)

            assert [message.body.decode() for message in broker.messages("/queue/dead-letter")] == dead

    async def test_nack_when_requeue_policy_then_redelivered_until_dead_letter(self, autojump_clock: MockClock) -> None:
        """Row 1x-NACK-4."""
        async with open_broker(listen=False, options=BrokerOptions(max_deliveries=3)) as broker:
            client = await connected(broker)
            await client.subscribe("/queue/a", "client-individual", prefetch_count="1")
            broker.publish("/queue/a", "bad")
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
            assert dead.headers["dead-letter-source"] == "/queue/a"
            assert dead.headers["dead-letter-deliveries"] == "3"

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
        self, policy: NackPolicy, requeue: str, *, comes_back: bool | None, autojump_clock: MockClock
    ) -> None:
        """What it cannot read counts as if it were not there, as measured on RabbitMQ 3.10.8 and 4.3.6."""
        async with open_broker(listen=False, options=BrokerOptions(nack=policy)) as broker:
            client = await connected(broker)
            await client.subscribe("/queue/a", "client-individual")
            broker.publish("/queue/a", "x")
            message = await client.message("x")

            await client.acknowledge(message, Command.NACK, requeue=requeue, receipt="r")
            await client.expect(Command.RECEIPT)

            expected = policy is NackPolicy.REQUEUE if comes_back is None else comes_back
            assert (broker.unacknowledged("/queue/a"), broker.depth("/queue/dead-letter")) == (expected, not expected)

    @pytest.mark.parametrize(("durable", "stays"), [("true", True), ("True", True), ("TRUE", False), ("1", False)])
    async def test_subscribe_when_durable_is_said_then_read_as_rabbitmq_reads_it(
        self, durable: str, *, stays: bool, autojump_clock: MockClock
    ) -> None:
        async with open_broker(listen=False) as broker:
            client = await connected(broker)
            await client.subscribe("/topic/a", durable=durable)
            await client.stream.aclose()
            await broker.wait_until(lambda: broker.sessions == ())

            broker.publish("/topic/a", "x")

            assert broker.depth("/topic/a") == stays

    async def test_nack_when_1_0_then_protocol_error(self, autojump_clock: MockClock) -> None:
        """Rows 10-NACK-2, 10-FRM-16."""
        async with open_broker(listen=False) as broker:
            client = await connected(broker, version=Version.V1_0)

            await client.stream.send_all(b"NACK\nmessage-id:1\n\n\0")

            await client.refused("protocol error")


async def begun(broker: Broker, version: Version = Version.V1_2) -> tuple[RawClient, Frame]:
    """A client in a transaction, and a message of /queue/a that it has not acknowledged yet."""
    client = await connected(broker, version=version)
    await client.subscribe("/queue/a", "client")
    broker.publish("/queue/a", "in")
    message = await client.message("in")
    await client.write(Command.BEGIN, transaction="t")
    return client, message


class TestTransactions:
    @ALL
    async def test_commit_when_sends_and_acks_then_take_effect_together(
        self, version: Version, autojump_clock: MockClock
    ) -> None:
        """Rows all-TX-3, all-SEND-3, all-ACK-2, 10-TX-8."""
        async with open_broker(listen=False) as broker:
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
    async def test_abort_when_sends_and_acks_then_undone(self, version: Version, autojump_clock: MockClock) -> None:
        """Rows all-TX-4, all-ACK-2, 12-TX-2."""
        async with open_broker(listen=False) as broker:
            client, message = await begun(broker, version)
            await client.send("/queue/b", "1", transaction="t")
            await client.acknowledge(message, transaction="t")
            await client.confirmed(Command.ABORT, transaction="t")

            assert (broker.depth("/queue/b"), broker.unacknowledged("/queue/a")) == (0, 1)
            await client.acknowledge(message, receipt="again")
            await client.expect(Command.RECEIPT, receipt_id="again")
            assert broker.unacknowledged("/queue/a") == 0

    @SINCE_1_1
    async def test_nack_when_in_a_transaction_then_waits_for_commit(
        self, version: Version, autojump_clock: MockClock
    ) -> None:
        """Row 1x-NACK-1."""
        async with open_broker(listen=False, options=BrokerOptions(nack=NackPolicy.DEAD_LETTER)) as broker:
            client, message = await begun(broker, version)
            await client.acknowledge(message, Command.NACK, transaction="t", receipt="r")
            await client.expect(Command.RECEIPT)
            assert broker.depth("/queue/dead-letter") == 0
            await client.confirmed(Command.COMMIT, transaction="t")

            assert broker.depth("/queue/dead-letter") == 1

    async def test_disconnect_when_transaction_is_open_then_aborted(self, autojump_clock: MockClock) -> None:
        """Row 1x-TX-5."""
        async with open_broker(listen=False) as broker:
            client = await connected(broker)
            await client.write(Command.BEGIN, transaction="t")
            await client.send("/queue/b", "1", transaction="t")

            await client.confirmed(Command.DISCONNECT)

            assert broker.depth("/queue/b") == 0

    async def test_link_when_lost_in_a_transaction_then_aborted(self, autojump_clock: MockClock) -> None:
        """Row 1x-TX-6."""
        async with open_broker(listen=False) as broker:
            client, message = await begun(broker)
            await client.send("/queue/b", "1", transaction="t")
            await client.acknowledge(message, transaction="t", receipt="r")
            await client.expect(Command.RECEIPT)
            assert broker.sessions[0].transactions == 1

            await client.stream.aclose()
            await broker.wait_until(lambda: not broker.sessions)

            assert (broker.depth("/queue/a"), broker.depth("/queue/b")) == (1, 0)

    @ALL
    @pytest.mark.parametrize("command", [Command.COMMIT, Command.ABORT])
    async def test_end_when_transaction_is_unknown_then_refused(
        self, version: Version, command: Command, autojump_clock: MockClock
    ) -> None:
        """Row all-TX-7."""
        async with open_broker(listen=False) as broker:
            client = await connected(broker, version=version)

            await client.write(command, transaction="t")

            await client.refused("no such transaction")

    async def test_begin_when_id_is_open_then_refused(self, autojump_clock: MockClock) -> None:
        """Row 12-TX-2."""
        async with open_broker(listen=False) as broker:
            client = await connected(broker)

            await client.write(Command.BEGIN, transaction="t")
            await client.write(Command.BEGIN, transaction="t")

            await client.refused("transaction exists")

    async def test_commit_when_a_queue_would_overflow_then_nothing_takes_effect(
        self, autojump_clock: MockClock
    ) -> None:
        """Row all-TX-3."""
        options = BrokerOptions(max_queue_length=2, errors_leave_open=True)
        async with open_broker(listen=False, options=options) as broker:
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
        self, version: Version, autojump_clock: MockClock
    ) -> None:
        """Row 12-RECEIPT-4."""
        async with open_broker(listen=False) as broker:
            client = await connected(broker, version=version)

            for number in range(100):
                await client.send("/queue/a", str(number), receipt=f"r{number}")
            await client.write(Command.DISCONNECT)
            await client.stream.aclose()
            await broker.wait_until(lambda: not broker.sessions)

            assert broker.depth("/queue/a") == 100

    @ALL
    async def test_disconnect_when_receipt_is_asked_for_then_confirmed_and_closed(
        self, version: Version, autojump_clock: MockClock
    ) -> None:
        """Rows all-DISC-3, 12-RECEIPT-2."""
        async with open_broker(listen=False) as broker:
            client = await connected(broker, version=version)
            await client.subscribe("/queue/a", "client")
            broker.publish("/queue/a", "x")
            await client.message()

            await client.confirmed(Command.DISCONNECT)

            await client.expect_eof()
            assert broker.depth("/queue/a") == 1
            await client.stream.aclose()
            with trio.fail_after(60):
                await broker.wait_until(lambda: not broker.sessions)


class Crowd:
    """Clients that do anything at random, and an account of where each message has gone."""

    def __init__(self, broker: Broker, seed: int) -> None:
        self.broker = broker
        self.seed = seed
        self.sent: set[str] = set()
        self.consumed: list[str] = []

    async def session(self, number: int) -> None:
        """One session, whose end is sudden as often as not."""
        # Its own chance: which session comes first is trio's to choose, and must not change what each of them does.
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
async def test_messages_when_many_sessions_do_anything_then_none_is_lost_or_doubled(
    seed: int, autojump_clock: MockClock
) -> None:
    """Rows all-TX-3, all-TX-4, 1x-TX-5, 1x-TX-6, all-ACK-3."""
    async with open_broker(listen=False, options=BrokerOptions(max_deliveries=1000)) as broker:
        crowd = Crowd(broker, seed)
        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(crowd.session, number)
        await broker.wait_until(lambda: not broker.sessions)

        left = [message.body.decode() for message in broker.messages("/queue/a")]
        assert sorted(crowd.consumed + left) == sorted(crowd.sent)
        assert len(left) + len(crowd.consumed) > 20
        assert broker.unacknowledged("/queue/a") == 0
