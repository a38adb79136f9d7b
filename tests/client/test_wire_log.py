"""The wire log: every frame, cut short, and no secrets."""

from __future__ import annotations

import logging

import pytest
import trio
import trio.testing

import trio_stomp
from trio_stomp.client.wire_log import WireLog, wire_log
from trio_stomp.errors import RemoteProtocolError
from trio_stomp.protocol import Version, Violation
from trio_stomp.testing import Broker

NAME = "trio_stomp.wire"


def test_wire_log_when_its_logger_is_not_at_debug_then_there_is_none() -> None:
    assert wire_log("stomp://b", Version.V1_2) is None


async def test_wire_log_when_debug_then_each_frame_is_there_without_the_passcode(
    broker: Broker, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    caplog.set_level(logging.DEBUG, NAME)
    async with trio_stomp.connect_stream(
        broker.connect_stream(), login="guest", passcode="hush", heart_beat=(1, 1)
    ) as client:
        async with client.subscribe("/queue/a") as subscription:
            await client.send("/queue/a", b"x" * 5000, receipt=True, headers={"line": "one\ntwo"})
            async with await anext(subscription):
                await trio.sleep(3)
    lines = [record.getMessage() for record in caplog.records if record.name == NAME]
    commands = [line.partition(": ")[2].partition(" ")[0] for line in lines]
    assert commands[:2] == ["CONNECT", "CONNECTED"]
    for command in ("SUBSCRIBE", "SEND", "RECEIPT", "MESSAGE", "ACK", "UNSUBSCRIBE", "DISCONNECT", "heart-beat"):
        assert command in commands
    assert "hush" not in caplog.text
    assert "[redacted]" in lines[0]
    assert max(map(len, lines)) < 600
    assert not any("\n" in line for line in lines)


def test_wire_log_when_the_peer_breaks_the_protocol_then_it_says_how(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, NAME)
    WireLog("stomp://b", Version.V1_2).received([Violation(error=RemoteProtocolError("a colon is missing"))])
    assert caplog.messages == ["from stomp://b: what breaks the protocol: a colon is missing"]
