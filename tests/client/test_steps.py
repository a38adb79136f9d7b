"""Where an attempt stands, and what its silence means."""

from __future__ import annotations

import pytest

from trio_stomp.transport.steps import Steps, reasons_of
from trio_stomp.transport.urls import Endpoint


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


def test_steps_when_new_then_at_the_first_one() -> None:
    assert Steps(Endpoint.parse("stomp://b"), tls=False).current == "tcp"
    assert Steps(Endpoint.parse("stomp+unix:///s"), tls=False).current == "unix"


def test_reasons_when_trio_gathered_one_for_each_address_then_each_is_told_once() -> None:
    error = OSError("all attempts to connect failed")
    refused, unreachable = ConnectionRefusedError(111, "Connection refused"), OSError(113, "No route to host")
    error.__cause__ = ExceptionGroup("", [unreachable, refused, ConnectionRefusedError(111, "Connection refused")])
    assert reasons_of(error) == "Connection refused, No route to host"


def test_reasons_when_there_is_one_then_its_text() -> None:
    assert reasons_of(OSError(113, "No route to host")) == "No route to host"
    assert reasons_of(OSError("odd")) == "odd"
