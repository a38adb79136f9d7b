import dataclasses

import pytest

from trio_stomp.testing import (
    AnswerConnect,
    DelayReceipts,
    DropLink,
    DuplicateReceipts,
    HalfOpen,
    RefuseConnection,
    ReverseReceipts,
    SlowWriting,
    StallReading,
    StallWriting,
    SwallowReceipts,
)
from trio_stomp.types import Command

RULES = [
    RefuseConnection(),
    AnswerConnect(error="no"),
    DropLink(after_sent_bytes=1),
    StallReading(after_bytes=1),
    StallWriting(after_bytes=1),
    HalfOpen(after_received_bytes=1),
    SlowWriting(bytes_per_second=1),
    SwallowReceipts(command=Command.SEND),
    DelayReceipts(seconds=1),
    DuplicateReceipts(skip=1),
    ReverseReceipts(group=3),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_rule_when_made_then_is_data_that_compares(rule: object) -> None:
    assert dataclasses.is_dataclass(rule)
    assert not isinstance(rule, type)
    assert rule == dataclasses.replace(rule)
    assert len({rule, dataclasses.replace(rule)}) == 1


def test_receipt_rule_when_nothing_is_said_then_concerns_the_next_one_of_any_command() -> None:
    rule = SwallowReceipts()

    assert (rule.command, rule.skip, rule.count) == (None, 0, 1)
    assert ReverseReceipts().count is None
