import pytest

from tests.cli.delivering import delivered
from trio_stomp.cli.exit_codes import CommandFailed, ExitCode
from trio_stomp.cli.message_filter import MessageFilter


@pytest.mark.parametrize(
    ("match", "grep", "chosen"),
    [
        ((), None, True),
        ((("shop", "7"),), None, True),
        ((("shop", "8"),), None, False),
        ((("shop", "7"), ("kind", "x")), None, False),
        ((), "t.a$", True),
        ((), "ä", False),
        ((("shop", "7"),), "coffee", False),
    ],
)
async def test_filter_when_given_a_message_then_all_of_it_must_hold(
    match: tuple[tuple[str, str], ...], grep: str | None, chosen: bool
) -> None:
    message = await delivered({"shop": "7"}, b"green tea")
    found = MessageFilter.of(match, grep)

    assert found.chooses(message) is chosen
    assert bool(found) is bool(match or grep)


def test_filter_when_the_expression_is_none_then_said_so() -> None:
    with pytest.raises(CommandFailed, match="--grep is no regular expression") as caught:
        MessageFilter.of((), "(")

    assert caught.value.code is ExitCode.USAGE
