"""The session: verbs between one connection and the next."""

import pytest
import trio

import trio_stomp
from tests.kit.reconnecting import Host, reconnecting, settings_for
from trio_stomp import Client, ConnectionLost, Phase
from trio_stomp.session.connection import Stage
from trio_stomp.session.dialing import dial_in_order
from trio_stomp.session.session import Session
from trio_stomp.testing import Broker, DropLink, open_broker


async def test_verbs_when_there_is_no_connection_then_they_wait_for_the_next(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    host = Host(broker)
    async with reconnecting(host) as client:
        host.refuses = True
        broker.faults.now(DropLink())
        await trio.sleep(1)
        with trio.move_on_after(5) as scope:
            await client.send("/queue/a", b"")
        assert scope.cancelled_caught
        host.refuses = False
        await client.send("/queue/a", b"")
        async with client.transaction() as tx:
            await tx.send("/queue/a", b"")
    assert broker.depth("/queue/a") == 2


async def test_facts_when_the_client_has_moved_to_another_broker_then_they_are_of_that_one(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_broker(listen=False) as other:
        first, second = Host(broker), Host(other)
        async with reconnecting(first, second) as client:
            session = client.session
            first.refuses = True
            broker.faults.now(DropLink())
            await client.send("/queue/a", b"", receipt=True)
            assert client.state.endpoint == "stomp://h1:61613"
            assert client.version == "1.2"
            assert client.server is not None
            assert client.profile.name == "trio_stomp.testing"
            assert client.heart_beat.server_sends_seconds >= 0
            assert session is not None
        assert other.depth("/queue/a") == 1


async def test_counters_when_connections_follow_each_other_then_they_go_on(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    async with reconnecting(broker) as client:
        for _ in range(3):
            await client.send("/queue/a", b"", receipt=True)
            broker.faults.now(DropLink())
            await trio.sleep(20)
        statistics = client.statistics()
        assert statistics.reconnections == 3
        assert statistics.receipts_received == 3
        assert statistics.outbox_octets == 0


async def test_unsent_octets_when_a_link_is_lost_then_they_are_counted(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    async with reconnecting(broker) as client:
        broker.faults.now(DropLink())
        await client.send("/queue/a", b"x" * 500)
        await trio.sleep(5)
        assert client.statistics().octets_unsent + client.statistics().octets_sent > 500


async def test_line_when_failed_twice_then_the_first_failure_counts(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    settings = settings_for([broker])
    link = await dial_in_order(settings)
    session = Session(link, settings)
    session.connection.fail(ConnectionLost("the link"))
    assert session.failure is None
    session.fail(ConnectionLost("for good"))
    session.fail(ConnectionLost("and again"))
    assert str(session.failure) == "for good"
    with pytest.raises(ConnectionLost, match="for good"):
        await session.turn()
    assert session.was_noticed
    assert session.states.newest.phase is Phase.CLOSED
    await trio.aclose_forcefully(link.stream)


async def test_line_when_there_is_no_policy_then_a_loss_ends_it(
    broker: Broker, client: Client, autojump_clock: trio.testing.MockClock
) -> None:
    broker.faults.now(DropLink())
    with pytest.raises(ConnectionLost):
        await client.wait_closed()
    assert client.state.phase is Phase.CLOSED
    with pytest.raises(ConnectionLost):
        async with client.subscribe("/queue/a"):
            raise AssertionError


async def test_body_when_it_raises_while_there_is_no_connection_then_its_exception_leaves_as_itself(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    host, mine = Host(broker), KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt) as caught:
        async with reconnecting(host):
            host.refuses = True
            broker.faults.now(DropLink())
            await trio.sleep(3)
            raise mine
    assert caught.value is mine


async def test_client_when_closed_then_verbs_say_so(broker: Broker, autojump_clock: trio.testing.MockClock) -> None:
    async with reconnecting(broker) as client:
        await client.disconnect()
        with pytest.raises(trio_stomp.ConnectionClosed):
            await client.send("/queue/a", b"")
        await client.wait_closed()


async def test_line_when_failed_while_its_connection_stands_then_no_other_follows(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    settings = settings_for([broker])
    link = await dial_in_order(settings)
    session = Session(link, settings)
    session.fail(ConnectionLost("for good"))
    assert str(session.failure) == "for good"
    assert session.states.newest.phase is Phase.CLOSED
    assert session.connection.stage is Stage.ENDED
    await trio.aclose_forcefully(link.stream)


async def test_leaving_when_the_link_is_lost_with_nothing_unconfirmed_then_that_is_no_error(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    """The link is gone before DISCONNECT, which had only one thing left to say."""
    settings = settings_for([broker])
    link = await dial_in_order(settings)
    session = Session(link, settings)
    session.leave()
    session.connection.fail(ConnectionLost("the link"))
    assert isinstance(session.failure, trio_stomp.ConnectionClosed)
    assert session.was_noticed
    await trio.aclose_forcefully(link.stream)


async def test_stage_when_a_connection_has_ended_then_it_enters_no_other(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    settings = settings_for([broker])
    link = await dial_in_order(settings)
    session = Session(link, settings)
    session.connection.fail(ConnectionLost("the link"))
    assert session.connection.stage is Stage.REPLACED
    with pytest.raises(AssertionError, match=r"REPLACED -> .*MOVING"):
        session.connection.move(link.endpoint)
    await trio.aclose_forcefully(link.stream)
