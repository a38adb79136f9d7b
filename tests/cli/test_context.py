# The package keyring may not be installed.
# mypy: disable-error-code="misc, name-defined"

import json
import os
import shlex
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, bodies
from tests.cli.exit_code import ExitCode
from tests.cli.processes import PATIENCE, OnTerminal
from tests.kit.full_disk import file_size_limit
from trio_stomp.cli.running import CommandFailed
from trio_stomp.cli.saved_contexts import ContextStore, PasscodePlace
from trio_stomp.testing import BrokerOptions, ThreadedBroker

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="modes of files mean nothing on Windows")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the fixture `cli` has the user's settings."""
    return tmp_path / "settings" / "trio-stomp"


@pytest.fixture
def without_url(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run ``trio-stomp`` without a URL from the environment."""
    monkeypatch.delenv("TRIO_STOMP_URL")
    return cli


def test_context_when_added_then_the_commands_connect_by_its_name(
    without_url: Cli, stomp_broker_thread: ThreadedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli = without_url
    options = ("--connect-header", "x:y", "--heart-beat", "5,0", "--connect-timeout", "60s")
    added = cli("context", "add", "here", "--url", stomp_broker_thread.url.replace("guest:guest@", ""), *options)
    by_option = cli("send", "/queue/a", "one", "--context", "here")
    monkeypatch.setenv("TRIO_STOMP_CONTEXT", "here")
    by_variable = cli("send", "/queue/a", "two")
    monkeypatch.delenv("TRIO_STOMP_CONTEXT")
    cli("context", "use", "here")
    by_use = cli("send", "/queue/a", "three")

    for done in (added, by_option, by_variable, by_use):
        assert (done.exit_code, done.output) == (0, "")
    assert bodies(stomp_broker_thread) == [b"one", b"two", b"three"]


def test_context_when_listed_and_shown_then_the_one_in_use_is_marked(without_url: Cli) -> None:
    cli = without_url
    headers = ("--connect-header", "x:y", "--connect-header", "client-id:me")
    cli("context", "add", "a", "-u", "stomp://a", "-u", "stomp://b", "--heart-beat", "5,0", *headers)
    cli("context", "add", "b", "-u", "stomp://c", "--login", "ann", "-v")
    cli("context", "use", "b")

    listed = cli("context", "list").stdout
    as_json = [json.loads(line) for line in cli("context", "list", "--json").stdout.splitlines()]
    shown = cli("context", "show", "a").stdout

    assert listed == "  a               stomp://a stomp://b\n* b               stomp://c\n"
    options = {"url": "stomp://a stomp://b", "heart_beat": "5.0 0.0", "connect_header": "x:*** client-id:me"}
    assert as_json == [
        {"name": "a", "in_use": False, "options": options, "passcode": "none"},
        {"name": "b", "in_use": True, "options": {"url": "stomp://c", "login": "ann"}, "passcode": "none"},
    ]
    assert shown == (
        "name: a\nurl: stomp://a stomp://b\nheart-beat: 5.0 0.0\nconnect-header: x:*** client-id:me\n"
        "passcode: not saved\n"
    )


def test_context_when_added_then_its_file_has_what_was_given_and_nothing_of_the_environment(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "ca.pem").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRIO_STOMP_PASSCODE", "s3cret")
    monkeypatch.setenv("TRIO_STOMP_LOGIN", "ann")

    cli("context", "add", "a", "-u", "stomps://a", "--ca", "ca.pem", "--reconnect")
    cli("context", "use", "a")

    options = {"url": ["stomps://a"], "ca": str(tmp_path / "ca.pem"), "reconnect": True}
    content = {"in_use": "a", "contexts": {"a": {"options": options, "passcode": "none"}}}
    assert (folder / "contexts.json").read_text("utf-8") == json.dumps(content, indent=2) + "\n"
    assert [each.name for each in folder.iterdir()] == ["contexts.json"]


def test_context_when_removed_then_gone_and_no_longer_in_use(cli: Cli) -> None:
    cli("context", "add", "a", "-u", "stomp://a")
    cli("context", "use", "a")
    cli("context", "remove", "a")

    assert cli("context", "list").stdout == ""
    assert cli("context", "remove", "a").exit_code == ExitCode.USAGE
    cli("context", "add", "a", "-u", "stomp://a")
    assert cli("context", "list").stdout == "  a               stomp://a\n"


def test_context_when_unknown_then_says_which_there_are(cli: Cli) -> None:
    nothing = cli("doctor", "--context", "prod")
    cli("context", "add", "test", "-u", "stomp://a")
    other = cli("doctor", "--context", "prod")
    use = cli("context", "use", "prod")

    assert "there are none yet: trio-stomp context add" in nothing.stderr
    assert "no context 'prod'; there are: test" in other.stderr
    assert nothing.exit_code == other.exit_code == use.exit_code == ExitCode.USAGE


def test_context_when_options_are_given_too_then_they_come_first_and_the_environment_last(
    cli: Cli, stomp_broker_thread: ThreadedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = stomp_broker_thread.url
    cli("context", "add", "nowhere", "--url", "stomp://127.0.0.1:1", "--connect-timeout", "5")

    by_environment = cli("send", "/queue/a", "one")
    cli("context", "use", "nowhere")
    in_use = cli("send", "/queue/a", "two")
    named = cli("send", "/queue/a", "three", "--context", "nowhere")
    given = cli("send", "/queue/a", "four", "--context", "nowhere", "--url", url)
    monkeypatch.delenv("TRIO_STOMP_URL")
    nothing_else = cli("send", "/queue/a", "five")

    statuses = [done.exit_code for done in (by_environment, in_use, named, given, nothing_else)]
    assert statuses == [0, 0, ExitCode.NOT_CONNECTED, 0, ExitCode.NOT_CONNECTED]
    assert bodies(stomp_broker_thread) == [b"one", b"two", b"four"]


@pytest.mark.parametrize("user", [(), ("--login", "ann")])
def test_context_when_another_broker_is_named_then_it_gets_no_header_passcode_or_certificate_which_may_be_secret(
    without_url: Cli, tmp_path: Path, user: tuple[str, ...]
) -> None:
    (tmp_path / "file").write_text("s3cret\n", "utf-8")
    secrets = [f"{option}={tmp_path / 'file'}" for option in ("--passcode-file", "--cert", "--key")]
    secrets.append("--connect-header=token:s3cret")
    without_url("context", "add", "a", "-u", "stomps://a", "--vhost", "test", *secrets)
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE)

        def refuse() -> None:
            connection, _ = listener.accept()
            with connection:
                received.append(connection.recv(4096))

        refusing = threading.Thread(target=refuse)
        refusing.start()
        url = f"stomp://127.0.0.1:{listener.getsockname()[1]}"
        done = without_url("ping", "--context", "a", *user, "--url", url)
        refusing.join()

    assert done.exit_code == ExitCode.NOT_CONNECTED, done.output
    assert b"host:test\n" in received[0]
    assert (b"login:ann\n" in received[0]) is bool(user)
    assert b"s3cret" not in received[0]


def test_context_when_another_broker_is_named_then_its_queues_are_not_those_of_the_context(cli: Cli) -> None:
    cli("context", "add", "a", "-u", "stomp://a", "--management", "http://127.0.0.1:1")

    assert cli("count", "x", "--context", "a").exit_code == ExitCode.NOT_CONNECTED
    assert cli("count", "x", "--context", "a", "--login", "ann").exit_code == ExitCode.NOT_CONNECTED
    done = cli("count", "x", "--context", "a", "--url", "stomp://b")
    assert done.exit_code == ExitCode.USAGE
    assert "pass --management" in done.stderr


def test_context_when_the_url_of_the_environment_has_a_passcode_then_it_is_not_saved(cli: Cli) -> None:
    assert "guest:guest@" in os.environ["TRIO_STOMP_URL"]

    assert cli("context", "add", "a", "--login", "ann").exit_code == 0

    assert cli("context", "show", "a").stdout == "name: a\nlogin: ann\npasscode: not saved\n"


def test_context_when_the_proxy_has_a_passcode_then_it_is_not_shown(cli: Cli) -> None:
    cli("context", "add", "a", "-u", "stomp://a", "--proxy", "socks5://ann:s3cret@p:1080")

    assert "proxy: socks5://ann:***@p:1080\n" in cli("context", "show", "a").stdout
    assert "s3cret" not in cli("context", "list", "--json").stdout


@pytest.mark.parametrize("url", ["http://ann:s3cret@b", "http://ann:s3cret/7@b", "http://ann:7/s3cret@[b"])
def test_context_when_the_management_interface_has_a_passcode_then_it_is_not_shown(cli: Cli, url: str) -> None:
    cli("context", "add", "a", "-u", "wss://a/x?token=s3cret", "--management", url)

    shown = cli("context", "show", "a").stdout
    assert "url: wss://a/x?***\n" in shown
    assert f"management: http://ann:***@{url.rpartition('@')[2]}\n" in shown
    assert "s3cret" not in shown + cli("context", "list", "-j").stdout


def write(folder: Path, content: str | bytes) -> None:
    """Write the file with the contexts."""
    folder.mkdir(parents=True)
    file = folder / "contexts.json"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    file.chmod(0o600)


def context(options: str = "{}", passcode: str = '"none"', name: str = "a") -> str:
    return f'{{"contexts": {{"{name}": {{"options": {options}, "passcode": {passcode}}}}}}}'


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        "[" * 100_000,
        '{"contexts": ' * 100_000,
        '{"contexts": []}',
        '{"contexts": null}',
        '{"contexts": {"a": 1}}',
        '{"in_use": "a", "in_use": "a"}',
        '{"other": NaN}',
        context(passcode='"here"'),
        context(passcode="[]"),
        context("[]"),
        context('{"login": null}'),
        context('{"login": {}}'),
        context('{"url": [[["x"]]]}'),
        context('{"heart_beat": [NaN, 1]}'),
        context(name="\\ud800"),
        context(name="\\u001b[31m"),
        '{"contexts": {}}'.encode("utf-16"),
        b'{"contexts": {"\xff": 1}}',
        b"\xef\xbb\xbf{}",
        "9" * 10_000,
        "{}".rjust((1 << 20) + 1),
    ],
    ids=lambda content: repr(content[:40]),
)
@pytest.mark.parametrize("arguments", [("context", "list"), ("context", "use"), ("send", "/queue/a", "x")])
def test_context_when_its_file_is_damaged_then_says_so(
    without_url: Cli, folder: Path, content: str | bytes, arguments: tuple[str, ...]
) -> None:
    write(folder, content)

    done = without_url(*arguments, *(["--context", "a"] if arguments[0] == "send" else []))

    assert isinstance(done.exception, SystemExit)
    assert done.exit_code == ExitCode.USAGE
    assert f"{folder / 'contexts.json'} is damaged" in done.stderr
    assert len(done.stderr) < 1000


def test_context_when_its_file_is_as_large_as_it_may_be_then_read(cli: Cli, folder: Path) -> None:
    write(folder, context().rjust(1 << 20))

    assert cli("context", "list").stdout == "  a               \n"


def test_context_when_the_one_in_use_has_no_name_then_says_so(without_url: Cli, folder: Path) -> None:
    write(folder, '{"in_use": 7}')

    done = without_url("send", "/queue/a", "x")

    assert done.exit_code == ExitCode.USAGE
    assert "contexts.json is damaged" in done.stderr


@pytest.mark.parametrize("kind", ["directory", "pipe", "loop", "folder"])
def test_context_when_its_file_is_no_file_then_says_so(cli: Cli, folder: Path, kind: str) -> None:
    file = folder / "contexts.json"
    folder.parent.mkdir()
    if kind == "folder":
        folder.write_text("")
    else:
        folder.mkdir()
    if kind == "directory":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file, 0o600)
    elif kind == "loop":
        file.symlink_to(file)

    for arguments in (("context", "list"), ("context", "add", "a", "-u", "stomp://a"), ("context", "remove", "a")):
        done = cli(*arguments)

        assert isinstance(done.exception, SystemExit)
        assert done.exit_code == ExitCode.USAGE
        assert f"{file} cannot be read" in done.stderr


def test_context_when_the_disk_is_full_then_the_contexts_stay_as_they_were(cli: Cli, folder: Path) -> None:
    cli("context", "add", "a", "-u", "stomp://a")
    with file_size_limit(5):
        done = cli("context", "add", "b", "-u", "stomp://b")

    assert done.exit_code == ExitCode.FAILED
    assert f"{folder / 'contexts.json'} cannot be written: File too large" in done.stderr
    assert [each.name for each in folder.iterdir()] == ["contexts.json"]
    assert cli("context", "list").stdout == "  a               stomp://a\n"


@pytest.mark.parametrize(
    "options",
    [
        '{"url": "stomp://a"}',
        '{"url": 5}',
        '{"url": []}',
        '{"heart_beat": 5}',
        '{"heart_beat": "x"}',
        '{"heart_beat": [1, 2, 3]}',
        '{"heart_beat": ["a", "b"]}',
        '{"profile": "abc"}',
        '{"reconnect": "perhaps"}',
        '{"stomp_version": ["7"]}',
        '{"connect_header": [["x", "y"], ["z"]]}',
        '{"websocket_message_bytes": 1e999}',
        '{"connect_timeout": 1' + "0" * 400 + "}",
    ],
)
def test_context_when_a_saved_option_is_invalid_then_says_which(without_url: Cli, folder: Path, options: str) -> None:
    write(folder, context(options))

    done = without_url("send", "/queue/a", "x", "--context", "a")

    assert isinstance(done.exception, SystemExit)
    assert done.exit_code == ExitCode.USAGE
    assert f"context 'a' has an invalid {next(iter(json.loads(options))).replace('_', '-')}" in done.stderr


def test_context_when_its_file_has_options_that_are_not_about_the_connection_then_they_are_ignored(
    without_url: Cli, folder: Path, stomp_broker_thread: ThreadedBroker
) -> None:
    write(folder, context(json.dumps({"url": [stomp_broker_thread.url], "count": 2, "body": ["y"], "rate": "x"})))

    done = without_url("send", "/queue/a", "x", "--context", "a")

    assert (done.exit_code, done.output) == (0, "")
    assert bodies(stomp_broker_thread) == [b"x"]


def test_context_when_an_option_is_not_utf_8_then_saved_as_it_is(cli: Cli, folder: Path) -> None:
    assert cli("context", "add", "a", "-u", "stomp://a", "--login", "ann\udcff").exit_code == 0

    assert "login: ann\\udcff\n" in cli("context", "show", "a").stdout
    assert [each.name for each in folder.iterdir()] == ["contexts.json"]


@pytest.mark.parametrize(
    ("environment", "windows", "place"),
    [
        ({"XDG_CONFIG_HOME": "/x"}, False, "/x/trio-stomp/passcodes.json"),
        ({}, False, f"{Path.home()}/.config/trio-stomp/passcodes.json"),
        ({"XDG_CONFIG_HOME": "/x"}, True, f"{Path.home()}/AppData/Roaming/trio-stomp/passcodes.json"),
        ({"APPDATA": "/roaming", "XDG_CONFIG_HOME": "/x"}, True, "/roaming/trio-stomp/passcodes.json"),
    ],
)
def test_store_when_of_the_user_then_where_the_system_has_settings(
    environment: dict[str, str], windows: bool, place: str
) -> None:
    assert str(ContextStore.of_user(environment, windows=windows).passcode_file) == place


class TestPasscodes:
    @pytest.fixture
    def stomp_broker_options(self) -> BrokerOptions:
        # No heart-beats that the doctor waits for.
        return BrokerOptions(logins={"ann": "s3cret", "bob": "0ther"}, heart_beat=(0, 0))

    @pytest.fixture
    def saved(self, without_url: Cli, stomp_broker_thread: ThreadedBroker, folder: Path) -> ContextStore:
        """A store with the context `prod` and its passcode, as the prompt of `add` leaves it."""
        store = ContextStore(folder)
        options = {"url": [f"stomp://127.0.0.1:{stomp_broker_thread.port}"], "login": "ann"}
        store.add("prod", options, "s3cret", PasscodePlace.FILE)
        return store

    def test_passcode_when_saved_then_only_its_owner_can_read_it_and_nothing_shows_it(
        self, without_url: Cli, saved: ContextStore
    ) -> None:
        shown = [
            without_url(*arguments).output
            for arguments in (
                ("context", "list"),
                ("context", "list", "--json"),
                ("context", "show", "prod"),
                ("doctor", "-c", "prod", "-vv"),
            )
        ]

        assert stat.S_IMODE(saved.passcode_file.stat().st_mode) == 0o600
        assert stat.S_IMODE(saved.passcode_file.parent.stat().st_mode) == 0o700
        assert not [text for text in shown if "s3cret" in text]
        assert f"passcode: saved in {saved.passcode_file}" in shown[2]
        assert "accepted as 'ann'" in shown[3]

    @pytest.mark.parametrize("name", ["passcodes.json", "contexts.json"])
    def test_passcode_when_others_can_read_its_file_then_refused_until_mended(
        self, without_url: Cli, saved: ContextStore, name: str
    ) -> None:
        file = saved.passcode_file.with_name(name)
        file.chmod(0o640)
        refused = without_url("send", "/queue/a", "x", "-c", "prod")
        _, _, mend = refused.stderr.partition("Run: ")
        subprocess.run(shlex.split(mend), check=True)
        mended = without_url("send", "/queue/a", "x", "-c", "prod")

        assert refused.exit_code == ExitCode.USAGE
        assert mend == f"chmod 600 {shlex.quote(str(file))}\n"
        assert mended.exit_code == 0

    def test_passcode_when_another_user_or_broker_is_named_then_not_sent(
        self, without_url: Cli, saved: ContextStore, tmp_path: Path
    ) -> None:
        file = tmp_path / "passcode"
        file.write_text("0ther\n", "utf-8")

        without = without_url("send", "/queue/a", "x", "-c", "prod", "--login", "bob")
        with_own = without_url("send", "/queue/a", "x", "-c", "prod", "--login", "bob", "--passcode-file", str(file))
        with_that_of_another = without_url("send", "/queue/a", "x", "-c", "prod", "--passcode-file", str(file))
        with_a_prompt = without_url("send", "/queue/a", "x", "-c", "prod", "--ask-passcode")

        assert without.exit_code == ExitCode.REFUSED
        assert with_own.exit_code == 0
        assert with_that_of_another.exit_code == ExitCode.REFUSED
        assert with_a_prompt.exit_code == ExitCode.USAGE
        assert "--ask-passcode needs a terminal" in with_a_prompt.stderr

    def test_passcode_when_the_environment_has_another_then_that_of_the_context(
        self, without_url: Cli, saved: ContextStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        file = tmp_path / "passcode"
        file.write_text("wrong\n", "utf-8")
        monkeypatch.setenv("TRIO_STOMP_PASSCODE", "wrong")
        monkeypatch.setenv("TRIO_STOMP_PASSCODE_FILE", str(file))

        assert without_url("send", "/queue/a", "x", "-c", "prod").exit_code == 0

    @pytest.mark.parametrize("place", [(), ("--passcode-store", "file")])
    def test_passcode_when_add_asks_for_it_then_saved_and_sent(
        self,
        without_url: Cli,
        on_terminal: OnTerminal,
        stomp_broker_thread: ThreadedBroker,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        place: tuple[str, ...],
    ) -> None:
        # If the package keyring is installed, it must not use the developer's own keyring.
        monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
        url = f"stomp://127.0.0.1:{stomp_broker_thread.port}"
        terminal = on_terminal("context", "add", "prod", "-u", url, "--login", "ann", "--ask-passcode", *place)
        terminal.wait_for_prompt()
        terminal.type(b"s3cret\n")

        assert terminal.finish() == 0
        assert terminal.shown == b"Passcode of ann: \r\n"
        [line] = without_url("context", "list", "--json").stdout.splitlines()
        options = {"url": url, "login": "ann"}
        assert json.loads(line) == {"name": "prod", "in_use": False, "options": options, "passcode": "file"}
        assert (folder / "passcodes.json").read_text("utf-8") == '{\n  "prod": "s3cret"\n}\n'
        assert without_url("send", "/queue/a", "x", "-c", "prod").exit_code == 0

    def test_passcode_when_its_file_has_lost_it_then_says_what_to_do(
        self, without_url: Cli, saved: ContextStore
    ) -> None:
        saved.passcode_file.unlink()

        done = without_url("send", "/queue/a", "x", "-c", "prod")

        assert done.exit_code == ExitCode.USAGE
        assert f"{saved.passcode_file} has no passcode for 'prod'; add the context again" in done.stderr

    def test_passcode_when_its_context_cannot_be_saved_anew_then_kept(
        self, saved: ContextStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("trio_stomp.cli.saved_contexts.keyring", lambda: None)

        with pytest.raises(CommandFailed, match="there is no keyring for the passcode of 'prod'"):
            saved.add("prod", {}, "another", PasscodePlace.KEYRING)

        assert saved.passcode_of("prod") == "s3cret"

    def test_passcode_when_its_context_is_removed_or_saved_anew_then_forgotten(self, saved: ContextStore) -> None:
        saved.add("other", {}, "kept", PasscodePlace.FILE)
        saved.add("prod", {"url": ["stomp://elsewhere"]}, None, PasscodePlace.FILE)

        assert saved.passcode_of("prod") is None
        assert "s3cret" not in saved.passcode_file.read_text("utf-8")
        saved.remove("other")
        assert saved.passcode_file.read_text("utf-8") == "{}\n"


class TestKeyring:
    @pytest.fixture
    def passcodes(self) -> Generator[dict[tuple[str, str], str]]:
        """What a keyring holds, that lives as long as the test."""
        keyring = pytest.importorskip("keyring", reason="it is optional")
        backend = pytest.importorskip("keyring.backend")
        errors = pytest.importorskip("keyring.errors")
        held: dict[tuple[str, str], str] = {}

        class Held(backend.KeyringBackend):
            priority = 1

            def get_password(self, service: str, username: str) -> str | None:
                return held.get((service, username))

            def set_password(self, service: str, username: str, password: str) -> None:
                if not password:
                    raise errors.PasswordSetError("it is empty")
                held[service, username] = password

            def delete_password(self, service: str, username: str) -> None:
                if held.pop((service, username), None) is None:
                    raise errors.PasswordDeleteError("there is none")

        before = keyring.get_keyring()
        keyring.set_keyring(Held())
        yield held
        keyring.set_keyring(before)

    def test_passcode_when_there_is_a_keyring_then_held_and_forgotten_by_that(
        self, passcodes: dict[tuple[str, str], str], tmp_path: Path
    ) -> None:
        store = ContextStore(tmp_path)
        store.add("prod", {}, "s3cret", PasscodePlace.KEYRING)
        found, held = store.passcode_of("prod"), dict(passcodes)
        store.remove("prod")

        assert found == "s3cret"
        assert held == {("trio-stomp", "prod"): "s3cret"}
        assert passcodes == {}
        assert not (tmp_path / "passcodes.json").exists()

    def test_passcode_when_its_context_is_saved_anew_without_or_in_a_file_then_forgotten_by_the_keyring(
        self, passcodes: dict[tuple[str, str], str], tmp_path: Path
    ) -> None:
        store = ContextStore(tmp_path)
        for name, passcode in (("prod", None), ("test", "0ther")):
            store.add(name, {}, "s3cret", PasscodePlace.KEYRING)
            store.add(name, {}, passcode, PasscodePlace.FILE)

        assert passcodes == {}
        assert [store.passcode_of(name) for name in ("prod", "test")] == [None, "0ther"]

    def test_passcode_when_the_keyring_has_lost_it_then_says_what_to_do_and_can_be_removed(
        self, passcodes: dict[tuple[str, str], str], tmp_path: Path
    ) -> None:
        store = ContextStore(tmp_path)
        store.add("prod", {}, "s3cret", PasscodePlace.KEYRING)
        passcodes.clear()

        with pytest.raises(CommandFailed, match=r"^the keyring has no passcode for 'prod'; add the context again$"):
            store.passcode_of("prod")
        store.remove("prod")

        assert store.all() == {}

    def test_passcode_when_the_keyring_refuses_it_then_says_why_and_nothing_is_saved(
        self, passcodes: dict[tuple[str, str], str], tmp_path: Path
    ) -> None:
        store = ContextStore(tmp_path)

        with pytest.raises(CommandFailed, match=r"^the keyring refuses the passcode of 'prod': it is empty$"):
            store.add("prod", {}, "", PasscodePlace.KEYRING)

        assert store.all() == {}


def test_passcode_when_its_keyring_has_gone_then_says_what_it_requires(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, context(passcode='"keyring"'))
    monkeypatch.setattr("trio_stomp.cli.saved_contexts.keyring", lambda: None)

    done = cli("ping", "--context", "a")

    assert done.exit_code == ExitCode.USAGE
    assert "there is no keyring for the passcode of 'a': it requires the package keyring" in done.stderr


def test_passcode_when_the_keyring_of_the_one_before_has_gone_then_the_new_one_is_not_left_in_a_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, context(passcode='"keyring"'))
    monkeypatch.setattr("trio_stomp.cli.saved_contexts.keyring", lambda: None)

    with pytest.raises(CommandFailed, match="there is no keyring for the passcode of 'a'"):
        ContextStore(folder).add("a", {}, "s3cret", PasscodePlace.FILE)

    assert [each.name for each in folder.iterdir()] == ["contexts.json"]
