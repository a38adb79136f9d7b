"""A broker that is not known: nothing is assumed of it."""

from __future__ import annotations

import pytest

from trio_stomp.brokers import NackMeaning, Profile
from trio_stomp.errors import NotSupported
from trio_stomp.protocol import Headers, Tolerances


def test_profile_when_the_broker_is_not_known_then_nothing_is_assumed() -> None:
    profile = Profile()
    assert profile.prefetch(7) == []
    assert not profile.prefetch_is_exact
    assert profile.tolerances == Tolerances()
    assert profile.nack(Headers(), None) is NackMeaning.UNKNOWN
    assert profile.cancelled_subscription(Headers({"subscription": "s-1"})) is None


def test_profile_when_durable_is_asked_of_an_unknown_broker_then_not_supported() -> None:
    with pytest.raises(NotSupported, match="pass its own headers"):
        Profile().durable("mine")
