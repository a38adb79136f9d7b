"""The first octets of a port that does not speak STOMP."""

from __future__ import annotations

import pytest

from trio_stomp.client.foreign_answers import HINT_OCTETS, hint_at


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (b"\x15\x03\x03\x00\x02\x02\x0a", "this is a TLS port: use stomps://"),
        (b"HTTP/1.1 400 Bad Request", "a URL like ws://host:port/ws"),
        (b"AMQP\x00\x00\x09\x01", "this is an AMQP port"),
        (b"SSH-2.0-OpenSSH_9.2", "this is an SSH port"),
        (b"\x00\x00\x01\xa4\x01ActiveMQ\x00\x00\x00\x0c", "ActiveMQ's OpenWire port"),
    ],
)
def test_hint_when_the_octets_are_known_then_it_says_what_to_do(seen: bytes, words: str) -> None:
    assert words in hint_at(seen)
    assert words in hint_at(seen[:HINT_OCTETS])


@pytest.mark.parametrize("seen", [b"", b"CONNECTED\n", b"\x16\x03", b"H", b"ActiveMQ"])
def test_hint_when_nothing_is_known_then_none(seen: bytes) -> None:
    assert hint_at(seen) == ""
