from pathlib import Path

import pytest

from trio_stomp.cli.exit_codes import CommandFailed, ExitCode
from trio_stomp.cli.passcodes import VARIABLE, PasscodeSources


def sources(
    *,
    asked_for: bool = False,
    file: Path | None = None,
    url: str = "stomp://host",
    variable: str | None = None,
    login: str | None = None,
    terminal: bool = True,
) -> PasscodeSources:
    return PasscodeSources(
        asked_for=asked_for,
        file=file,
        urls=(url,),
        environment={} if variable is None else {VARIABLE: variable},
        login=login,
        prompt=(lambda text: f"answer to {text!r}") if terminal else None,
    )


def test_passcode_when_in_a_file_then_its_first_line(tmp_path: Path) -> None:
    file = tmp_path / "passcode"
    file.write_text(" s3cret:x \nnot this\n", "utf-8")

    assert sources(file=file, variable="other").find() == " s3cret:x "


def test_passcode_when_in_the_url_then_left_there() -> None:
    assert sources(url="stomp://ann:x@host", variable="other").find() is None


def test_passcode_when_in_the_environment_then_found() -> None:
    assert sources(variable="x", login="ann").find() == "x"


def test_passcode_when_asked_for_then_before_all_others(tmp_path: Path) -> None:
    found = sources(asked_for=True, file=tmp_path / "none", url="stomp://ann:x@host", variable="y").find()

    assert found == "answer to 'Passcode of ann'"


@pytest.mark.parametrize(("login", "url"), [("ann", "stomp://host"), (None, "stomp://ann@host")])
def test_passcode_when_somebody_is_named_and_it_is_nowhere_then_asked_for(login: str | None, url: str) -> None:
    assert sources(login=login, url=url).find() == "answer to 'Passcode of ann'"
    assert sources(login=login, url=url, terminal=False).find() is None


def test_passcode_when_nobody_is_named_then_none() -> None:
    assert sources().find() is None


def test_passcode_when_nobody_can_be_asked_then_says_what_to_do() -> None:
    with pytest.raises(CommandFailed, match="--passcode-file") as caught:
        sources(asked_for=True, terminal=False).find()

    assert caught.value.code is ExitCode.USAGE


@pytest.mark.parametrize("octets", [None, b"\xffsecret"])
def test_passcode_when_the_file_cannot_be_read_then_says_so_and_shows_nothing(
    tmp_path: Path, octets: bytes | None
) -> None:
    file = tmp_path / "passcode"
    if octets is not None:
        file.write_bytes(octets)

    with pytest.raises(CommandFailed, match="cannot be read") as caught:
        sources(file=file).find()

    assert "secret" not in str(caught.value)


def test_passcode_when_the_url_cannot_be_read_then_left_to_who_connects() -> None:
    assert sources(url="stomp://ann:x[y@host").find() is None
