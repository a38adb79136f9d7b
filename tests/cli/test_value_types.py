import click
import pytest

from trio_stomp.cli.value_types import header_of, heart_beat_of, match_of


@pytest.mark.parametrize(
    ("text", "pair"), [("priority:9", ("priority", "9")), ("url: http://x", ("url", "http://x")), ("a:", ("a", ""))]
)
def test_header_when_written_with_a_colon_then_split_at_the_first(text: str, pair: tuple[str, str]) -> None:
    assert header_of(text) == pair
    assert header_of(pair) == pair


@pytest.mark.parametrize("text", ["priority", ":9", " : 9"])
def test_header_when_it_is_none_then_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="NAME:VALUE"):
        header_of(text)


def test_match_when_written_with_an_equals_sign_then_split() -> None:
    assert match_of("kind=a=b") == ("kind", "a=b")
    with pytest.raises(click.BadParameter, match="NAME=VALUE"):
        match_of("kind:a")


def test_heart_beat_when_two_numbers_then_read() -> None:
    assert heart_beat_of("1.5, 0") == (1.5, 0.0)
    assert heart_beat_of((1.0, 2.0)) == (1.0, 2.0)


@pytest.mark.parametrize("text", ["10", "a,b", "1,2,3"])
def test_heart_beat_when_it_is_none_then_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="two numbers"):
        heart_beat_of(text)
