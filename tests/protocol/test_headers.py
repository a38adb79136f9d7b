from __future__ import annotations

import pytest

from trio_stomp.types import Headers

REPEATED = Headers([("a", "1"), ("b", "2"), ("a", "3")])
UNIQUE = Headers([("b", "2"), ("a", "1")])


def test_headers_when_a_name_repeats_then_the_first_counts_and_all_are_kept_in_order() -> None:
    """Rows 12-REP-1, 11-REP-1, 10-REP-3."""
    assert REPEATED["a"] == "1"
    assert REPEATED.get("a") == "1"
    assert dict(REPEATED) == REPEATED.first() == {"a": "1", "b": "2"}
    assert len(REPEATED) == 2
    assert REPEATED.pairs == (("a", "1"), ("b", "2"), ("a", "3"))
    assert REPEATED.get_all("a") == ("1", "3")


def test_pairs_when_nothing_repeats_then_keep_the_order_of_the_wire() -> None:
    assert UNIQUE.pairs == (("b", "2"), ("a", "1"))
    assert list(UNIQUE) == ["b", "a"]


@pytest.mark.parametrize("name", ["c", "A"])
def test_lookup_when_the_name_is_absent_or_in_another_case_then_gives_the_default(name: str) -> None:
    """Rows 1x-FRM-7, 10-FRM-7."""
    assert UNIQUE.get(name) is None
    assert UNIQUE.get(name, "x") == "x"
    assert UNIQUE.get_all(name) == ()
    assert name not in UNIQUE
    with pytest.raises(KeyError):
        UNIQUE[name]


@pytest.mark.parametrize(("names", "there"), [({"a", "b"}, True), ({"a", "c"}, False), (set[str](), True)])
def test_has_all_when_asked_then_tells_whether_each_is_there(names: set[str], there: bool) -> None:
    assert UNIQUE.has_all(frozenset(names)) is there


def test_headers_when_made_of_a_mapping_then_have_its_items() -> None:
    assert Headers({"b": "2", "a": "1"}) == Headers(UNIQUE) == Headers((), {"b": "2", "a": "1"}) == UNIQUE
    assert Headers() == Headers({})


def test_equality_when_order_or_repeats_differ_then_is_false_between_headers() -> None:
    assert Headers([("a", "1"), ("b", "2")]) != UNIQUE
    assert Headers([("a", "1"), ("b", "2")]) != REPEATED
    assert hash(Headers([("b", "2"), ("a", "1")])) == hash(UNIQUE)


def test_equality_when_compared_with_a_mapping_then_looks_at_the_entries_in_force() -> None:
    assert REPEATED == {"a": "1", "b": "2"}
    assert REPEATED != {"a": "3", "b": "2"}
    assert REPEATED != [("a", "1")]


@pytest.mark.parametrize("name", ["passcode", "Passcode", "PASSWORD", "authorization", "ssl-key-password"])
def test_repr_when_a_header_is_secret_then_hides_its_value(name: str) -> None:
    shown = repr(Headers([("login", "guest"), (name, "s3cret")]))

    assert "s3cret" not in shown
    assert "'login', 'guest'" in shown
    assert "[redacted]" in shown
