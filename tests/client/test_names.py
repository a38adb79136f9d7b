"""What users see of the objects of this library: the names that they import, URL, state and destination, no secret."""

from __future__ import annotations

from types import ModuleType

import pytest
import trio
import trio.testing

import trio_stomp
import trio_stomp.blocking
from trio_stomp import ConnectionLost
from trio_stomp.testing import Broker, DropLink, open_broker, open_scripted_peer


async def test_repr_when_shown_then_url_state_and_destination_and_no_passcode() -> None:
    async with open_broker() as broker:
        url = f"stomp://guest:s3cret@127.0.0.1:{broker.port}"
        async with trio_stomp.connect(url) as client:
            assert repr(client) == f"<Client of stomp://127.0.0.1:{broker.port}: connected>"
            async with client.subscribe("/queue/a", id="s") as subscription:
                assert repr(subscription) == "<Subscription 's' to '/queue/a': open>"
                await client.send("/queue/a", "x")
                message = await anext(subscription)
                assert "/queue/a" in repr(message)
                assert message.settlement.value in repr(message)
            assert repr(subscription) == "<Subscription 's' to '/queue/a': over>"
            async with client.transaction() as transaction:
                assert repr(transaction) == f"<Transaction {transaction.id!r}: open>"
            assert repr(transaction) == f"<Transaction {transaction.id!r}: committed>"
            async with client.publisher() as publisher:
                await publisher.send("/queue/b", "x")
            assert repr(publisher) == "<Publisher: 1 confirmed, 0 in flight>"
        assert repr(client) == f"<Client of stomp://127.0.0.1:{broker.port}: closed>"


async def test_stream_when_the_program_opened_it_then_state_error_and_log_name_no_host(
    broker: Broker, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    caplog.set_level("DEBUG", "trio_stomp")
    shown: list[object] = []

    class Watch(trio_stomp.Hooks):
        def connected(self, peer: trio_stomp.types.ConnectionInfo) -> None:
            shown.append(peer)
            assert (peer.host, peer.port) == ("", 0)

    with pytest.raises(ConnectionLost) as caught:
        async with trio_stomp.connect_stream(broker.connect_stream(), hooks=Watch()) as client:
            shown += [client, client.state, str(client.state)]
            broker.faults.now(DropLink())
            await client.wait_closed()
    shown.append(caught.value)
    async with open_scripted_peer() as peer:
        with pytest.raises(trio_stomp.ConnectError) as refused:
            async with trio_stomp.connect_stream(peer.connect_stream(), connect_timeout=1):
                pass
    text = f"{shown} {caught.value} {refused.value} {caplog.text}"
    assert "the program's own stream" in text
    assert all(invented not in text for invented in ("stomp://", "61613", "is the port", "firewall"))


def test_outgoing_message_when_an_option_is_wrong_then_refused_where_it_is_written() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'persistant'"):
        trio_stomp.OutgoingMessage("/queue/a", b"", persistant=True)  # type: ignore[call-arg]  # the mistake
    with pytest.raises(trio_stomp.LocalProtocolError, match="ttl must be a number of seconds, more than 0"):
        trio_stomp.OutgoingMessage("/queue/a", b"", ttl=-1)
    message = trio_stomp.OutgoingMessage("/queue/a", b"", ttl=1, persistent=True)
    assert (message.ttl, message.persistent) == (1, True)


@pytest.mark.parametrize("names", [trio_stomp, trio_stomp.blocking])
@pytest.mark.parametrize("arguments", [(), ("stomp://localhost",)], ids=["of nothing", "of a URL"])
@pytest.mark.parametrize("name", ["Client", "Message", "Publisher", "Subscription", "Transaction"])
def test_class_when_constructed_by_a_program_then_it_says_what_to_call(
    names: ModuleType, name: str, arguments: tuple[str, ...]
) -> None:
    # Clients of other libraries are made of a URL.
    with pytest.raises(TypeError, match=f"a {name} cannot be constructed: "):
        getattr(names, name)(*arguments)
