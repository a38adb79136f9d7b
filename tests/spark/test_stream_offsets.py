import json
from dataclasses import replace

import pytest

from trio_stomp.spark.stream_offsets import Offset, checked, offset_of


def test_offset_when_read_from_a_checkpoint_then_as_it_was() -> None:
    offset = Offset(spool="6f1c02aa97d3b184", rows={"b": 0, "a": 12}, retired=3)
    printed = offset_of("/queue/a", offset)

    assert checked(json.loads(json.dumps(printed)), "/queue/a") == offset
    assert json.dumps(printed) == json.dumps(offset_of("/queue/a", replace(offset, rows={"a": 12, "b": 0})))


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"destination": "/queue/b", "rows": {}, "version": 1}, "the checkpoint is of '/queue/b', and the query reads"),
        ({"0": 12, "1": 13}, "was written by an earlier version of trio_stomp"),
        ({"destination": "/queue/a", "rows": {}, "version": 1}, "was written by an earlier version of trio_stomp"),
        ({"destination": "/queue/a", "rows": {}, "version": 3}, "is of another source, or of a newer version"),
        ({"destination": "/queue/a", "version": 2}, "is of another source"),
        ({"partition-0": 3}, "is of another source"),
        ({}, "is of another source"),
    ],
)
def test_offset_when_not_of_this_stream_then_refused(found: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        checked(found, "/queue/a")
