"""Failed orders are dead-lettered with their reason, and replayed once the reason is gone."""

from __future__ import annotations

import dead_letters
import pytest

from tests.examples.started import lines_of
from trio_stomp.testing import run_broker_in_thread

POISON = "dead letter: a unicorn, please (attempt 1: invalid literal for int() with base 10: 'a')"
CLOSED = "attempt 3: there is no coffee before two o'clock"


def test_dead_letters_when_run_by_itself_then_only_what_makes_no_sense_is_left() -> None:
    lines = lines_of("dead_letters.py")

    before, after = lines[: lines.index("-- the warehouse opens")], lines[lines.index("-- the warehouse opens") + 1 :]
    # Which of several orders is handled first is chance.
    assert sorted(before[:6]) == [
        "dead-lettered: 3 coffee",
        "dead-lettered: 4 coffee",
        "dead-lettered: a unicorn, please",
        "packed 1 tea",
        "packed 2 tea",
        "packed 5 tea",
    ]
    assert before[6:] == [f"dead letter: 3 coffee ({CLOSED})", f"dead letter: 4 coffee ({CLOSED})", POISON]
    assert sorted(after[:-1]) == [
        "packed 3 coffee",
        "packed 4 coffee",
        "replayed: 3 coffee",
        "replayed: 4 coffee",
    ]
    assert after[-1] == POISON


def test_dead_letters_when_given_a_broker_then_that_one_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    with run_broker_in_thread() as broker:
        dead_letters.main(["--url", broker.url])

        assert broker.call(lambda inner: inner.statistics()).connections == 1

    assert capsys.readouterr().out.splitlines()[-1] == POISON
