"""The first octets of a port that does not speak STOMP."""

from __future__ import annotations

import pytest

from trio_stomp.transport.foreign_answers import HINT_OCTETS, hint_at, is_tls, is_tls_alert, speaker_of
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
def test_hint_when_the_octets_are_known_then_it_says_what_to_do(seen: bytes, words: str) -> None:
    assert words in hint_at(seen, BROKER, tls=False)
    assert words in hint_at(seen[:HINT_OCTETS], BROKER, tls=False)


@pytest.mark.parametrize("seen", [b"", b"CONNECTED\n", b"\x16\x03", b"H", b"ActiveMQ"])
def test_hint_when_nothing_is_known_then_none(seen: bytes) -> None:
    assert hint_at(seen, BROKER, tls=False) == ""


@pytest.mark.parametrize(
    ("octets", "name"),
    [
        (b"AMQP\x00\x00\x09\x01", "AMQP"),
        (b"HTTP/1.1 400 Bad Request\r\n", "HTTP"),
        (b"\x00\x00\x01\x3c\x01ActiveMQ\x00", "OpenWire"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "SSH"),
        (b"-ERR unknown command 'CONNECT'\r\n", "Redis"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "TLS"),
        (b"hello?", "something unknown, which begins with b'hello?'"),
    ],
)
def test_speaker_when_it_speaks_then_known_by_its_first_octets(octets: bytes, name: str) -> None:
    assert speaker_of(octets).startswith(name)


@pytest.mark.parametrize(
    ("octets", "alert", "tls"),
    [
        (b"\x15\x03\x01\x00\x02\x02\x0a", True, True),
        (b"\x16\x03\x01", False, True),
        (b"\x16", False, True),
        (b"\x16\x02", False, False),
        (b"E", False, False),
        (b"", False, True),
    ],
)
def test_tls_when_its_first_octets_come_then_known(octets: bytes, alert: bool, tls: bool) -> None:
    assert is_tls_alert(octets) is alert
    assert is_tls(octets) is tls
