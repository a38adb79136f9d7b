"""Value types that are made often: plain at run time, and equal where their fields are."""

import pytest

from trio_stomp.protocol.read_only import read_only


@read_only
class Pair:
    left: int
    right: int = 2


def test_read_only_when_made_by_position_then_has_its_fields_and_defaults() -> None:
    pair = Pair(1)

    assert (pair.left, pair.right) == (1, 2)


def test_read_only_when_fields_are_equal_then_equal_with_the_same_hash() -> None:
    assert Pair(1) == Pair(1, 2) != Pair(1, 3)
    assert hash(Pair(1)) == hash(Pair(1, 2))


def test_read_only_when_an_attribute_is_no_field_then_it_cannot_be_set() -> None:
    with pytest.raises(AttributeError):
        setattr(Pair(1), "other", 3)  # noqa: B010  # the type checkers refuse the plain assignment
