"""A link after its handshake: what came in the same chunk as CONNECTED is not lost."""

from __future__ import annotations

import pytest
import trio.testing

import trio_stomp
from trio_stomp import BrokerError
from trio_stomp.testing import AnswerConnect, Broker


async def test_link_when_more_comes_in_the_chunk_of_connected_then_it_is_routed(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    """Row all-CONN-5: read by the version that CONNECTED announces."""
    broker.faults.plan(AnswerConnect(data=b"CONNECTED\nversion:1.2\n\n\0\nERROR\nmessage:shutting\\cdown\\r\n\n\0"))
    with pytest.raises(BrokerError) as caught:
        async with trio_stomp.connect_stream(broker.connect_stream()) as client:
            assert client.version == "1.2"
            await client.wait_closed()
    assert caught.value.message == "shutting:down\r"


async def test_link_when_connected_names_no_server_then_nothing_is_assumed_of_the_broker(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    """Rows 1x-CONN-18, 1x-CONN-23, 10-CONN-21."""
    broker.faults.plan(AnswerConnect(data=b"CONNECTED\n\n\0"))
    async with trio_stomp.connect_stream(broker.connect_stream(), disconnect_timeout=1) as client:
        assert client.version == "1.0"
        assert client.server is None
        assert client.session_id is None
        assert client.profile.name == "unknown broker"
