"""The exponent tells linear growth from worse, whatever the constant part is."""

from __future__ import annotations

import pytest

from benchmarks.contestants.ours_growth import exponent

SIZES = [float(1 << shift) for shift in range(4, 14)]


@pytest.mark.parametrize("power", [0, 1, 2])
def test_exponent_when_costs_grow_by_a_power_then_it_is_that_power(power: int) -> None:
    assert exponent([(size, 3e-6 * size**power) for size in SIZES]) == pytest.approx(power, abs=1e-9)


def test_exponent_when_a_quadratic_part_is_hidden_by_a_constant_then_it_is_found() -> None:
    assert exponent([(size, 1e-3 + 1e-9 * size**2) for size in SIZES]) > 1.3


def test_exponent_when_linear_with_a_constant_part_then_it_is_at_most_one() -> None:
    assert exponent([(size, 1e-5 + 1e-8 * size) for size in SIZES]) <= 1
