"""Confirmed messages: what goes out, and what is sent again after a loss."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing

import trio_stomp
from tests.client.clients import client_of, lose_after, pieces_of
from tests.kit.loops import on_loops
from tests.kit.peer import PeerOptions
from tests.kit.reconnecting import reconnecting, reconnecting_to_peers
from trio_stomp import Client, DeliveryStatus, Message, OutgoingMessage, Reconnect
from trio_stomp.testing import Broker, DropLink, SwallowReceipts
from trio_stomp.types import Command

pytestmark = [pytest.mark.anyio, on_loops("trio")]


async def taken(broker: Broker, count: int) -> list[Message]:
    async with trio_stomp.connect_stream(broker.connect_stream()) as client:
        async with client.subscribe("/queue/a", ack="auto") as subscription:
            return [await anext(subscription) for _ in range(count)]


HEADERS = {"a": "1", "b": "2"}


@pytest.mark.parametrize("named", [False, True])
async def test_publish_when_headers_are_a_dict_or_pairs_then_the_message_is_the_same(
    broker: Broker, client: Client, named: bool
) -> None:
    own = {"dedup-id": "mine"} if named else {}
    async with client.publisher() as publisher:
        # Only the first is plain: the others need a second look.
        plain = await publisher.send("/queue/a", b"x", headers=HEADERS | own, content_type="a/b")
        pairs = await publisher.send("/queue/a", b"x", headers=list((HEADERS | own).items()), content_type="a/b")
        escaped = await publisher.send("/queue/a", b"x", headers=HEADERS | own | {"a": "1:1"}, content_type="a/b")
    publications = [plain, pairs, escaped]
    assert [each.id == "mine" for each in publications] == [named] * 3
    for publication, message in zip(publications, await taken(broker, 3), strict=True):
        assert message.headers.get_all("dedup-id") == (publication.id,)
        assert (message.headers["b"], message.content_type, message.body) == ("2", "a/b", b"x")


@pytest.mark.parametrize("verb", ["Client.send", "Publisher.send", "Publisher.send_many"])
@pytest.mark.parametrize("headers", [{"a": "1"}, {"a": "1:1"}, {"dedup-id": "mine"}])
async def test_publish_when_sent_again_on_the_next_connection_then_it_is_the_same_message(
    broker: Broker, headers: dict[str, str], verb: str
) -> None:
    async with reconnecting(broker) as client, trio.open_nursery() as nursery:
        broker.faults.now(SwallowReceipts())
        nursery.start_soon(lose_after, 1, broker)
        if verb == "Client.send":
            await client.send("/queue/a", b"x", headers=headers, receipt=True)
        else:
            async with client.publisher() as publisher:
                if verb == "Publisher.send":
                    publication = await publisher.send("/queue/a", b"x", headers=headers)
                else:
                    (publication,) = await publisher.send_many([OutgoingMessage("/queue/a", b"x", headers=headers)])
            assert publication.delivery is DeliveryStatus.CONFIRMED
        assert client.statistics().resent == 1
    first, second = await taken(broker, 2)
    assert first.stable_id == second.stable_id == first.headers["dedup-id"] == headers.get("dedup-id", first.stable_id)
    differing = {"message-id", "ack", "subscription"}
    assert [pair for pair in first.headers.items() if pair[0] not in differing] == [
        pair for pair in second.headers.items() if pair[0] not in differing
    ]


async def test_publish_when_an_option_gives_the_stable_id_then_that_one_goes_out() -> None:
    async with client_of("ActiveMQ-Artemis/2.44.0 ActiveMQ Artemis Messaging Engine") as (client, artemis):
        async with client.publisher() as publisher:
            named = await publisher.send("/queue/a", b"x", headers={"a": "b"}, dedup_id="mine", priority=4)
            numbered = await publisher.send("/queue/a", b"x", priority=4)
        first, second = await taken(artemis, 2)
    assert (named.id, first.headers.get_all("_AMQ_DUPL_ID")) == ("mine", ("mine",))
    assert second.headers.get_all("_AMQ_DUPL_ID") == (numbered.id,)
    assert numbered.id != "mine"
    assert first.headers["priority"] == second.headers["priority"] == "4"


async def test_ids_when_made_then_unique_in_all_clients(broker: Broker) -> None:
    ids: set[str] = set()
    for _ in range(2):
        async with trio_stomp.connect_stream(broker.connect_stream()) as client, client.publisher() as publisher:
            ids |= {(await publisher.send("/queue/a", b"")).id for _ in range(3)}
    assert len(ids) == 6
    # What every broker takes, and every header.
    assert all(id_.replace("-", "").isalnum() and id_.isascii() for id_ in ids)


async def test_send_when_its_sender_is_cancelled_then_it_is_not_sent_again(broker: Broker) -> None:
    async with reconnecting(broker) as client:
        broker.faults.now(SwallowReceipts())
        with trio.move_on_after(1):
            await client.send("/queue/a", b"x", receipt=True)
        assert client.statistics().unconfirmed == 0
        assert client.statistics().receipts_pending == 0
        broker.faults.now(DropLink())
        await trio.sleep(10)
        assert client.statistics().reconnections == 1
    assert broker.depth("/queue/a") == 1


SERVERS = [
    ("RabbitMQ/4.3.6", "amqp-message-id"),
    ("ActiveMQ-Artemis/2.44.0", "_AMQ_DUPL_ID"),
    ("ActiveMQ/6.1.8", "dedup-id"),
    ("SomeBroker/1", "dedup-id"),
]


@pytest.mark.parametrize("policy", [None, Reconnect()], ids=["once", "reconnecting"])
@pytest.mark.parametrize(("server", "name"), SERVERS)
async def test_send_when_confirmed_in_any_way_then_each_has_an_id_where_it_pays(
    server: str, name: str, policy: Reconnect | None
) -> None:
    async with reconnecting_to_peers(peer_options=PeerOptions(server=server), reconnect=policy) as (client, host):
        await client.send("/queue/a", b"bytes", receipt=True)
        await client.send("/queue/a", "text", headers=[("a", "b:c")], receipt=True)
        await client.send("/queue/a", pieces_of(b"pie", b"ces"), content_length=6, receipt=True)
        async with client.publisher() as publisher:
            await publisher.send("/queue/a", b"published")
            await publisher.send_many([OutgoingMessage("/queue/a", b"one of many")])
        await client.send("/queue/a", b"own", headers={name: "own"}, receipt=True)
        await client.send("/queue/a", b"not confirmed")

    ids = [frame.headers.get_all(name) for frame in host.peers[0].of(Command.SEND)]
    # Artemis would write the id of a single message to its disk first, for a copy that the client does not send.
    single = 0 if name == "_AMQ_DUPL_ID" and policy is None else 1
    assert [len(each) for each in ids] == [single] * 3 + [1, 1, 1, 0]
    assert len(set(ids)) == 4 + 3 * single
    assert ids[5] == ("own",)


async def test_room_when_a_message_is_given_up_then_the_next_one_goes(broker: Broker) -> None:
    async def give_up_after_a_second(client: Client) -> None:
        with trio.move_on_after(1):
            await client.send("/queue/a", b"1", receipt=True)

    async with trio_stomp.connect_stream(broker.connect_stream(), unconfirmed_messages=1) as client:
        broker.faults.now(SwallowReceipts(command=Command.SEND))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(give_up_after_a_second, client)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(partial(client.send, "/queue/a", b"2", receipt=True))
            await trio.sleep(0.5)
            assert broker.depth("/queue/a") == 1
            await trio.sleep(1)
            assert broker.depth("/queue/a") == 2
            nursery.cancel_scope.cancel()
