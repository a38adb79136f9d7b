from __future__ import annotations

import pytest

from trio_stomp.errors import LocalProtocolError, RemoteProtocolError
from trio_stomp.protocol.heartbeat_terms import NO_HEART_BEAT, HeartBeatOffer, HeartBeatTerms


@pytest.mark.parametrize(
    ("value", "can", "want"),
    [
        (None, 0, 0),
        ("0,0", 0, 0),
        ("4000,6000", 4000, 6000),
        (" 1 , 2 ", 1, 2),
        ("007,1", 7, 1),
        ("9" * 18 + ",1", 10**18 - 1, 1),
    ],
)
def test_offer_when_the_header_is_well_formed_then_is_read(value: str | None, can: int, want: int) -> None:
    """Rows 1x-HB-2, 1x-HB-5."""
    assert HeartBeatOffer.parse(value) == HeartBeatOffer(can_ms=can, want_ms=want)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "5",
        "5,",
        "-1,0",
        "1,2,3",
        "a,b",
        "1.5,2",
        "+1,2",
        "\u0665,1",
        "1\n,2",
        "1" * 5000 + ",1",
    ],
)
def test_offer_when_the_header_is_malformed_then_is_refused(value: str) -> None:
    """Rows 1x-HB-2, 1x-HB-15."""
    with pytest.raises(RemoteProtocolError, match="two whole numbers of milliseconds"):
        HeartBeatOffer.parse(value)


@pytest.mark.parametrize(
    ("can", "want", "header"), [(5, 10, "5000,10000"), (0, 0, "0,0"), (1.1, 0.0001, "1100,1"), (0.0015, 2.5, "2,2500")]
)
def test_offer_when_made_of_seconds_then_rounds_up_to_milliseconds(can: float, want: float, header: str) -> None:
    assert str(HeartBeatOffer.of_seconds(can, want)) == header


@pytest.mark.parametrize("seconds", [-1, float("inf"), float("nan")])
def test_offer_when_seconds_are_no_interval_then_is_refused(seconds: float) -> None:
    with pytest.raises(LocalProtocolError, match="0 switches one off"):
        HeartBeatOffer.of_seconds(seconds, 1)
    with pytest.raises(LocalProtocolError, match="0 switches one off"):
        HeartBeatOffer.of_seconds(1, seconds)


@pytest.mark.parametrize(
    ("client", "server", "terms"),
    [
        ((4000, 6000), (5000, 3000), (4000, 6000)),
        ((1000, 1000), (7000, 9000), (9000, 7000)),
        ((0, 5000), (2000, 2000), (0, 5000)),
        ((3000, 3000), (3000, 0), (0, 3000)),
        ((3000, 0), (0, 3000), (3000, 0)),
        ((0, 0), (0, 0), (0, 0)),
    ],
)
def test_terms_when_two_offers_meet_then_the_larger_wins_and_zero_switches_off(
    client: tuple[int, int], server: tuple[int, int], terms: tuple[int, int]
) -> None:
    """Rows 1x-HB-3, 1x-HB-4, 1x-HB-6, 1x-HB-7."""
    offer = HeartBeatOffer(can_ms=client[0], want_ms=client[1])

    agreed = offer.agree(server=HeartBeatOffer(can_ms=server[0], want_ms=server[1]))

    assert (agreed.client_sends_ms, agreed.server_sends_ms) == terms


def test_terms_when_asked_for_seconds_then_divide_by_a_thousand() -> None:
    terms = HeartBeatTerms(client_sends_ms=1500, server_sends_ms=0)

    assert terms.client_sends_seconds == 1.5
    assert terms.server_sends_seconds == 0


def test_no_heart_beat_when_printed_then_is_two_zeros() -> None:
    assert str(NO_HEART_BEAT) == "0,0"
