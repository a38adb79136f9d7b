"""Users, passcodes and virtual hosts, in each version."""

from __future__ import annotations

import pytest
import trio

import trio_stomp
from tests.interop.bench import PATIENCE, Bench
from tests.interop.broker_facts import Broker
from trio_stomp import AuthenticationError, BrokerError, StompError

# Her passcode has a colon, which in CONNECT no escape may touch.
ALICE = ("alice", "s3cret:x", "/test")


async def test_passcode_when_it_is_wrong_then_authentication_error_soon(bench: Bench) -> None:
    # RabbitMQ would leave the socket open for ten seconds.
    with trio.fail_after(PATIENCE / 2):
        error = await bench.refused(bench.broker.url(user="guest:hush-hush"))
    assert isinstance(error, AuthenticationError)
    (failure,) = error.failures
    assert failure.step == "connect"
    assert "are login and passcode right" in str(error)
    assert "hush-hush" not in repr(error) + str(error)


async def test_passcode_when_it_has_a_colon_then_it_arrives_as_written(bench: Bench) -> None:
    login, passcode, vhost = ALICE
    async with bench.connect(login=login, passcode=passcode, vhost=vhost) as client:
        await client.send(bench.topic(), "hello", receipt=True)


async def test_passcode_when_it_is_in_the_url_then_it_arrives_decoded(broker: Broker) -> None:
    url = f"stomp://alice:s3cret%3Ax@127.0.0.1:{broker.ports['stomp']}/%2Ftest"
    async with trio_stomp.connect(url) as client:
        await client.send("/topic/interop.url", "hello", receipt=True)


async def test_passcode_when_it_has_a_backslash_and_the_profile_is_named_then_it_arrives_as_written(
    newest: Bench,
) -> None:
    login, passcode, vhost = ALICE
    # Sent as it is, it would be read as alice's passcode by a broker that decodes escapes in CONNECT.
    escaped, profile = passcode.replace(":", "\\c"), newest.broker.name
    error = await newest.refused(login=login, passcode=escaped, vhost=vhost, profile=profile)
    assert isinstance(error, AuthenticationError)


async def test_vhost_when_unknown_or_not_the_users_then_as_the_broker_does(bench: Bench) -> None:
    for login, passcode, vhost in (("guest", "guest", "nowhere"), ("alice", "s3cret:x", "/")):
        if bench.facts.refuses_vhosts:
            error = await bench.refused(login=login, passcode=passcode, vhost=vhost)
            assert isinstance(error, AuthenticationError)
            assert "name one that exists and that this user may use, by vhost=" in str(error)
        else:
            async with bench.connect(login=login, passcode=passcode, vhost=vhost) as client:
                await client.send(bench.topic(), "hello", receipt=True)


async def test_user_when_allowed_to_read_only_then_reading_works(bench: Bench) -> None:
    queue = bench.queue()
    async with bench.connect() as writer, bench.connect(user="readonly:readonly") as reader:
        # The queue has to be there: who may only read may not create it. At RabbitMQ "/queue/" declares it in any case.
        await bench.fill(writer, queue, 2)
        existing = queue.replace("/queue/", "/amq/queue/") if bench.broker.name == "rabbitmq" else queue
        assert await bench.left(reader, existing) == ["0", "1"]


async def test_user_when_forbidden_to_send_and_nothing_is_awaited_then_the_error_is_still_raised(
    bench: Bench,
) -> None:
    async with bench.connect() as writer:
        queue = bench.queue()
        await bench.fill(writer, queue, 1)
        # It names no receipt, for there was none, so it ends the connection; nobody can miss it.
        with pytest.raises(BrokerError) as caught:
            async with bench.connect(user="readonly:readonly") as reader:
                await reader.send(queue, "forbidden")
                await reader.wait_closed()
        assert caught.value.receipt_id is None
        assert await bench.left(writer, queue) == ["0"]


async def test_user_when_forbidden_to_send_then_broker_error_where_it_is_awaited(newest: Bench) -> None:
    queue = newest.queue()
    async with newest.connect() as client:
        await client.send(queue, "so that it exists", receipt=True)
    async with newest.connect(user="readonly:readonly") as client:
        with pytest.raises(BrokerError):
            await client.send(queue, "x", receipt=True)
        if newest.facts.ends_session_on_forbidden:
            with pytest.raises(StompError):
                await client.send(queue, "y", receipt=True)
        else:
            assert await newest.left(client, queue) == ["so that it exists"]
