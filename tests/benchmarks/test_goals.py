"""Goals say whether they are reached, and only where both sides were measured."""

from __future__ import annotations

import pytest

from benchmarks.goals import GOALS, Goal, Verdict
from benchmarks.results import OURS, Results, Row

ROW = Row("a section", "a row")
OTHER = Row("a section", "another row")


def measured(ours: float, **others: float) -> Results:
    made = Results()
    made.add(ROW, OURS, ours)
    for name, value in others.items():
        made.add(ROW, name, value)
    return made


TIMES = Goal(what="receive", row=ROW, bound=5, against="slow")
MEMORY = Goal(what="memory", row=ROW, bound=50, at_most=True, unit="KiB")
COSTS = Goal(what="receive", row=ROW, bound=10, against="fast", at_most=True, inverted=True)


@pytest.mark.parametrize(
    ("goal", "results", "verdict"),
    [
        (TIMES, measured(50, slow=10), Verdict(5.0, "slow", reached=True)),
        (TIMES, measured(49, slow=10), Verdict(4.9, "slow", reached=False)),
        # The other is not installed.
        (TIMES, measured(50), None),
        # Costs: rates are turned round.
        (COSTS, measured(10, fast=90), Verdict(9.0, "fast", reached=True)),
        (COSTS, measured(10, fast=110), Verdict(11.0, "fast", reached=False)),
        # A figure itself is bounded.
        (MEMORY, measured(28), Verdict(28.0, "", reached=True)),
    ],
)
def test_verdict_when_measured_then_says_whether_the_goal_is_reached(
    goal: Goal, results: Results, verdict: Verdict | None
) -> None:
    assert goal.verdict(results) == verdict


def test_verdict_when_another_row_is_compared_then_it_is_named() -> None:
    made = measured(10)
    made.add(OTHER, OURS, 20)
    goal = Goal(what="x", row=ROW, under=OTHER, against=OURS, bound=2, at_most=True, inverted=True)

    assert goal.verdict(made) == Verdict(2.0, "another row", reached=True)


def test_text_when_read_then_has_the_bound_and_its_unit() -> None:
    assert (TIMES.text, MEMORY.text) == ("at least 5 times", "at most 50 KiB")


def test_goals_when_nothing_was_measured_then_none_has_a_verdict() -> None:
    assert [goal.verdict(Results()) for goal in GOALS] == [None] * len(GOALS)


def test_goals_when_listed_then_no_two_are_about_the_same() -> None:
    about = [(goal.what, goal.against, goal.row, goal.under) for goal in GOALS]

    assert len(set(about)) == len(about)
