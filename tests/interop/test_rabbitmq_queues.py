"""RabbitMQ 3.10 and 4, fact by fact: limits, kinds of queues, and messages that are held for too long."""

from __future__ import annotations

import json
import re
import subprocess
import uuid
from collections.abc import Generator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Final, Literal

import pytest
import trio

import trio_stomp
from tests.interop.bench import Destination
from tests.interop.broker_facts import SCRIPT, Broker, brokers_of
from tests.interop.raw import CLOSED, OPEN, Link, Raw, linked
from trio_stomp import BrokerError, ConnectionLost, PoisonMessage, QueueArguments, StaleMessage

both = pytest.mark.parametrize("broker", brokers_of("rabbitmq"), indirect=True)
newer = pytest.mark.parametrize("broker", ["rabbitmq4"], indirect=True)

# The default limits of RabbitMQ 4. 3.10 has none of them.
FRAME_BYTES: Final = 4 * 1024 * 1024
HEADERS: Final = 100
LOGIN_BYTES: Final = 64 * 1024
DELIVERIES: Final = 21


@contextmanager
def policy(broker: Broker, queue: str, given: dict[str, object]) -> Generator[None]:
    """Have a policy for one queue."""
    if not broker.started:
        pytest.skip("there is no rabbitmqctl for a broker in a container")
    name, pattern = f"test-{uuid.uuid4().hex}", f"^{re.escape(queue.removeprefix('/queue/'))}$"

    def ctl(*arguments: str) -> None:
        subprocess.run([SCRIPT, "ctl", broker.id, *arguments], check=True, capture_output=True)

    ctl("set_policy", name, pattern, json.dumps(given), "--apply-to", "queues")
    try:
        yield
    finally:
        ctl("clear_policy", name)


def is_newer(broker: Broker) -> bool:
    return broker.id == "rabbitmq4"


def numbered(headers: int, destination: str) -> list[str]:
    """The headers of a SEND with a receipt, `headers` in number."""
    return [f"destination:{destination}", "receipt:r", *(f"h-{number}:x" for number in range(headers - 2))]


# --- limits -----------------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize(("more", "passes"), [(-1024, True), (1024, False)])
def test_frame_when_over_four_mebibytes_then_rabbitmq_4_closes_without_error(
    broker: Broker, destination: Destination, more: int, passes: bool
) -> None:
    with linked(broker) as link:
        body = bytes(FRAME_BYTES + more)
        link.send("SEND", f"destination:{destination('long')}", "receipt:r", f"content-length:{len(body)}", body=body)
        link.expect(*(["RECEIPT", OPEN] if passes or not is_newer(broker) else [CLOSED]))


@both
@pytest.mark.parametrize(("headers", "passes"), [(HEADERS, True), (HEADERS + 1, False)])
def test_headers_when_more_than_a_hundred_then_rabbitmq_4_closes_without_error(
    broker: Broker, destination: Destination, headers: int, passes: bool
) -> None:
    with linked(broker) as link:
        link.send("SEND", *numbered(headers, destination("wide")))
        link.expect(*(["RECEIPT", OPEN] if passes or not is_newer(broker) else [CLOSED]))


@both
def test_header_when_of_a_megabyte_then_passes(broker: Broker, destination: Destination) -> None:
    with linked(broker) as link:
        link.send("SEND", f"destination:{destination('header')}", "receipt:r", f"long:{'x' * 1_000_000}")
        link.expect("RECEIPT", OPEN)


@both
@pytest.mark.parametrize(("more", "passes"), [(-512, True), (4096, False)])
def test_connect_when_over_64_kibibytes_then_rabbitmq_4_closes_without_error(
    broker: Broker, more: int, passes: bool
) -> None:
    with closing(Link(broker)) as link:
        link.send("CONNECT", "accept-version:1.2", "host:/", f"long:{'x' * (LOGIN_BYTES + more)}")
        link.expect(*(["CONNECTED", OPEN] if passes or not is_newer(broker) else [CLOSED]))


@both
async def test_send_when_the_frame_is_too_long_then_the_client_loses_the_connection_or_it_is_stored(
    broker: Broker, destination: Destination
) -> None:
    with trio.fail_after(60):
        if not is_newer(broker):
            async with trio_stomp.connect(broker.url()) as client:
                await client.send(destination("long"), bytes(FRAME_BYTES), receipt=True)
            return
        with pytest.raises(ConnectionLost):
            async with trio_stomp.connect(broker.url()) as client:
                await client.send(destination("long"), bytes(FRAME_BYTES), receipt=True)


@both
@pytest.mark.parametrize("kind", ["classic", "quorum"])
async def test_message_when_its_queue_is_full_and_rejects_publishing_then_it_fails_alone(
    broker: Broker, destination: Destination, kind: Literal["classic", "quorum"]
) -> None:
    queue = destination("full")
    with policy(broker, queue, {"max-length": 2, "overflow": "reject-publish"}), trio.fail_after(60):
        arguments = QueueArguments(type=kind)
        async with trio_stomp.connect(broker.url()) as client:
            with pytest.raises(ConnectionLost, match="the broker closed it"):
                for number in range(9):
                    await client.send(queue, str(number), queue_arguments=arguments, receipt=True)
        async with trio_stomp.connect(broker.url(), reconnect=True) as client:
            with pytest.raises(PoisonMessage, match="reject-publish"):
                await client.send(queue, "one too many", queue_arguments=arguments, receipt=True)
            await client.send(destination("other"), "goes on", receipt=True)


# --- kinds of queues --------------------------------------------------------------------------------------------------


@both
def test_quorum_queue_when_nacked_and_then_lost_then_counted_by_the_header_of_the_version(
    broker: Broker, destination: Destination
) -> None:
    queue = [f"destination:{destination('counted')}", "x-queue-type:quorum"]

    def counts(message: Raw) -> tuple[str | None, str | None]:
        return message.headers.get("x-delivery-count"), message.headers.get("x-acquired-count")

    with linked(broker) as link:
        link.send("SEND", *queue, "persistent:true")
        link.send("SUBSCRIBE", *queue, "id:1", "ack:client-individual")
        message = link.message()
        assert counts(message) == (None, None)
        link.send("NACK", f"id:{message.headers['ack']}")
        assert counts(link.message()) == ((None, "1") if is_newer(broker) else ("1", None))
    with linked(broker) as link:
        link.send("SUBSCRIBE", *queue, "id:1", "ack:client-individual")
        assert counts(link.message()) == (("1", "2") if is_newer(broker) else ("2", None))


@both
@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_message_when_nacked_30_times_then_it_still_comes(broker: Broker, destination: Destination, kind: str) -> None:
    queue = [f"destination:{destination('nacked')}", f"x-queue-type:{kind}"]
    with linked(broker) as link:
        link.send("SEND", *queue, "persistent:true")
        link.send("SUBSCRIBE", *queue, "id:1", "ack:client-individual")
        for _ in range(30):
            link.send("NACK", f"id:{link.message().headers['ack']}")
        link.message()


@both
@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_message_when_connections_are_lost_with_it_then_rabbitmq_4_drops_it_from_a_quorum_queue_in_the_end(
    broker: Broker, destination: Destination, kind: str
) -> None:
    queue = [f"destination:{destination('lost')}", f"x-queue-type:{kind}"]

    def comes() -> bool:
        with linked(broker) as link:
            link.send("SUBSCRIBE", *queue, "id:1", "ack:client-individual")
            # Ample on a busy machine for a message that was given back a moment ago; the last one is waited for longer.
            return isinstance(link.frame(), Raw)

    with linked(broker) as link:
        link.send("SEND", *queue, "persistent:true", "receipt:r")
        link.expect("RECEIPT", OPEN)
    assert all(comes() for _ in range(DELIVERIES))
    assert comes() is not (is_newer(broker) and kind == "quorum")


@both
def test_queue_when_its_type_is_another_then_refused_and_by_amq_queue_reached(
    broker: Broker, destination: Destination
) -> None:
    queue = destination("typed")
    with linked(broker) as link:
        link.send("SEND", f"destination:{queue}", "x-queue-type:quorum", "receipt:r")
        link.send("SEND", f"destination:/amq{queue}", "receipt:s")
        link.expect("RECEIPT", "RECEIPT", OPEN)
    with linked(broker) as link:
        link.send("SEND", f"destination:{queue}", "receipt:r")
        error, end = link.rest()
    assert isinstance(error, Raw)
    assert error.headers["message"] == "precondition_failed"
    assert b"inequivalent arg 'x-queue-type'" in error.body
    assert end == CLOSED


@both
def test_queue_when_its_type_is_unknown_then_refused_by_each_in_its_way(
    broker: Broker, destination: Destination
) -> None:
    with linked(broker) as link:
        link.send("SEND", f"destination:{destination('unknown')}", "x-queue-type:nonsense", "receipt:r")
        expected = ["ERROR Processing error", OPEN] if is_newer(broker) else ["ERROR precondition_failed", CLOSED]
        link.expect(*expected)


@both
def test_topic_when_two_connections_name_one_queue_then_shared_only_on_the_older_or_if_durable(broker: Broker) -> None:
    unique = uuid.uuid4().hex
    shared = [f"destination:/topic/interop.{unique}", "id:1", "receipt:r"]
    with linked(broker) as one, linked(broker) as other:
        for link in (one, other):
            link.send("SUBSCRIBE", *shared, f"x-queue-name:stomp-subscription-{unique}")
            if link is one:
                one.expect("RECEIPT", OPEN)
        locked = ["ERROR resource_locked", "RECEIPT", CLOSED]
        other.expect(*(locked if is_newer(broker) else ["RECEIPT", OPEN]))
    durable = [f"x-queue-name:stomp-subscription-{unique}-durable", "durable:true", "auto-delete:false"]
    with linked(broker) as one, linked(broker) as other:
        for link in (one, other):
            link.send("SUBSCRIBE", *shared, *durable)
            link.expect("RECEIPT", OPEN)


@both
def test_stream_when_without_prefetch_or_in_auto_mode_then_refused(broker: Broker, destination: Destination) -> None:
    stream = [f"destination:{destination('stream')}", "x-queue-type:stream", "id:1", "receipt:r"]
    with linked(broker) as link:
        link.send("SUBSCRIBE", *stream, "ack:client-individual")
        link.expect("ERROR precondition_failed", "RECEIPT", CLOSED)
    with linked(broker) as link:
        link.send("SUBSCRIBE", *stream, "ack:auto", "prefetch-count:5")
        link.expect("ERROR Processing error")


# --- a message that is held for too long ------------------------------------------------------------------------------


def ack_timeout(broker: Broker, queue: str, seconds: float) -> AbstractContextManager[None]:
    """Let the quorum queue take back what is not settled in time; the default is half an hour."""
    return policy(broker, queue, {"consumer-timeout": int(seconds * 1000)})


@newer
async def test_message_when_held_past_the_ack_timeout_then_the_subscription_fails_and_the_connection_lives(
    broker: Broker, destination: Destination
) -> None:
    queue, quorum = destination("held"), QueueArguments(type="quorum")
    with ack_timeout(broker, queue, 2), trio.fail_after(60):
        async with trio_stomp.connect(broker.url()) as client:
            await client.send(queue, b"1", persistent=True, queue_arguments=quorum, receipt=True)
            with pytest.raises(BrokerError, match="Server cancelled subscription"):
                async with client.subscribe(queue, queue_arguments=quorum) as subscription:
                    await anext(subscription)
                    await anext(subscription)
            async with client.subscribe(queue, queue_arguments=quorum) as subscription:
                again = await anext(subscription)
                assert again.redelivered
                await again.ack(receipt=True)


@newer
async def test_message_when_settled_past_the_ack_timeout_then_that_fails(
    broker: Broker, destination: Destination
) -> None:
    queue, quorum = destination("late"), QueueArguments(type="quorum")
    with ack_timeout(broker, queue, 2), trio.fail_after(60):
        async with trio_stomp.connect(broker.url()) as client, trio_stomp.connect(broker.url()) as other:
            await client.send(queue, b"1", persistent=True, queue_arguments=quorum, receipt=True)
            with pytest.raises((StaleMessage, BrokerError)):
                async with client.subscribe(queue, queue_arguments=quorum) as subscription:
                    message = await anext(subscription)
                    async with other.subscribe(queue, queue_arguments=quorum) as others:
                        # The handler takes too long, and does not wait for the next message: another consumer has it.
                        await (await anext(others)).ack(receipt=True)
                    await message.ack(receipt=True)
            await client.send(queue, b"the connection lives", queue_arguments=quorum, receipt=True)
