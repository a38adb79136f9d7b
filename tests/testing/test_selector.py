import pytest

from trio_stomp.testing.refusals import Refusal
from trio_stomp.testing.selector import Selector


@pytest.mark.parametrize(
    ("selector", "headers"),
    [
        ("kind = 'order'", [("kind", "order")]),
        ("kind='order'", [("kind", "order"), ("kind", "other")]),
        (" kind = 'it''s' ", [("kind", "it's")]),
        ("kind = ''", [("kind", "")]),
        ("n = 5", [("n", "5")]),
        ("n = -5.0", [("n", "-5")]),
        ("a = 'x' AND b = 2", [("b", "2"), ("a", "x")]),
        ("a = 'x' and b = 2 AND my-header = 'y'", [("b", "2"), ("a", "x"), ("my-header", "y")]),
        ("a = 'x'AND b = 2", [("b", "2"), ("a", "x")]),
    ],
)
def test_selector_when_headers_fit_then_matches(selector: str, headers: list[tuple[str, str]]) -> None:
    assert Selector.parse(selector).matches(headers)


@pytest.mark.parametrize(
    ("selector", "headers"),
    [
        ("kind = 'order'", []),
        ("kind = 'order'", [("kind", "Order")]),
        ("kind = 'order'", [("kind", "other"), ("kind", "order")]),
        ("kind = '5'", [("kind", "5.0")]),
        ("n = 5", [("n", "6")]),
        ("n = 5", [("n", "five")]),
        ("a = 'x' AND b = 2", [("a", "x")]),
    ],
)
def test_selector_when_headers_differ_then_does_not_match(selector: str, headers: list[tuple[str, str]]) -> None:
    assert not Selector.parse(selector).matches(headers)


@pytest.mark.parametrize(
    "selector",
    ["", "kind", "kind =", "kind <> 'a'", "kind = 'a' OR b = 2", "n > 5", "kind = 'a' AND", "kind = 'a", "n = 5x"],
)
def test_selector_when_not_equalities_then_refused(selector: str) -> None:
    with pytest.raises(Refusal, match="selector not supported"):
        Selector.parse(selector)
