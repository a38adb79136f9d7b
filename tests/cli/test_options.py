import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

import click
import pytest
import trustme
from click.testing import CliRunner

from tests.cli.conftest import Cli
from tests.cli.exit_code import ExitCode
from trio_stomp import options_from_environment
from trio_stomp.brokers import ARTEMIS
from trio_stomp.cli.commands import gathered, parameters_of
from trio_stomp.cli.count import Count
from trio_stomp.cli.options import DEFAULT_URL, VARIABLE, ConnectionOptions, Link, LinkOptions
from trio_stomp.cli.running import CommandFailed
from trio_stomp.cli.saved_contexts import SavedContext
from trio_stomp.cli.spool import Spool
from trio_stomp.client import ConnectOptions
from trio_stomp.session import Settings


class Parse(Protocol):
    """Gives a command these arguments and variables."""

    def __call__(self, *arguments: str, **environment: str) -> ConnectionOptions: ...


@pytest.fixture
def parse(monkeypatch: pytest.MonkeyPatch) -> Parse:
    """The options as a command gets them."""
    for name in ("URL", "LOGIN", "PASSCODE", "PASSCODE_FILE"):
        monkeypatch.delenv(f"TRIO_STOMP_{name}", raising=False)

    def run(*arguments: str, **environment: str) -> ConnectionOptions:
        found: list[ConnectionOptions] = []

        @click.pass_context
        def gather(context: click.Context, /, **_options: object) -> None:
            found.append(gathered(ConnectionOptions, context))

        command = click.Command("test", params=parameters_of(ConnectionOptions), callback=gather)
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


def test_options_when_in_the_environment_then_each_means_what_it_means_to_a_program(
    parse: Parse, tmp_path: Path
) -> None:
    trustme.CA().cert_pem.write_to_path(tmp_path / "ca.pem")
    (tmp_path / "passcode").write_text("y\n", "utf-8")
    environment = {
        "TRIO_STOMP_URL": "stomps://a, stomps://b stomps://c",
        "TRIO_STOMP_LOGIN": "ann",
        "TRIO_STOMP_PASSCODE_FILE": str(tmp_path / "passcode"),
        "TRIO_STOMP_VHOST": "test",
        "TRIO_STOMP_TLS_CA_FILE": str(tmp_path / "ca.pem"),
        "TRIO_STOMP_HEART_BEAT": "10",
        "TRIO_STOMP_CONNECT_TIMEOUT": "3",
        "TRIO_STOMP_RECONNECT": "true",
        "TRIO_STOMP_PROFILE": "artemis",
        "TRIO_STOMP_PROXY": "socks5://p:1",
    }

    options, program = parse(**environment), dict(options_from_environment(environment))

    assert options.url == ("stomps://a", "stomps://b", "stomps://c")
    assert list(options.url) == program.pop("urls")
    given = options.connect_options(options.passcode({}))
    command = {name: each for name, each in given.items() if each not in (None, ())}
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


@pytest.mark.parametrize(
    ("url", "options", "why"),
    [
        ("stomps://a", "--ca", "({file}): "),
        ("stomps://a", "--ca", "expected PEM"),
        ("stomps://a", "--cert", "expected PEM"),
        ("stomps://a", "--ca --cert", "({file}, {file}): "),
        ("stomps://a", "--key", "--key requires --cert"),
        ("stomp://a", "--ca", "use stomps://"),
        ("wss://a", "--ca", "expected PEM"),
    ],
)
def test_tls_when_a_file_cannot_be_used_then_says_why(
    cli: Cli, tmp_path: Path, url: str, options: str, why: str
) -> None:
    file = tmp_path / "given.pem"
    file.write_text("nothing", "utf-8")

    done = cli("ping", "-u", url, *(f"{option}={file}" for option in options.split()))

    assert done.exit_code == ExitCode.USAGE
    assert why.format(file=file) in done.stderr


def test_command_line_when_looked_at_then_takes_no_passcode_as_an_argument() -> None:
    names = {name for parameter in parameters_of(LinkOptions) for name in parameter.opts}

    assert "--passcode-file" in names
    assert "--passcode" not in names


def test_options_when_they_are_printed_then_no_secret_is_shown() -> None:
    url, secret = "stomp://ann:s3cret@a", (("token", "s3cret"),)
    printed = [
        ConnectionOptions(url=(url,), connect_header=secret, proxy="socks5://ann:s3cret@p:1"),
        Link((url,), ConnectOptions(passcode="s3cret")),
        Count(management="http://ann:s3cret@a"),
        Spool(location="s3://bucket?secret_key=s3cret", spool_option=secret),
        SavedContext({"proxy": "socks5://ann:s3cret@p:1"}),
    ]

    assert "s3cret" not in repr(printed)


def sources(
    *,
    asked_for: bool = False,
    file: Path | None = None,
    url: str = "stomp://host",
    variable: str | None = None,
    login: str | None = None,
    terminal: bool = True,
) -> Callable[[], str | None]:
    options = ConnectionOptions(ask_passcode=asked_for, passcode_file=file, url=(url,), login=login)
    environment = {} if variable is None else {VARIABLE: variable}
    return partial(options.passcode, environment, ask=(lambda text: f"answer to {text!r}") if terminal else None)


def test_passcode_when_in_a_file_then_its_first_line(tmp_path: Path) -> None:
    file = tmp_path / "passcode"
    file.write_text(" s3cret:x \nnot this\n", "utf-8")

    assert sources(file=file, variable="other")() == " s3cret:x "


def test_passcode_when_the_file_has_no_first_line_then_said_so(tmp_path: Path) -> None:
    file = tmp_path / "passcode"
    file.write_text("\ns3cret\n", "utf-8")

    with pytest.raises(CommandFailed, match="its first line is empty"):
        sources(file=file)()


def test_passcode_when_it_has_an_unusual_line_separator_then_whole(tmp_path: Path) -> None:
    file = tmp_path / "passcode"
    file.write_text("a\x0cb\u2028c\r\n", "utf-8", newline="")

    assert sources(file=file)() == "a\x0cb\u2028c"


@pytest.mark.parametrize(
    ("given", "passcode"),
    [
        pytest.param(sources(), None, id="no login"),
        pytest.param(sources(login="ann"), "answer to 'Passcode of ann'", id="a login and a terminal"),
        pytest.param(sources(login="ann", terminal=False), None, id="a login alone"),
        pytest.param(sources(url="stomp://ann@host"), "answer to 'Passcode of ann'", id="a login in the URL"),
        pytest.param(sources(url="stomp://ann@host", terminal=False), None, id="the same without a terminal"),
        pytest.param(sources(variable="x", login="ann"), "x", id="the variable before a prompt"),
        pytest.param(sources(variable="", terminal=False), None, id="an empty variable, as if it was not set"),
        pytest.param(sources(url="stomp://ann:x@host", variable="y"), None, id="the URL, where it stays, before that"),
        pytest.param(
            sources(asked_for=True, file=Path("/none"), url="stomp://ann:x@host", variable="y"),
            "answer to 'Passcode of ann'",
            id="asked for, before all others",
        ),
        pytest.param(sources(asked_for=True), "answer to 'Passcode'", id="asked for, without a login"),
        pytest.param(sources(url="stomp://ann:x[y@host"), None, id="a URL that cannot be read, left to who connects"),
    ],
)
def test_passcode_when_it_may_be_in_several_places_then_the_first_counts(
    given: Callable[[], str | None], passcode: str | None
) -> None:
    assert given() == passcode


@pytest.mark.parametrize("data", [None, b"\xffsecret"])
def test_passcode_when_the_file_cannot_be_read_then_says_so_and_shows_nothing(
    tmp_path: Path, data: bytes | None
) -> None:
    file = tmp_path / "passcode"
    if data is not None:
        file.write_bytes(data)

    with pytest.raises(CommandFailed, match="cannot be read") as caught:
        sources(file=file)()

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(("text", "pair"), [("1.5, 0", (1.5, 0.0)), ("10", (10.0, 10.0)), ("500ms,1m", (0.5, 60.0))])
def test_heart_beat_when_one_number_or_two_then_read(parse: Parse, text: str, pair: tuple[float, float]) -> None:
    assert parse("--heart-beat", text).heart_beat == pair


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("3", 3.0), ("0.5", 0.5), ("500ms", 0.5), ("5s", 5.0), (" 1.5m ", 90.0), ("2h", 7200.0), ("1e1", 10.0)],
)
def test_time_when_it_has_a_unit_or_not_then_read_in_seconds(parse: Parse, text: str, seconds: float) -> None:
    assert parse("--connect-timeout", text).connect_timeout == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("name", "meant"), [("URI", "URL"), ("LOGN", "LOGIN"), ("PASCODE", "PASSCODE"), ("MANAGMENT", "MANAGEMENT")]
)
def test_variable_when_its_name_is_misspelled_then_says_which_is_meant(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, name: str, meant: str
) -> None:
    monkeypatch.setenv(f"TRIO_STOMP_{name}", "s3cret")

    done = cli("count", "a", "--management", "http://127.0.0.1:1")

    assert done.exit_code == ExitCode.USAGE
    assert f"no environment variable TRIO_STOMP_{name}; did you mean TRIO_STOMP_{meant}?" in done.stderr
    assert "s3cret" not in done.stderr


@pytest.mark.parametrize("arguments", [("doctor",), ("ping",), ("count", "a", "--management", "http://127.0.0.1:1")])
@pytest.mark.parametrize("url", [" ", ","])
def test_variable_when_it_names_no_broker_then_said_so(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], url: str
) -> None:
    monkeypatch.setenv("TRIO_STOMP_URL", url)

    done = cli(*arguments)

    assert (done.exit_code, done.stdout) == (ExitCode.USAGE, "")
    assert "TRIO_STOMP_URL names no broker" in done.stderr


def test_variables_when_programs_or_other_commands_read_them_then_let_be(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TIMEOUT", "DISCONNECT_TIMEOUT", "MANAGEMENT", "OF_MY_OWN"):
        monkeypatch.setenv(f"TRIO_STOMP_{name}", "5")

    assert cli("ping", "--count", "1").exit_code == 0
