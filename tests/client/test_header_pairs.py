"""Headers as users give them."""

from __future__ import annotations

import pytest

from trio_stomp.errors import LocalProtocolError
from trio_stomp.session.outgoing import header_pairs


def test_header_pairs_when_given_as_mapping_or_list_then_order_and_repeats_are_kept() -> None:
    assert header_pairs(None) == []
    assert header_pairs({"b": "1", "a": "2"}) == [("b", "1"), ("a", "2")]
    assert header_pairs([("a", "1"), ("a", "2")]) == [("a", "1"), ("a", "2")]


def test_header_pairs_when_changed_by_the_caller_later_then_a_copy_was_taken() -> None:
    given = [("a", "1")]
    taken = header_pairs(given)
    taken.append(("b", "2"))
    assert given == [("a", "1")]


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({"priority": 5}, "name and value must be str, got a value of type int; use str()"),
        ([(1, "a")], "name and value must be str"),
        ({"receipt": "r-1"}, "is set by the call itself: use receipt=True"),
        ([("transaction", "t")], "is set by the call itself: use the methods of client.transaction()"),
    ],
)
def test_header_pairs_when_they_cannot_be_sent_then_error_says_why(headers: object, why: str) -> None:
    with pytest.raises(LocalProtocolError) as raised:
        header_pairs(headers)  # type: ignore[arg-type]  # what is refused
    assert why in str(raised.value)
