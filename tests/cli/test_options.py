import ssl
from pathlib import Path
from typing import Protocol

import click
import pytest
import trustme
from click.testing import CliRunner

from trio_stomp import options_from_environment
from trio_stomp.brokers import ARTEMIS
from trio_stomp.cli.options import (
    DEFAULT_URL,
    SECONDS,
    LinkOptions,
    gathered,
    header_of,
    heart_beat_of,
    link_options,
    match_of,
)
from trio_stomp.cli.passcodes import VARIABLE, PasscodeSources
from trio_stomp.cli.running import CommandFailed, ExitCode
from trio_stomp.session import Settings


class Parse(Protocol):
    """Gives a command these arguments and variables."""

    def __call__(self, *arguments: str, **environment: str) -> LinkOptions: ...


@pytest.fixture
def parse(monkeypatch: pytest.MonkeyPatch) -> Parse:
    """The options as a command gets them."""
    for name in ("URL", "LOGIN", "PASSCODE", "PASSCODE_FILE"):
        monkeypatch.delenv(f"TRIO_STOMP_{name}", raising=False)

    def run(*arguments: str, **environment: str) -> LinkOptions:
        found: list[LinkOptions] = []

        @click.command()
        @link_options
        @click.pass_context
        def command(context: click.Context, /, **_options: object) -> None:
            found.append(gathered(LinkOptions, context))

        result = CliRunner().invoke(command, list(arguments), env=environment)
        assert result.exit_code == 0, result.output
        return found[0]

    return run


def test_options_when_none_are_given_then_the_usual_broker(parse: Parse) -> None:
    options = parse()

    assert options.url == (DEFAULT_URL,)
    assert Settings.of("stomp://a", options.connect_options(None)) == Settings.of("stomp://a", {})


def test_options_when_given_then_those_of_connect(parse: Parse) -> None:
    options = parse(
        *("-u", "stomp://a", "-u", "stomp://b", "--login", "ann", "--vhost", "test", "--heart-beat", "5,0"),
        *("--stomp-version", "1.1", "--profile", "artemis", "--connect-timeout", "3"),
        *("--connect-header", "client-id:me", "--reconnect", "--proxy", "socks5://p:1"),
        *("--websocket-message-bytes", "4096"),
    ).connect_options("x")

    assert options == {
        "connect_timeout": 3.0,
        "headers": (("client-id", "me"),),
        "login": "ann",
        "passcode": "x",
        "vhost": "test",
        "heart_beat": (5.0, 0.0),
        "versions": ("1.1",),
        "proxy": "socks5://p:1",
        "websocket_message_bytes": 4096,
        "profile": ARTEMIS,
        "tls": False,
        "reconnect": True,
    }


def test_options_when_in_the_environment_then_read_from_there(parse: Parse, tmp_path: Path) -> None:
    file = tmp_path / "passcode"
    file.write_text("y\n", "utf-8")

    assert parse(TRIO_STOMP_URL="stomp://a, stomp://b").url == ("stomp://a", "stomp://b")
    options = parse(TRIO_STOMP_URL="stomp://a stomp://b", TRIO_STOMP_LOGIN="ann", TRIO_STOMP_PASSCODE_FILE=str(file))

    assert options.url == ("stomp://a", "stomp://b")
    assert options.login == "ann"
    assert options.passcode({}) == "y"


def test_options_when_in_the_environment_then_each_means_what_it_means_to_a_program(
    parse: Parse, tmp_path: Path
) -> None:
    trustme.CA().cert_pem.write_to_path(tmp_path / "ca.pem")
    environment = {
        "TRIO_STOMP_URL": "stomps://a",
        "TRIO_STOMP_VHOST": "test",
        "TRIO_STOMP_TLS_CA_FILE": str(tmp_path / "ca.pem"),
        "TRIO_STOMP_HEART_BEAT": "10",
        "TRIO_STOMP_CONNECT_TIMEOUT": "3",
        "TRIO_STOMP_RECONNECT": "true",
        "TRIO_STOMP_PROFILE": "artemis",
        "TRIO_STOMP_PROXY": "socks5://p:1",
    }

    options, program = parse(**environment), dict(options_from_environment(environment))

    assert list(options.url) == program.pop("urls")
    command = {name: each for name, each in options.connect_options(None).items() if each not in (None, ())}
    contexts = [each.pop("tls") for each in (command, program)]
    assert [len(each.get_ca_certs()) for each in contexts if isinstance(each, ssl.SSLContext)] == [1, 1]
    assert command == program


def test_tls_when_files_are_given_then_a_context_that_trusts_them_alone(parse: Parse, tmp_path: Path) -> None:
    authority = trustme.CA()
    client = authority.issue_cert("ann@example.org")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    client.private_key_and_cert_chain_pem.write_to_path(tmp_path / "client.pem")
    files = ("--ca", str(tmp_path / "ca.pem"), "--cert", str(tmp_path / "client.pem"))

    context = parse("-u", "stomps://a", *files).tls()

    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert len(context.get_ca_certs()) == 1
    with pytest.raises(CommandFailed, match="use stomps://"):
        parse("-u", "stomp://a", *files).tls()


def test_tls_when_a_file_is_no_certificate_then_says_which(parse: Parse, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("nothing", "utf-8")

    with pytest.raises(CommandFailed, match=r"ca\.pem.*expected PEM") as caught:
        parse("-u", "stomps://a", "--ca", str(file)).tls()

    assert caught.value.code is ExitCode.USAGE


def test_tls_when_there_is_a_key_without_a_certificate_then_says_so(parse: Parse, tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.touch()

    with pytest.raises(CommandFailed, match="requires --cert"):
        parse("-u", "stomps://a", "--key", str(file)).tls()


def test_command_line_when_looked_at_then_takes_no_passcode_as_an_argument() -> None:
    @click.command()
    @link_options
    def command(**_options: object) -> None: ...

    names = {name for parameter in command.params for name in parameter.opts}

    assert "--passcode-file" in names
    assert "--passcode" not in names


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


@pytest.mark.parametrize("data", [None, b"\xffsecret"])
def test_passcode_when_the_file_cannot_be_read_then_says_so_and_shows_nothing(
    tmp_path: Path, data: bytes | None
) -> None:
    file = tmp_path / "passcode"
    if data is not None:
        file.write_bytes(data)

    with pytest.raises(CommandFailed, match="cannot be read") as caught:
        sources(file=file).find()

    assert "secret" not in str(caught.value)


def test_passcode_when_the_url_cannot_be_read_then_left_to_who_connects() -> None:
    assert sources(url="stomp://ann:x[y@host").find() is None


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
    assert heart_beat_of("10") == (10.0, 10.0)


@pytest.mark.parametrize("text", ["", "a", "a,b", "1,2,3"])
def test_heart_beat_when_it_is_none_then_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="two numbers"):
        heart_beat_of(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("3", 3.0), ("0.5", 0.5), ("500ms", 0.5), ("5s", 5.0), (" 1.5m ", 90.0), ("2h", 7200.0), ("1e1", 10.0)],
)
def test_time_when_it_has_a_unit_or_not_then_read_in_seconds(parse: Parse, text: str, seconds: float) -> None:
    assert parse("--connect-timeout", text).connect_timeout == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", "5x", "5 parsecs", "5sm", "ten"])
def test_time_when_it_is_none_then_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="expected seconds, or a time such as 500ms, 5s, 2m or 1h, got"):
        SECONDS.convert(text, None, None)


def test_time_when_it_is_zero_then_refused() -> None:
    with pytest.raises(click.BadParameter, match="not in the range"):
        SECONDS.convert("0ms", None, None)
