"""The policy of retries."""

import pytest

from trio_stomp import LocalProtocolError, Retry
from trio_stomp.client.retrying import FailureCounts


def test_delay_when_attempts_grow_then_its_bound_doubles_up_to_the_cap() -> None:
    retry = Retry(first_delay=0.5, max_delay=3.0, chance=lambda: 1.0)
    assert [retry.delay(attempts) for attempts in (1, 2, 3, 4, 5000)] == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_delay_when_chance_is_zero_then_there_is_none() -> None:
    assert Retry(chance=lambda: 0.0).delay(7) == 0.0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"attempts": 0}, "attempts must be at least 1, got 0"),
        ({"first_delay": -1.0}, "first_delay <= max_delay, got -1.0"),
        ({"first_delay": 9.0, "max_delay": 1.0}, "got 9.0 and 1.0"),
    ],
)
def test_retry_when_it_cannot_be_meant_then_it_says_what_was_expected(wrong: dict[str, float], said: str) -> None:
    with pytest.raises(LocalProtocolError, match=said):
        Retry(**wrong)  # type: ignore[arg-type]  # what a program without type checker would pass


def test_counts_when_noted_then_remembered_until_forgotten() -> None:
    counts = FailureCounts()
    counts.note("m", 2)
    assert counts.of("m") == 2
    counts.forget("m")
    counts.forget("m")
    assert counts.of("m") == 0


def test_counts_when_very_many_then_the_oldest_are_forgotten_first() -> None:
    counts = FailureCounts()
    for number in range(10_000):
        counts.note(f"m-{number}", 1)
    counts.note("m-0", 2)
    counts.note("one more", 1)
    assert counts.of("m-0") == 2
    assert counts.of("m-1") == 0
    assert counts.of("m-2") == 1
