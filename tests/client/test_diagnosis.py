"""What the first bytes of a port, its silence and its errors mean."""

from __future__ import annotations

import pytest

from trio_stomp.transport import HINT_BYTES, Steps, hint_at
from trio_stomp.transport.diagnosis import is_tls
from trio_stomp.transport.urls import Endpoint

BROKER = Endpoint.parse("stomp://broker")


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (b"\x15\x03\x03\x00\x02\x02\x0a", "this is a TLS port: use stomps://"),
        (b"HTTP/1.1 400 Bad Request", "a URL like ws://host:port/ws"),
        (b"AMQP\x00\x00\x09\x01", "this port speaks AMQP"),
        (b"SSH-2.0-OpenSSH_9.2", "this port speaks SSH"),
        (b"\x00\x00\x01\xa4\x01ActiveMQ\x00\x00\x00\x0c", "this port speaks OpenWire"),
    ],
)
def test_hint_when_the_bytes_are_known_then_it_says_what_to_do(seen: bytes, words: str) -> None:
    assert words in hint_at(seen, BROKER, tls=False)
    assert words in hint_at(seen[:HINT_BYTES], BROKER, tls=False)


@pytest.mark.parametrize("seen", [b"", b"CONNECTED\n", b"\x16\x03", b"H", b"ActiveMQ"])
def test_hint_when_nothing_is_known_then_none(seen: bytes) -> None:
    assert hint_at(seen, BROKER, tls=False) == ""


@pytest.mark.parametrize(
    ("data", "tls"),
    [
        (b"\x15\x03\x01\x00\x02\x02\x0a", True),
        (b"\x16\x03\x01", True),
        (b"\x16", True),
        (b"\x16\x02", False),
        (b"E", False),
        (b"", True),
    ],
)
def test_tls_when_its_first_bytes_come_then_known(data: bytes, tls: bool) -> None:
    assert is_tls(data) is tls


@pytest.mark.parametrize(
    ("url", "step", "words"),
    [
        ("stomp://b", "tcp", "are host and port right, and does a firewall drop the packets?"),
        ("stomp://b", "proxy", "is it a proxy of that kind, and can it reach the broker?"),
        (
            "stomps://b",
            "tls",
            "usually 61614. A plain port waits silently for a frame",
        ),
        ("ws://b", "websocket", "is this the broker's plain STOMP port? It waits silently for a frame"),
        ("ws://b", "connect", "is a STOMP broker behind that WebSocket?"),
        ("stomp://b", "connect", "is the port a STOMP port without TLS? A TLS port waits silently for TLS"),
        ("stomps://b", "connect", "is the port a STOMP port?"),
        ("stomp+unix:///s", "connect", "is the socket that of a STOMP broker?"),
    ],
)
def test_timed_out_when_a_step_does_not_end_then_it_says_which_and_what_to_do(url: str, step: str, words: str) -> None:
    steps = Steps(Endpoint.parse(url), tls=url.startswith("stomps"))
    steps.current = step
    failed = steps.timed_out(2.5)
    assert failed.step == "timeout"
    assert failed.reason.startswith(f"no answer within 2.5 s (connect_timeout) at this step: {step}; ")
    assert failed.reason.endswith(words)
    assert not failed.refused
    assert failed.pending_step == step


def test_steps_when_new_then_at_the_first_one() -> None:
    assert Steps(Endpoint.parse("stomp://b"), tls=False).current == "tcp"
    assert Steps(Endpoint.parse("stomp+unix:///s"), tls=False).current == "unix"
