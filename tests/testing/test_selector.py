"""Selectors: what they match, against SQLite, and what they refuse."""

import contextlib
import sqlite3
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trio_stomp.testing import Refusal
from trio_stomp.testing.selector import Selector

HEADERS = {
    "color": "red",
    "n": "5",
    "f": "2.5",
    "flag": "true",
    "big": "10",
    "text": "it's",
    "percent": "50%",
    "under": "a_b",
    "empty": "",
    "my-header": "y",
    "correlation-id": "c1",
    "type": "t1",
    "priority": "7",
}

# Condition, whether ActiveMQ Classic 6.1 matches, whether Artemis 2.44 does: as they answered over STOMP.
# `tests/interop/test_embedded_alike.py` asks them again.
ANSWERS = [
    ("color = 'red'", True, True),
    ("color = 'RED'", False, False),
    ("COLOR = 'red'", False, False),
    ("'red' = color", True, True),
    ("text = 'it''s'", True, True),
    ("empty = ''", True, True),
    ("empty IS NULL", False, False),
    ("n = 5", True, False),
    ("n = 5.0", True, False),
    ("n = '5'", True, True),
    ("n = '5.0'", False, False),
    ("n <> 5", False, True),
    ("color <> 5", True, True),
    ("NOT (color = 5)", True, True),
    ("color > 5", False, False),
    ("n > 4 AND n < 10", True, False),
    ("big > 9", True, False),
    ("n < 5.5", True, False),
    ("n > -5", True, False),
    ("n > big", True, True),
    ("flag = TRUE", True, False),
    ("flag = 'true'", True, True),
    ("flag <> FALSE", True, True),
    ("color = TRUE", False, False),
    ("flag", False, False),
    ("NOT flag", True, True),
    ("missing = 5", False, False),
    ("missing <> 5", False, False),
    ("NOT (missing = 5)", False, False),
    ("missing IS NULL", True, True),
    ("color IS NOT NULL", True, True),
    ("missing = 5 OR color = 'red'", True, True),
    ("missing = 5 AND color = 'red'", False, False),
    ("NOT (missing = 5 AND color = 'blue')", True, True),
    ("NOT (missing = 5 OR color = 'blue')", False, False),
    ("missing IN ('a')", False, False),
    ("missing NOT IN ('a')", False, False),
    ("missing LIKE 'a%'", False, False),
    ("missing NOT LIKE 'a%'", False, False),
    ("missing NOT BETWEEN 1 AND 2", False, False),
    ("color IN ('red','blue')", True, True),
    ("color NOT IN ('blue')", True, True),
    ("n IN ('5')", True, True),
    ("n BETWEEN 4 AND 6", True, False),
    ("n BETWEEN 6 AND 4", False, False),
    ("n NOT BETWEEN 4 AND 6", False, False),
    ("color LIKE 'r%'", True, True),
    ("color LIKE 'r_d'", True, True),
    ("color LIKE '_'", False, False),
    ("color NOT LIKE 'b%'", True, True),
    ("color LIKE '%e%'", True, True),
    ("color LIKE 'red_'", False, False),
    ("color LIKE 'r.d'", False, False),
    ("percent LIKE '50!%' ESCAPE '!'", True, True),
    ("under LIKE 'a\\_b' ESCAPE '\\'", True, True),
    ("color LIKE 'r\\_d' ESCAPE '\\'", False, False),
    ("7 / 2 = 3.5", True, True),
    ("7 % 2 = 1 AND -7 % 2 = -1", True, True),
    ("1 + 2 * 3 = 7 AND 1 - 1 - 1 = -1", True, True),
    ("1 / 0 = 1", False, False),
    ("color + 'x' = 'redx'", True, True),
    ("n = 5L", True, False),
    ("n = 0x5 AND n = 05 AND n = .5e1 AND n = 5.", True, False),
    ("color = 'red' OR n = 6 AND n = 7", True, True),
    ("(color = 'red' OR n = 6) AND n = 7", False, False),
    ("n=5and(color='red')", True, False),
    ("color is not null", True, True),
    ("TRUE", True, True),
    ("NOT TRUE", False, False),
    ("(n = 5) = TRUE", True, False),
    ("JMSCorrelationID = 'c1' AND JMSType = 't1'", True, True),
    ("my-header = 'y'", False, False),
    ("$x IS NULL AND _y IS NULL", True, True),
]

# Refused by both, and the column at which we say so.
REFUSED = [
    ("", 1),
    ("n =", 4),
    ("= 5", 1),
    ("n = 5 AND", 10),
    ("(n = 5", 7),
    ("n = 5)", 6),
    ("n 5", 3),
    ("n BETWEEN 5", 12),
    ("color LIKE 5", 12),
    ("color IN (5)", 11),
    ("color IN ()", 11),
    ("color IN ('red',)", 17),
    ("missing IS", 11),
    ("color = 'red", 9),
    ("n NOT = 5", 7),
    ("color > 'blue'", 9),
    ("flag > FALSE", 8),
    ("color BETWEEN 'a' AND 'z'", 15),
    ("NULL = NULL", 1),
    ("n == 5", 4),
    ("n != 5", 3),
    ("a.b = 'd'", 2),
    ("5", 1),
    ("'x'", 1),
    ("n = 5x", 6),
    ("color LIKE '%' ESCAPE 'xx'", 23),
    ("n = 9223372036854775808", 5),
]


def matches(selector: str, headers: dict[str, str], *, converts: bool = True) -> bool:
    return Selector.parse(selector, converts=converts).matches(headers.items())


@pytest.mark.parametrize(("selector", "activemq", "artemis"), ANSWERS)
def test_selector_when_brokers_were_asked_then_answers_as_they_did(
    selector: str, activemq: bool, artemis: bool
) -> None:
    assert matches(selector, HEADERS) is activemq
    assert matches(selector, HEADERS, converts=False) is artemis


@pytest.mark.parametrize(("selector", "column"), REFUSED)
def test_selector_when_it_makes_no_sense_then_refused_at_the_column(selector: str, column: int) -> None:
    with pytest.raises(Refusal, match="selector refused") as raised:
        Selector.parse(selector)

    first, shown, pointer = raised.value.details.splitlines()
    assert first.startswith(f"column {column}: ")
    assert shown == selector
    assert pointer == " " * (column - 1) + "^"


def test_selector_when_told_to_convert_then_does_so_where_the_broker_does_not() -> None:
    assert matches("convert_string_expressions:n = 5", HEADERS, converts=False)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [("NOT color = 'blue'", True), ("NOT missing IS NULL", False), ("n - -1 = 6", False), ("f >= 2.5", True)],
)
def test_selector_when_brokers_depart_from_sql_then_follows_sql(selector: str, expected: bool) -> None:
    """They read NOT a = b as (NOT a) = b; ActiveMQ refuses a SEND for arithmetic with text."""
    assert matches(selector, HEADERS) is expected


def test_selector_when_a_header_is_repeated_then_the_first_counts() -> None:
    assert Selector.parse("a = '1'").matches([("a", "1"), ("a", "2")])


def test_selector_when_header_is_no_sensible_number_then_compares_as_false() -> None:
    assert not matches("n > 1", {"n": "9" * 5000})
    assert not matches("n > 1", {"n": "1_000"})
    assert not matches("n > 1", {"n": "nan"})


def nested(depth: int) -> str:
    return "(" * depth + "n = 5" + ")" * depth


@pytest.mark.parametrize(
    "selector",
    [
        nested(200),
        "NOT " * 200 + "n = 5",
        "n = " + "- " * 200 + "5",
        "n" + " = 5" * 200,
        "n" + " IS NULL" * 200,
    ],
)
def test_selector_when_nested_too_deep_then_refused(selector: str) -> None:
    assert matches(nested(30), HEADERS)

    with pytest.raises(Refusal, match="selector refused") as raised:
        Selector.parse(selector)

    assert "nested at most" in raised.value.details


@pytest.mark.parametrize(
    "selector",
    [
        "n=5 OR " * 580 + "n=5",
        "n = 1" + "+1" * 2000,
        "color IN (" + "'x'," * 1000 + "'y')",
        "color LIKE '" + "%a" * 2000 + "'",
        "color LIKE '" + "_" * 4000 + "'",
        "(" * 4000,
        "'" * 4001,
        " " * 4000 + "?",
    ],
)
def test_selector_when_as_long_as_may_be_then_takes_no_time(selector: str) -> None:
    def seconds() -> float:
        started = time.thread_time()
        with contextlib.suppress(Refusal):
            matches(selector, {"n": "5", "color": "a" * 60_000})
        return time.thread_time() - started

    # The garbage of other tests may be collected meanwhile.
    assert min(seconds() for _ in range(3)) < 1


def test_selector_when_too_long_then_refused() -> None:
    with pytest.raises(Refusal, match="selector refused") as raised:
        Selector.parse("n = 5 OR " * 1000)

    assert "at most 4096 characters" in raised.value.details


# --- against SQLite ---------------------------------------------------------------------------------------------------

# Where all values are of one type, SQL-92 is what SQLite has: three values of truth, LIKE, IN, BETWEEN, IS NULL.
_NUMBERS = st.sampled_from(["i", "j", "absent", "0", "1", "2", "7", "2.5"])
_TEXTS = st.sampled_from(["s", "t", "gone", "'a'", "'ab'", "'%'", "''"])


@st.composite
def _comparisons(draw: st.DrawFn) -> str:
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return f"{draw(_sums())} {draw(st.sampled_from(['=', '<>', '<', '<=', '>', '>=']))} {draw(_sums())}"
    if kind == 1:
        return f"{draw(_TEXTS)} {draw(st.sampled_from(['=', '<>']))} {draw(_TEXTS)}"
    if kind == 2:
        negated = draw(st.sampled_from(["", "NOT "]))
        return f"{draw(_sums())} {negated}BETWEEN {draw(_NUMBERS)} AND {draw(_NUMBERS)}"
    name, negated = draw(st.sampled_from(["s", "t", "gone"])), draw(st.sampled_from(["", "NOT "]))
    if kind == 3:
        return f"{name} {negated}IN ({', '.join(draw(st.lists(st.sampled_from(_LITERALS), min_size=1)))})"
    if kind == 4:
        return f"{name} {negated}LIKE '{draw(st.text('ab%_', max_size=5))}'"
    return f"{name} IS {negated}NULL"


_LITERALS = ["'a'", "'ab'", "'b'", "''"]


@st.composite
def _sums(draw: st.DrawFn) -> str:
    first = draw(_NUMBERS)
    for _ in range(draw(st.integers(0, 2))):
        first += f" {draw(st.sampled_from(['+', '-', '*']))} {draw(_NUMBERS)}"
    return first


_CONDITIONS = st.recursive(
    _comparisons(),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" AND ", " OR "]), inner).map("".join),
        inner.map("({})".format),
        inner.map("NOT ({})".format),
    ),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def sqlite() -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.execute("PRAGMA case_sensitive_like = ON")
        yield database


@settings(max_examples=200, deadline=None)
@given(condition=_CONDITIONS, i=st.integers(-3, 9), s=st.text("ab%", max_size=3), t=st.text("ab", max_size=2))
def test_selector_when_values_have_one_type_then_agrees_with_sqlite(
    sqlite: sqlite3.Connection, condition: str, i: int, s: str, t: str
) -> None:
    row = {"i": i, "j": 2.5, "absent": None, "s": s, "t": t, "gone": None}
    columns = ", ".join(f":{name} AS {name}" for name in row)
    found = sqlite.execute(f"SELECT 1 FROM (SELECT {columns}) WHERE {condition}", row).fetchone()  # noqa: S608  # the condition is generated here
    # Headers are text: numbers are written into the condition, as JMS knows them.
    numbered = " ".join(
        {"i": f"({i})", "j": "2.5"}.get(word, word)
        for word in condition.replace("(", "( ").replace(")", " )").split(" ")
    )

    assert matches(numbered, {"s": s, "t": t}) is (found is not None)
