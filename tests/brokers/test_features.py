"""The vocabulary of what brokers add, and what cannot be meant."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from trio_stomp import QueueArguments
from trio_stomp.brokers import require_known, require_options
from trio_stomp.brokers.features import milliseconds
from trio_stomp.errors import LocalProtocolError
from trio_stomp.types import SendOptions, SubscribeOptions


@pytest.mark.parametrize(("seconds", "expected"), [(1, 1000), (0.25, 250), (0.0001, 1), (86400 * 100, 8_640_000_000)])
def test_milliseconds_when_seconds_are_given_then_counted_and_never_none(seconds: float, expected: int) -> None:
    assert milliseconds("ttl", seconds) == expected


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan"), 1e306, 10**400])
def test_milliseconds_when_they_cannot_be_meant_then_the_option_is_named(seconds: float) -> None:
    with pytest.raises(LocalProtocolError, match="ttl must be a number of seconds, more than 0, got"):
        milliseconds("ttl", seconds)


def test_options_when_one_does_not_exist_then_type_error_as_for_any_argument() -> None:
    with pytest.raises(TypeError, match="send\\(\\) has no argument 'persistant'; did you mean 'persistent'"):
        require_options("send", {"persistant": True})
    with pytest.raises(TypeError, match="subscribe\\(\\) has no argument 'ttl'"):
        require_options("subscribe", {"ttl": 1})


def test_options_when_one_is_nearly_right_then_the_nearest_is_named() -> None:
    with pytest.raises(
        TypeError, match=r"send\(\) has no argument 'Priorty'; did you mean 'priority'\? Its options are"
    ):
        require_known("send()", {"ttl": 1, "Priorty": 1}, {"priority", "ttl"})
    with pytest.raises(TypeError, match=r"send\(\) has no argument 'zzz'; its options are priority, ttl$"):
        require_known("send()", {"zzz": 1}, {"priority", "ttl"})


def test_options_when_they_exist_then_nothing_is_said() -> None:
    sent: SendOptions = {"persistent": True, "ttl": 1, "priority": 4, "delay": 1, "group": "g", "dedup_id": "d"}
    require_options("send", {**sent})
    wanted: SubscribeOptions = {"selector": "a = 1", "durable": "d", "browse": True, "no_local": True}
    require_options("subscribe", {**wanted})


def test_queue_arguments_when_made_then_they_stay_as_they_are() -> None:
    arguments = QueueArguments(type="quorum")
    with pytest.raises(FrozenInstanceError):
        arguments.type = "stream"  # type: ignore[misc]  # the point of the test
    assert {arguments: 1}[QueueArguments(type="quorum")] == 1
