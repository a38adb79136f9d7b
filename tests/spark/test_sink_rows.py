from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pytest

from trio_stomp import OutgoingMessage
from trio_stomp.spark.sink_identity import OrdinalIds
from trio_stomp.spark.sink_rows import Messages, RowRules

RULES = RowRules(destination="/queue/a", headers={"persistent": "true", "content-type": "text/csv"})
MAP = pa.map_(pa.string(), pa.string())


def turned(batch: pa.RecordBatch, rules: RowRules = RULES, *, ids: bool = False) -> list[OutgoingMessage]:
    messages = Messages(rules, "dedup-id", OrdinalIds("t") if ids else None)
    return [message for chunk in messages.chunks(batch) for message in chunk]


def test_rows_when_they_say_everything_then_they_go_before_the_rules() -> None:
    batch = pa.record_batch(
        {
            "body": pa.array(["text"], pa.string()),
            "destination": pa.array(["/topic/b"]),
            "content_type": pa.array(["text/plain"]),
            "headers": pa.array([[("persistent", "no"), ("x", "y")]], MAP),
            "dedup_id": pa.array(["own"]),
        }
    )

    (message,) = turned(batch, ids=True)

    assert message == OutgoingMessage(
        "/topic/b", "text", headers={"persistent": "no", "x": "y", "dedup-id": "own"}, content_type="text/plain"
    )


def test_rows_when_columns_are_null_then_the_rules_say_it() -> None:
    batch = pa.record_batch(
        {
            "body": pa.array([b""], pa.binary()),
            "destination": pa.array([None], pa.string()),
            "content_type": pa.array([None], pa.string()),
            "headers": pa.array([None], MAP),
            "dedup_id": pa.array([None], pa.string()),
        }
    )

    (message,) = turned(batch, ids=True)

    assert message == OutgoingMessage("/queue/a", b"", headers={**RULES.headers, "dedup-id": "t.0"})


def test_chunks_when_rows_are_many_or_large_then_they_are_bounded() -> None:
    small = pa.record_batch({"body": pa.array([b"x"] * 4500, pa.binary())})
    large = pa.record_batch({"body": pa.array([bytes(600_000)] * 3, pa.binary())})
    messages = Messages(RULES, "dedup-id", None)

    assert [len(chunk) for chunk in messages.chunks(small)] == [2000, 2000, 500]
    assert [len(chunk) for chunk in messages.chunks(large)] == [1, 1, 1]
    assert list(messages.chunks(small.slice(0, 0))) == []
    assert messages.rows == 4503


def with_header(name: str) -> pa.RecordBatch:
    return pa.record_batch(
        {"body": pa.array([b"1"]), "headers": pa.array([[("content-length", "1"), (name, "x")]], MAP)}
    )


# Made in the test: with its first array, pyarrow imports pandas.
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: pa.record_batch({"body": pa.array([b"1", None], pa.binary())}),
            "row 2 of this task cannot be sent: its body is null",
        ),
        (
            lambda: pa.record_batch({"body": pa.array([b"1"]), "headers": pa.array([[("a", None)]], MAP)}),
            "row 1 of this task cannot be sent: its headers hold a null",
        ),
        (
            lambda: pa.record_batch({"body": pa.array([b"1", b"2"]), "dedup_id": pa.array(["x", ""])}),
            "row 2 of this task cannot be sent: its id is empty",
        ),
        (
            lambda: pa.record_batch({"body": pa.array([b"1"]), "destination": pa.array([""])}),
            "row 1 of this task cannot be sent: its destination is empty",
        ),
        *(
            (
                partial(with_header, name),
                f"row 1 of this task cannot be sent: its headers hold '{name}'; .* take map_filter.headers, .*'{name}'",
            )
            for name in ("destination", "receipt", "transaction")
        ),
    ],
)
def test_row_when_it_cannot_be_sent_then_the_error_says_which_and_why(
    make: Callable[[], pa.RecordBatch], said: str
) -> None:
    batch = make()

    with pytest.raises(ValueError, match=said):
        turned(batch)


def test_row_when_nothing_says_where_to_then_refused() -> None:
    with pytest.raises(ValueError, match="its destination is null"):
        turned(pa.record_batch({"body": pa.array([b"1"])}), RowRules(destination=None))
