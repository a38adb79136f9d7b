from __future__ import annotations

import pytest

from trio_stomp.errors import LocalProtocolError, RemoteProtocolError
from trio_stomp.protocol import HeartBeatOffer
from trio_stomp.types import HeartBeatTerms

# How headers are read and what two offers come to: the vectors of kind `heartbeat` show it.


def test_offer_when_the_header_has_long_numbers_then_read_up_to_18_digits() -> None:
    assert HeartBeatOffer.parse("9" * 18 + ",1") == HeartBeatOffer(can_ms=10**18 - 1, want_ms=1)
    for digits in (19, 5000):
        with pytest.raises(RemoteProtocolError, match="two whole numbers of milliseconds"):
            HeartBeatOffer.parse("1" * digits + ",1")


@pytest.mark.parametrize(
    ("can", "want", "header"), [(5, 10, "5000,10000"), (0, 0, "0,0"), (1.1, 0.0001, "1100,1"), (0.0015, 2.5, "2,2500")]
)
def test_offer_when_made_of_seconds_then_rounds_up_to_milliseconds(can: float, want: float, header: str) -> None:
    assert str(HeartBeatOffer.of_seconds(can, want)) == header


@pytest.mark.parametrize("seconds", [-1, float("inf"), float("nan")])
def test_offer_when_seconds_are_no_interval_then_is_refused(seconds: float) -> None:
    for can, want in ((seconds, 1), (1, seconds)):
        with pytest.raises(LocalProtocolError, match="0 switches one off"):
            HeartBeatOffer.of_seconds(can, want)


def test_terms_when_asked_for_seconds_then_divide_by_a_thousand() -> None:
    terms = HeartBeatTerms(client_sends_ms=1500, server_sends_ms=250)

    assert (terms.client_sends_seconds, terms.server_sends_seconds) == (1.5, 0.25)
