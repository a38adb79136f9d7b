from __future__ import annotations

import pytest

from trio_stomp import Limits, LocalProtocolError


def test_limits_when_made_without_arguments_then_bound_everything() -> None:
    limits = Limits()

    assert 11 <= limits.command_bytes <= 1024
    assert limits.header_line_bytes >= 10_240
    assert limits.header_count >= 100
    assert limits.body_bytes >= 128 * 1024 * 1024
    assert limits.undelivered_bytes >= limits.body_bytes


@pytest.mark.parametrize("value", [-1, 1.5, "5", None])
def test_limits_when_a_value_is_no_count_then_refuse_it(value: object) -> None:
    with pytest.raises(LocalProtocolError, match="limit body_bytes must be a whole number of at least 0"):
        Limits(body_bytes=value)  # type: ignore[arg-type]  # the wrong type is the test
