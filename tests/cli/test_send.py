import json
import math
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio

from tests.cli.conftest import Cli, bodies
from tests.cli.exit_code import ExitCode
from tests.cli.links import link_to
from tests.cli.processes import OnTerminal
from trio_stomp.cli.running import CommandFailed, Stop
from trio_stomp.cli.send import Send
from trio_stomp.testing import (
    Broker,
    BrokerOptions,
    DelayReceipts,
    QueuedMessage,
    SwallowReceipts,
    ThreadedBroker,
    open_broker,
)
from trio_stomp.types import Command


def queued(broker: ThreadedBroker, destination: str = "/queue/a") -> list[QueuedMessage]:
    return list(broker.call(lambda inside: inside.messages(destination)))


def test_send_when_given_bodies_then_each_is_a_message(cli: Cli, stomp_broker_thread: ThreadedBroker) -> None:
    given = ("-H", "shop: 7", "-H", "site: http://x", "-H", "note:")
    done = cli("send", "/queue/a", "one", "zwö", *given, "-t", "text/html")

    assert (done.exit_code, done.output) == (0, "")
    assert bodies(stomp_broker_thread) == [b"one", "zwö".encode()]
    headers = queued(stomp_broker_thread)[0].headers
    assert (headers["shop"], headers["site"], headers["note"]) == ("7", "http://x", "")
    assert headers["content-type"] == "text/html"


def test_send_when_given_no_body_then_the_standard_input_is_one(cli: Cli, stomp_broker_thread: ThreadedBroker) -> None:
    assert cli("send", "/queue/a", input=b"one\n\xff").exit_code == 0

    (message,) = queued(stomp_broker_thread)
    assert message.body == b"one\n\xff"
    assert "content-type" not in message.headers


@pytest.mark.parametrize("arguments", [(), ("--text",), ("--file", "-")])
def test_send_when_the_standard_input_is_empty_then_refused_unless_that_is_meant(
    cli: Cli, stomp_broker_thread: ThreadedBroker, arguments: tuple[str, ...]
) -> None:
    refused = cli("send", "/queue/a", *arguments, input=b"")
    assert (refused.exit_code, bodies(stomp_broker_thread)) == (ExitCode.FAILED, [])
    assert "standard input is empty" in refused.stderr
    assert "--empty" in refused.stderr

    meant = cli("send", "/queue/a", "--empty", *arguments, input=b"")
    assert (meant.exit_code, meant.output, bodies(stomp_broker_thread)) == (0, "", [b""])


def test_send_when_an_empty_body_or_file_is_given_then_sent(
    cli: Cli, stomp_broker_thread: ThreadedBroker, tmp_path: Path
) -> None:
    (tmp_path / "a").touch()

    assert cli("send", "/queue/a", "").exit_code == 0
    assert cli("send", "/queue/a", "-f", str(tmp_path / "a")).exit_code == 0
    assert cli("send", "/queue/a", "--lines", input=b"").exit_code == 0

    assert bodies(stomp_broker_thread) == [b"", b""]


def test_send_when_given_files_then_each_is_a_message(
    cli: Cli, stomp_broker_thread: ThreadedBroker, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("from a file", "utf-8")

    assert cli("send", "/queue/a", "--text", "-f", str(tmp_path / "a"), "-f", "-", input="from in").exit_code == 0

    assert bodies(stomp_broker_thread) == [b"from a file", b"from in"]
    assert queued(stomp_broker_thread)[0].headers["content-type"] == "text/plain;charset=utf-8"


def test_send_when_files_are_read_by_lines_then_each_line_is_a_message(
    cli: Cli, stomp_broker_thread: ThreadedBroker, tmp_path: Path
) -> None:
    # The last one is longer than a read.
    contents = (b"one\r\n\nthree", b"", b"four\n" + b"x" * 200_000)
    files = [tmp_path / f"{number}" for number in range(3)]
    for file, content in zip(files, contents, strict=True):
        file.write_bytes(content)

    assert cli("send", "/queue/a", "--lines", *(f"--file={file}" for file in files)).exit_code == 0

    assert bodies(stomp_broker_thread) == [b"one", b"three", b"four", b"x" * 200_000]


def test_send_when_lines_are_many_then_all_arrive_in_order(cli: Cli, stomp_broker_thread: ThreadedBroker) -> None:
    lines = [f"{number}" for number in range(1000)]

    assert cli("send", "/queue/a", "--lines", "--in-flight", "10", input="\n".join(lines)).exit_code == 0

    assert bodies(stomp_broker_thread) == [line.encode() for line in lines]


def test_send_when_lines_are_json_then_each_says_where_to_unless_an_argument_does(
    cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    lines = '{"destination": "/queue/a", "headers": {"shop": "7", "priority": "4"}, "body": "one"}\n{"body": "two"}'

    as_they_say = cli("send", "--json-lines", input=lines.partition("\n")[0])
    otherwise = cli("send", "/queue/b", "--json-lines", "-H", "priority:9", "-t", "text/html", input=lines)

    assert (as_they_say.exit_code, otherwise.exit_code) == (0, 0)
    (message,) = queued(stomp_broker_thread, "/queue/a")
    assert (message.body, message.headers["shop"], message.headers["priority"]) == (b"one", "7", "4")
    assert bodies(stomp_broker_thread, "/queue/b") == [b"one", b"two"]
    headers = queued(stomp_broker_thread, "/queue/b")[0].headers
    assert (headers["shop"], headers["priority"], headers["content-type"]) == ("7", "9", "text/html")


def test_send_when_a_body_is_a_json_value_then_its_content_type_is_json_unless_given(
    cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    lines = [
        r'{"body": {"tea": [2, "\u00e4"]}}',
        '{"body": [1], "headers": {"content-type": "application/x-list"}}',
        '{"body": "tea"}',
    ]

    assert cli("send", "/queue/a", "--json", input="\n".join(lines)).exit_code == 0

    assert bodies(stomp_broker_thread) == ['{"tea": [2, "ä"]}'.encode(), b"[1]", b"tea"]
    types = [message.headers["content-type"] for message in queued(stomp_broker_thread)]
    assert types == ["application/json", "application/x-list", "text/plain;charset=utf-8"]


def test_send_when_a_line_has_headers_of_another_delivery_then_they_are_left_out(
    cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    old = {"subscription": "s-1", "ack": "1", "redelivered": "true", "expires": "1", "_AMQ_DUPL_ID": "d"}
    line = json.dumps({"headers": {"message-id": "m-1", "shop": "7", **old}, "body": "one"})

    assert cli("send", "/queue/a", "--json", input=line).exit_code == 0

    (message,) = queued(stomp_broker_thread)
    assert message.headers["shop"] == "7"
    assert message.headers.get("message-id") != "m-1"
    assert not old.keys() & set(message.headers)


FEATURES = ("--persistent", "--ttl", "60", "--priority", "9", "--delay", "1.5", "--group", "g")


# As RabbitMQ it does not read these headers, so that they can be seen.
@pytest.mark.parametrize("stomp_broker_options", [BrokerOptions(server="RabbitMQ/3.13")])
@pytest.mark.parametrize("how", [("one",), ("--lines",), ("--file", "-"), ("--json-lines",)])
def test_send_when_broker_features_are_asked_for_then_in_the_brokers_own_headers(
    how: tuple[str, ...], stomp_broker_options: BrokerOptions, cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    assert stomp_broker_options.server == "RabbitMQ/3.13"
    given = '{"body": "one", "headers": {"priority": "4", "persistent": "false", "shop": "7"}}'

    done = cli("send", "--profile", "artemis", "/queue/a", *how, *FEATURES, input=given)

    assert (done.exit_code, done.output) == (0, "")
    (message,) = queued(stomp_broker_thread)
    assert (message.headers["persistent"], message.headers["priority"]) == ("true", "9")
    assert (message.headers["AMQ_SCHEDULED_DELAY"], message.headers["JMSXGroupID"]) == ("1500", "g")
    assert "expires" in message.headers
    assert message.headers.get("shop") == ("7" if how == ("--json-lines",) else None)


def test_send_when_the_broker_lacks_a_feature_then_nothing_is_read_or_sent(
    cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    done = cli("send", "--profile", "rabbitmq", "/queue/a", "--lines", "--delay", "1", input="one\ntwo")

    assert done.exit_code == ExitCode.USAGE
    assert "delay" in done.stderr
    assert queued(stomp_broker_thread) == []


@pytest.mark.parametrize(
    "contents",
    [
        ['{"body": "one"}\n\nnonsense\n{"body": "two"}\n'],
        ['{"body": "one"}\n', "", "\nnonsense"],
        ['{"body": "one"}', "\n", 'nonsense\n{"body": "two"}'],
    ],
    ids=["one file", "with ends", "without"],
)
def test_send_when_a_line_cannot_be_sent_then_its_number_is_told_and_those_before_are_sent(
    cli: Cli, stomp_broker_thread: ThreadedBroker, tmp_path: Path, contents: list[str]
) -> None:
    files = [tmp_path / f"{number}" for number in range(len(contents))]
    for file, content in zip(files, contents, strict=True):
        file.write_text(content, "utf-8")

    done = cli("send", "/queue/a", "--json-lines", *(f"--file={file}" for file in files))

    assert done.exit_code == ExitCode.FAILED
    assert "trio-stomp: line 3 cannot be sent: it is not JSON" in done.stderr
    assert bodies(stomp_broker_thread) == [b"one"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "not JSON"),
        pytest.param("[" * 100_000, "nested too deeply", id="nested"),
        ("[]", "expected an object, got a list"),
        ('{"body": "x"}', "no destination"),
        ('{"destination": 1, "body": "x"}', "no destination"),
        ('{"destination": "/queue/a", "boddy": "x"}', "unknown key 'boddy'"),
        ('{"destination": "/queue/a", "headers": []}', "headers must be an object"),
        ('{"destination": "/queue/a", "headers": {"a": 1}}', "header 'a' must be a string"),
        ('{"destination": "/queue/a", "body_base64": "?"}', "not base64"),
        ('{"destination": "/queue/a", "body_base64": "ä"}', "not base64"),
        ('{"destination": "/queue/a", "body": NaN}', "NaN or Infinity"),
        ('{"destination": "/queue/a", "body": [1e999]}', "NaN or Infinity"),
        ('{"destination": "/queue/a", "body_base64": "", "body": ""}', "without a body beside it"),
        (
            '{"destination": "/queue/a", "headers": {"content-type": "text/a;charset=ascii"}, "body": "\\u00e4"}',
            "cannot be written in its charset",
        ),
    ],
)
def test_send_when_a_line_is_no_message_then_says_why(
    cli: Cli, stomp_broker_thread: ThreadedBroker, line: str, why: str
) -> None:
    done = cli("send", "--json-lines", input=line)

    assert done.exit_code == ExitCode.FAILED
    assert done.stderr.startswith("trio-stomp: line 1 cannot be sent: ")
    assert why in done.stderr
    assert bodies(stomp_broker_thread) == []


def test_send_when_no_receipt_is_wanted_then_none_is_asked_for(cli: Cli, stomp_broker_thread: ThreadedBroker) -> None:
    stomp_broker_thread.call(lambda inside: inside.faults.plan(SwallowReceipts(count=1)))

    done = cli("send", "/queue/a", "--no-receipt", "one", "two")

    assert done.exit_code == 0
    assert bodies(stomp_broker_thread) == [b"one", b"two"]
    assert "receipt" not in queued(stomp_broker_thread)[0].headers


def test_send_when_told_a_count_then_each_message_is_sent_as_often(
    cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    assert cli("send", "/queue/a", "one", "two", "--count", "300").exit_code == 0

    assert bodies(stomp_broker_thread) == [b"one"] * 300 + [b"two"] * 300


def test_send_when_told_a_template_then_each_message_is_filled_in(
    cli: Cli, stomp_broker_thread: ThreadedBroker, tmp_path: Path
) -> None:
    files = [tmp_path / name for name in "ab"]
    for file in files:
        file.write_text(f"{file.name}{{n}}", "utf-8")
    arguments = ("-n", "2", "--template", "-H", "id:{uuid}", "-H", "now:{time}", "-H", "{n}:a")
    assert cli("send", "/queue/a", '{"id": {n}, "{uuid": {}}', *arguments).exit_code == 0
    assert cli("send", "/queue/a", "--template", input=b"\xff{n}").exit_code == 0

    first, second, octets = queued(stomp_broker_thread)
    assert [first.body, second.body] == [b'{"id": 1, "{uuid": {}}', b'{"id": 2, "{uuid": {}}']
    assert len({first.headers["id"], second.headers["id"]}) == 2
    assert first.headers["{n}"] == "a"
    assert datetime.now(UTC) - datetime.fromisoformat(first.headers["now"]) < timedelta(minutes=5)
    assert octets.body == b"\xff1"

    given = [f"--file={file}" for file in files]
    assert cli("send", "/queue/b", "--template", "--count", "2", *given).exit_code == 0
    assert bodies(stomp_broker_thread, "/queue/b") == [b"a1", b"a2", b"b3", b"b4"]


def test_send_when_told_a_delimiter_then_it_ends_each_message(cli: Cli, stomp_broker_thread: ThreadedBroker) -> None:
    assert cli("send", "/queue/a", "--lines", "-d", r";\0", input=b"a;b\r\n;\0;\0c\n").exit_code == 0

    assert bodies(stomp_broker_thread) == [b"a;b\r\n", b"c\n"]


def test_send_when_a_later_message_is_invalid_then_the_status_does_not_say_that_nothing_was_sent(
    cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    lines = '{"body": "one"}\n{"body": "two", "headers": {"": "x"}}\n'

    some = cli("send", "/queue/a", "--json", input=lines)
    nothing = cli("send", "/queue/a", "--json", input=lines.partition("\n")[2])

    assert (some.exit_code, nothing.exit_code) == (ExitCode.FAILED, ExitCode.USAGE)
    assert some.stderr.startswith("trio-stomp: message 2 cannot be sent: ")
    assert nothing.stderr.startswith("trio-stomp: message 1 cannot be sent: ")
    assert "; 1 message sent, 1 confirmed" in some.stderr
    assert bodies(stomp_broker_thread) == [b"one"]


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="its first page cannot be read")
def test_send_when_a_later_file_cannot_be_read_then_the_status_does_not_say_that_nothing_was_sent(
    cli: Cli, stomp_broker_thread: ThreadedBroker, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("one\n")

    done = cli("send", "/queue/a", "--lines", "-f", str(tmp_path / "a"), "-f", "/proc/self/mem")

    assert done.exit_code == ExitCode.FAILED
    assert "/proc/self/mem cannot be read: Input/output error; 1 message sent, 1 confirmed" in done.stderr
    assert bodies(stomp_broker_thread) == [b"one"]


def test_send_when_a_delimiter_lies_across_two_reads_then_found(cli: Cli, stomp_broker_thread: ThreadedBroker) -> None:
    # A read is a multiple of 4 KiB.
    long = b"x" * (64 * 1024 - 1)

    assert cli("send", "/queue/a", "--lines", "-d", "<>", input=long + b"<>" + long * 2 + b"<>c").exit_code == 0

    assert bodies(stomp_broker_thread) == [long, long * 2, b"c"]


async def test_send_when_told_a_rate_then_the_first_goes_at_once_and_only_a_short_delay_is_made_up_for(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_broker(listen=False) as broker:
        broker.faults.plan(DelayReceipts(seconds=5.0, count=1))
        sending = Send(destination="/queue/a", body=("one",), count=9, rate=20, in_flight=1, patience=math.inf)
        await sending.run(link_to(broker), Stop())

        assert broker.depth("/queue/a") == 9
    # The second one goes after 5 s instead of 0.05 s. Then 0.1 s of it, or two messages, are made up for.
    assert trio.current_time() == pytest.approx(5.15)


def test_send_when_the_broker_confirms_nothing_then_gives_up_and_says_that_it_may_have_arrived(
    cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    stomp_broker_thread.call(lambda inside: inside.faults.plan(SwallowReceipts()))

    done = cli("send", "/queue/a", "one", "--patience", "100ms")

    assert done.exit_code == ExitCode.TIMED_OUT
    assert "no confirmation for 0.1 s (--patience); what was sent may have arrived" in done.stderr


async def test_send_when_confirmations_come_one_by_one_then_its_patience_begins_anew_with_each(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_broker(listen=False) as broker:
        broker.faults.plan(DelayReceipts(seconds=1.0, count=5))
        sending = Send(destination="/queue/a", body=("one",), count=5, in_flight=1, patience=1.5)
        await sending.run(link_to(broker), Stop())

        assert broker.depth("/queue/a") == 5
    assert trio.current_time() >= 5


async def test_send_when_nothing_is_confirmed_then_its_patience_ends_in_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    arrived = 0.0

    async def note_arrival(broker: Broker) -> None:
        nonlocal arrived
        # The clock runs on while a thread makes the message.
        await broker.wait_until(lambda: broker.depth("/queue/a") == 1, timeout=math.inf)
        arrived = trio.current_time()

    async with open_broker(listen=False) as broker, trio.open_nursery() as nursery:
        broker.faults.plan(SwallowReceipts(command=Command.SEND))
        nursery.start_soon(note_arrival, broker)
        with pytest.raises(CommandFailed, match=r"no confirmation for 10 s \(--patience\)"):
            await Send(destination="/queue/a", body=("one",), patience=10.0).run(link_to(broker), Stop())

        assert trio.current_time() - arrived == pytest.approx(10)


@pytest.mark.parametrize(
    "given", [("one", "two"), (f"--file={__file__}", f"--file={__file__}")], ids=["bodies", "files"]
)
def test_send_when_on_a_terminal_then_shows_its_progress_and_says_what_was_sent(
    on_terminal: OnTerminal,
    stomp_broker_thread: ThreadedBroker,
    monkeypatch: pytest.MonkeyPatch,
    given: tuple[str, ...],
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = on_terminal("send", "/queue/a", *given, "--url", stomp_broker_thread.url)

    assert terminal.finish() == 0
    assert re.search(rb"sending\s.* 2 messages,", terminal.shown)
    assert terminal.shown.endswith(b"2 messages sent, 2 confirmed\r\n")
    assert b"Ctrl-D" not in terminal.shown


def test_send_when_the_broker_refuses_then_each_message_is_named(cli: Cli) -> None:
    done = cli("send", "/nowhere/a", "one")

    assert done.exit_code == ExitCode.NOT_CONFIRMED
    assert "/nowhere/a: rejected" in done.stderr


class TestDraft:
    @pytest.fixture
    def stomp_broker_options(self) -> BrokerOptions:
        return BrokerOptions(draft=True)

    def test_send_when_the_server_speaks_the_draft_then_so_does_the_command(
        self, cli: Cli, stomp_broker_thread: ThreadedBroker
    ) -> None:
        sent = cli("send", "--stomp-version", "draft", "/queue/a", "one")
        refused = cli("send", "--stomp-version", "draft", "--header", "K:v", "/queue/a", "two")

        assert sent.exit_code == 0
        assert refused.exit_code == ExitCode.USAGE
        assert "must be lower-case letters and digits in the early draft of STOMP" in refused.stderr
        assert bodies(stomp_broker_thread) == [b"one"]


class TestLogin:
    @pytest.fixture
    def stomp_broker_options(self) -> BrokerOptions:
        return BrokerOptions(logins={"ann": "s3cret"})

    def test_send_when_the_passcode_of_the_environment_is_wrong_then_ends_with_its_code_and_shows_it_not(
        self, cli: Cli, stomp_broker_thread: ThreadedBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TRIO_STOMP_URL", f"stomp://127.0.0.1:{stomp_broker_thread.port}")
        monkeypatch.setenv("TRIO_STOMP_PASSCODE", "wr0ng")
        refused = cli("-vv", "send", "--login", "ann", "/queue/a", "one")
        monkeypatch.setenv("TRIO_STOMP_PASSCODE", "s3cret")
        accepted = cli("send", "--login", "ann", "/queue/a", "one")

        assert refused.exit_code == ExitCode.REFUSED
        assert "access refused" in refused.stderr
        assert "See --login, --ask-passcode and --passcode-file" in refused.stderr
        assert "wr0ng" not in refused.output
        assert accepted.exit_code == 0
