"""Command lines that make no sense: each is refused with the reason, and nothing is done."""

from __future__ import annotations

import shlex

import pytest

from tests.cli.conftest import Cli, left, publish
from tests.cli.exit_code import ExitCode
from trio_stomp.testing import ThreadedBroker

# The command lines are written as for a shell; the standard input is "x".
REFUSED: list[tuple[str, str]] = [
    ("-- --zzz", "No such option"),
    ("bench -s 7", "7 is not in the range 8<=x<=134217728"),
    # The receiver accepts no longer body.
    ("bench -s 134217729", "134217729 is not in the range 8<=x<=134217728"),
    ("bench /topic/a --profile spring --ack auto", "use --no-receipt"),
    ("bench /topic/a --profile spring --no-receipt", "use --ack auto"),
    ("context add prod/1 -u stomp://a", "invalid name"),
    ("context add prod -u stomp://ann:s3cret@a", "the URL contains a passcode"),
    ("context add prod -u stomp://ann:s3cret/7@a", "must be a number from 1 to 65535"),
    ("context add prod -u stomp://a --proxy socks5://ann:s3cret/7@p:1080", "the port of the proxy"),
    *((f"context {name}", "Missing argument 'NAME'") for name in ("add -u stomp://a", "remove", "show")),
    ("context add prod -u stomp://a --websocket-message-bytes 3", "3 is not in the range x>=4"),
    ("context shw", "no such command 'shw'; did you mean 'show'"),
    ("context zzz", "no such command 'zzz'; there are add, "),
    ("doctor -u http://ann:s3cret@host", "http"),
    ("doctor -u stomp+unix://ann:s3cret@host/x", "stomp+unix"),
    ("move /queue/a", "where to?"),
    ("move /queue/a /queue/b --to-origin", "where to?"),
    ("move /queue/a /queue/a", "never end"),
    ("move /queue/a /queue/b --grep '('", "invalid regular expression"),
    ("ping --ask-passcode", "--passcode-file"),
    ("ping -u 'failover:(tcp://a:1,tcp://b:1)'", "write --url once for each, such as --url stomp://first:61613 --url "),
    ("ping -u stomp://a:1,b:1", "write --url once for each, such as --url stomp://first:61613 --url "),
    ("ping --connect-header priority", "expected NAME:VALUE, got 'priority'"),
    ("ping --connect-timeout 0ms", "not in the range"),
    *(
        (f"ping --connect-timeout {text}", "expected seconds, or a time such as 500ms, 5s, 2m or 1h, got")
        for text in ("''", "s", "5x", "'5 parsecs'", "5sm", "ten")
    ),
    *((f"ping --heart-beat {text}", "expected two numbers of seconds") for text in ("''", "a", "a,b", "1,2,3")),
    *((f"ping --heart-beat {text}", "expected two numbers of seconds") for text in ("nan", "inf,0", "-1")),
    *((f"ping --connect-timeout {text}", "expected a number") for text in ("nan", "inf", "infm")),
    ("purge /queue/a", "pass --yes"),
    ("purge /queue/a --grep '('", "invalid regular expression"),
    (f"purge /queue/a --grep a{{{10**20}}}", "invalid regular expression"),
    ("receive /queue/a", "Missing option '--spool'"),
    ("receive /queue/a --spool spool", "the option 'spoolLocation' must be an absolute path"),
    ("receive /queue/a --spool /s -o prefetc=3", "did you mean 'prefetch'?"),
    ("receive /queue/a --spool /s -o brokers=a:1", "a receiver has no option 'brokers'"),
    ("receive /queue/\udcff --spool /s", "not UTF-8 text"),
    ("reply /queue/a", "pass the reply as an argument, or --shell, or --echo"),
    ("reply /queue/a ok --echo", "pass the reply as an argument, or --shell, or --echo"),
    ("reply /queue/a --echo --shell cat", "pass the reply as an argument, or --shell, or --echo"),
    ("request /queue/a tea --file -", "not both"),
    ("request /queue/a tea --json --timestamps", "--timestamps is for text"),
    ("request /queue/a tea -H reply-to:/queue/x", "reply-to"),
    ("sbscribe", "no such command 'sbscribe'; did you mean 'subscribe'"),
    ("send", "no destination"),
    ("send /queue/a one --lines", "not both"),
    ("send /queue/a --lines --json-lines", "use either --lines or --json"),
    ("send /queue/a one -t 'no type'", "MIME type"),
    ("send /queue/a one -H receipt:x", "receipt=True"),
    ("send /queue/a one -H nonsense", "NAME:VALUE"),
    ("send /queue/a one -H :9", "NAME:VALUE"),
    ("send /queue/a one -H ' : 9'", "NAME:VALUE"),
    ("send /queue/a one -H shop=7", "did you mean 'shop:7'?"),
    ("send /queue/a -d ';'", "--delimiter is for --lines"),
    *((f"send /queue/a --lines -d {text}", "expected text, such as ';'") for text in ("''", "{id}", "'x{id}'")),
    ("send /queue/a --file /missing", "'/missing' does not exist"),
    ("send /queue/a x --rate nan", "expected a number"),
    ("send /queue/a x --ttl inf", "expected a number"),
    ("send /queue/a x --count 1k", "expected a whole number, got '1k'"),
    (
        "send /queue/a one --stomp-version draft --stomp-version 1.0",
        "the early draft of STOMP cannot be negotiated",
    ),
    ("spool relative/path", "absolute"),
    ("spool /\udcff", "not UTF-8 text"),
    ("subscribe /queue/a --format {nonsense}", "unknown field 'nonsense'; expected one of base64, body"),
    ("subscribe /queue/a --format {}", "unknown field ''"),
    ("subscribe /queue/a --format {id", "a single '{'"),
    ("subscribe /queue/a --format id}", "a single '}'"),
    (r"subscribe /queue/a --format '\q'", r"unknown escape '\\q'; expected one of \n \r \t \0 \e \\ \xNN"),
    (r"subscribe /queue/a --format '\x4'", r"unknown escape '\\x'"),
    ("subscribe /queue/a --format '\\'", "unknown escape"),
    ("subscribe /queue/a --format {id} --headers", "--format excludes"),
    ("subscribe /queue/a --format {id} --json", "--format excludes"),
    ("subscribe /queue/a --format {id} --timestamps", "--timestamps is for text"),
    ("subscribe /queue/a --json --timestamps", "--timestamps is for text"),
    ("subscribe /queue/a --match shop:7", "expected NAME=VALUE, got 'shop:7'; did you mean 'shop=7'?"),
    ("subscribe /queue/a --output /dev/null/a --json", "--output writes bodies to files"),
    ("subscribe /queue/a --browse --peek", "--browse removes nothing"),
    ("subscribe /queue/a --browse --ack client", "--browse removes nothing"),
    ("subscribe /queue/a --browse --profile rabbitmq", "brows"),
    # Cumulative acks would take what is held.
    ("subscribe /queue/a --ack client --match a=b", "--ack client"),
    ("subscribe /queue/a --ack client --grep a", "--ack client"),
    ("subscribe /queue/a --ack client --peek", "--ack client"),
    *(
        (f"subscribe /queue/a --ack auto {flag}", "--ack auto takes messages off their queue before they are printed")
        for flag in ("--match a=b", "--grep a", "--peek", "-n 1")
    ),
    ("top orders --once", "pass --management"),
    ("top --once --management localhost:15672", "must be a URL"),
    ("top --once --management ftp://a", "must be a URL"),
    ("top --once --management http://", "must be a URL"),
    ("top --once --management http://a/ä", "must be a URL"),
    ("top --once --management http://a..b", "not a legal name"),
    ("top --once --management http://a:b", "the port of the URL of --management"),
    ("top --once --management http://ann:s3cret/7@a", "the port of the URL of --management"),
    ("top --once --spool spool", "must be an absolute path"),
    ("top orders --once --spool /s", "excludes QUEUE"),
    ("zzz", "no such command 'zzz'; there are bench, broker"),
]


@pytest.mark.parametrize(("line", "why"), REFUSED)
def test_command_when_it_cannot_be_meant_then_says_why_and_nothing_is_done(
    cli: Cli, stomp_broker_thread: ThreadedBroker, line: str, why: str
) -> None:
    if "spool" in line or line.startswith("receive"):
        pytest.importorskip("pyarrow", reason="pyarrow comes with the extra `spool`")
    publish(stomp_broker_thread, "one")

    done = cli(*shlex.split(line), input="x")

    assert (done.exit_code, done.stdout) == (ExitCode.USAGE, "")
    assert why in done.stderr
    assert "s3cret" not in done.output
    assert left(stomp_broker_thread) == 1


@pytest.mark.parametrize(
    ("line", "data", "why"),
    [
        ("send /queue/a --text", b"\xff", "requires UTF-8"),
        ("request /queue/a --text", b"\xff", "requires UTF-8"),
        ("request /queue/a", b"", "standard input is empty"),
        ("request /queue/a --file -", b"", "--empty"),
    ],
)
def test_command_when_its_input_cannot_be_sent_then_says_why(cli: Cli, line: str, data: bytes, why: str) -> None:
    done = cli(*shlex.split(line), input=data)

    assert done.exit_code == ExitCode.FAILED
    assert why in done.stderr
