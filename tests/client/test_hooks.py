"""What hooks are told: the events themselves, and that a client without hooks has none."""

from __future__ import annotations

import pytest
import trio
import trio.testing

import trio_stomp
from trio_stomp import Client, Hooks, Peer, Sending
from trio_stomp.errors import LocalProtocolError
from trio_stomp.testing import Broker, open_broker


def sending(headers: list[tuple[str, str]]) -> Sending:
    return Sending(
        destination="/queue/a", body_octets=1, transaction=None, is_request=False, confirmed=False, _headers=headers
    )


def test_add_header_when_called_then_the_message_has_it_last() -> None:
    headers = [("a", "1")]
    message = sending(headers)

    message.add_header("b", "2")

    assert headers == [("a", "1"), ("b", "2")]
    assert message.headers == (("a", "1"), ("b", "2"))


@pytest.mark.parametrize(("name", "value"), [("receipt", "r"), ("a", 1)])
def test_add_header_when_it_cannot_be_sent_then_refused_and_not_added(name: str, value: str) -> None:
    headers = [("a", "1")]

    with pytest.raises(LocalProtocolError):
        sending(headers).add_header(name, value)
    assert headers == [("a", "1")]


def test_sending_when_shown_then_without_its_headers() -> None:
    assert "hush" not in repr(sending([("authorization", "hush")]))


async def test_hooks_when_none_are_given_then_there_is_nobody_to_tell(
    client: Client, autojump_clock: trio.testing.MockClock
) -> None:
    await client.send("/queue/a", b"x")
    assert client._session.connection.observer is None
    assert client._session.connection.wire is None


async def test_hooks_when_nothing_is_overridden_then_everything_works_as_without(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    async with trio_stomp.connect_stream(broker.connect_stream(), hooks=Hooks()) as client:
        await client.send("/queue/a", b"x", receipt=True)
        async with client.subscribe("/queue/a") as subscription:
            async with await anext(subscription) as message:
                assert message.body == b"x"
    assert broker.depth("/queue/a") == 0


async def test_peer_when_told_then_it_names_the_broker_without_secrets(autojump_clock: trio.testing.MockClock) -> None:
    seen: list[Peer] = []

    class Watch(Hooks):
        def connected(self, peer: Peer) -> None:
            seen.append(peer)

    async with open_broker() as broker:
        url = f"stomp://user:hush@127.0.0.1:{broker.port}"
        async with trio_stomp.connect(url, hooks=Watch()):
            pass
    assert seen == [
        Peer(
            endpoint=f"stomp://127.0.0.1:{broker.port}",
            host="127.0.0.1",
            port=broker.port,
            broker="trio_stomp.testing",
            server=seen[0].server,
        )
    ]
    assert "hush" not in repr(seen)
