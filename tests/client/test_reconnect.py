"""The policies of reconnection and of another attempt to handle a message."""

import pytest

from trio_stomp import LocalProtocolError, Reconnect, Retry


def test_delay_when_attempts_fail_then_its_bound_doubles_up_to_the_cap() -> None:
    reconnect = Reconnect(first_delay=0.5, max_delay=3.0, random=lambda: 1.0)
    assert [reconnect.delay(failed) for failed in (0, 1, 2, 3, 100_000)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    retry = Retry(first_delay=0.5, max_delay=3.0, random=lambda: 1.0)
    assert [retry.delay(attempts) for attempts in (1, 2, 3, 4, 5000)] == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_delay_when_chance_says_so_then_it_lies_anywhere_below_its_bound() -> None:
    assert Reconnect(first_delay=2.0, random=lambda: 0.25).delay(1) == 1.0
    assert 0 <= Reconnect(first_delay=2.0).delay(1) <= 4.0
    assert Retry(random=lambda: 0.0).delay(7) == 0.0


def test_policy_when_a_value_is_the_smallest_that_means_something_then_it_is_accepted() -> None:
    policy = Reconnect(first_delay=0, max_delay=0, stable_after=0, attempts=1, deadline=0.1, fail_back_after=0.1)
    assert policy.delay(5) == 0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"first_delay": -1.0}, "delays must be 0 <= first_delay <= max_delay, got -1.0 and 30.0"),
        ({"first_delay": 5.0, "max_delay": 1.0}, "delays must be 0 <= first_delay <= max_delay, got 5.0 and 1.0"),
        ({"attempts": 0}, "attempts must be an int of at least 1, or None for no limit, got 0"),
        ({"stable_after": "1"}, "stable_after must be a number of seconds, 0 or more, got '1'"),
        ({"max_delay": "1"}, "delays must be 0 <= first_delay <= max_delay, got 0.1 and '1'"),
        ({"retry_first": "no"}, "retry_first must be True or False, got 'no'"),
        ({"deadline": 0.0}, "deadline must be more than 0 seconds, or None, got 0.0"),
        ({"fail_back_after": "60"}, "fail_back_after must be more than 0 seconds, or None, got '60'"),
    ],
)
def test_policy_when_it_cannot_be_meant_then_it_says_what_was_expected(wrong: dict[str, float], said: str) -> None:
    with pytest.raises(LocalProtocolError, match=said):
        Reconnect(**wrong)  # type: ignore[arg-type]  # what a program without type checker would pass
