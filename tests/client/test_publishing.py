"""Messages that are to be confirmed: what goes out, and that it is the same frame whichever way it is made."""

from __future__ import annotations

import pytest
import trio.testing

import trio_stomp
from tests.kit.reconnecting import reconnecting
from trio_stomp import Client, DeliveryStatus, LocalProtocolError, OutgoingMessage, UnconfirmedError
from trio_stomp.testing import Broker, BrokerOptions, DropLink, SwallowReceipts, open_broker


async def taken(broker: Broker, count: int) -> list[trio_stomp.Message]:
    async with trio_stomp.connect_stream(broker.connect_stream()) as client:
        async with client.subscribe("/queue/a", ack="auto") as subscription:
            return [await anext(subscription) for _ in range(count)]


HEADERS = {"a": "1", "b": "2"}


@pytest.mark.parametrize("named", [False, True])
async def test_publish_when_headers_are_a_dict_or_pairs_then_the_message_is_the_same(
    broker: Broker, client: Client, named: bool, autojump_clock: trio.testing.MockClock
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


async def test_publish_when_a_text_is_longer_in_bytes_then_the_window_counts_these(
    broker: Broker, client: Client, autojump_clock: trio.testing.MockClock
) -> None:
    broker.faults.now(SwallowReceipts())
    with pytest.raises(UnconfirmedError):
        async with client.publisher() as publisher:
            publication = await publisher.send("/queue/a", "čččč")
            assert publication.body_bytes == 8
            broker.faults.now(DropLink())


@pytest.mark.parametrize("headers", [{"a": "b\0"}, [("a", "b\0")]])
async def test_publish_when_a_message_cannot_be_represented_then_nothing_of_it_is_kept(
    client: Client, headers: dict[str, str], autojump_clock: trio.testing.MockClock
) -> None:
    async with client.publisher() as publisher:
        with pytest.raises(LocalProtocolError, match="'a'"):
            await publisher.send("/queue/a", b"x", headers=headers)
        assert publisher.in_flight == client.statistics().unconfirmed == client.statistics().receipts_pending == 0
        fine = await publisher.send("/queue/a", b"x")
    assert fine.delivery is DeliveryStatus.CONFIRMED


@pytest.mark.parametrize("verb", ["send", "send_many"])
@pytest.mark.parametrize("headers", [{"a": "1"}, {"a": "1:1"}, {"dedup-id": "mine"}])
async def test_publish_when_sent_again_on_the_next_connection_then_it_is_the_same_message(
    broker: Broker, headers: dict[str, str], verb: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with reconnecting(broker) as client:
        async with client.publisher() as publisher:
            broker.faults.now(SwallowReceipts())
            if verb == "send":
                publication = await publisher.send("/queue/a", b"x", headers=headers)
            else:
                (publication,) = await publisher.send_many([OutgoingMessage("/queue/a", b"x", headers=headers)])
            await trio.sleep(1)
            broker.faults.now(DropLink())
        assert client.statistics().resent == 1
    first, second = await taken(broker, 2)
    assert publication.delivery is DeliveryStatus.CONFIRMED
    assert first.stable_id == second.stable_id == publication.id
    differing = {"message-id", "ack", "subscription"}
    assert [pair for pair in first.headers.items() if pair[0] not in differing] == [
        pair for pair in second.headers.items() if pair[0] not in differing
    ]


async def test_publish_when_an_option_gives_the_stable_id_then_that_one_goes_out(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with (
        open_broker(
            listen=False, options=BrokerOptions(server="ActiveMQ-Artemis/2.44.0 ActiveMQ Artemis Messaging Engine")
        ) as artemis,
        trio_stomp.connect_stream(artemis.connect_stream()) as client,
    ):
        async with client.publisher() as publisher:
            named = await publisher.send("/queue/a", b"x", headers={"a": "b"}, dedup_id="mine", priority=4)
            numbered = await publisher.send("/queue/a", b"x", priority=4)
        first, second = await taken(artemis, 2)
    assert (named.id, first.headers.get_all("_AMQ_DUPL_ID")) == ("mine", ("mine",))
    assert second.headers.get_all("_AMQ_DUPL_ID") == (numbered.id,)
    assert numbered.id != "mine"
    assert first.headers["priority"] == second.headers["priority"] == "4"
