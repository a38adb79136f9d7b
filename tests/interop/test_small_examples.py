"""The examples say the same at every broker as at the embedded one."""

from __future__ import annotations

import dead_letters
import fan_out
import pytest
import request_reply

from tests.interop.broker_facts import Broker


def test_fan_out_when_at_a_real_broker_then_everybody_gets_the_news_and_one_each_parcel(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    fan_out.main(["--url", broker.url()])

    lines = capsys.readouterr().out.splitlines()
    assert sum(" reads: " in line for line in lines) == len(fan_out.READERS) * len(fan_out.HEADLINES)
    assert lines[-1] == "12 parcels packed, 12 different ones"


def test_dead_letters_when_at_a_real_broker_then_only_what_makes_no_sense_is_left(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    dead_letters.main(["--url", broker.url()])

    lines = capsys.readouterr().out.splitlines()
    after = lines[lines.index("-- the warehouse opens") + 1 :]
    assert {"packed 3 coffee", "packed 4 coffee"} <= set(after)
    assert [line for line in after if line.startswith("dead letter: ")] == [after[-1]]
    assert after[-1].startswith("dead letter: a unicorn, please (attempt 1: ")


def test_request_reply_when_at_a_real_broker_then_each_question_is_answered(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    request_reply.main(["--url", broker.url()])

    assert sorted(capsys.readouterr().out.splitlines()) == [f"twice {number} is {2 * number}" for number in range(5)]
