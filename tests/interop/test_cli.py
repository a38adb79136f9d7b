"""The command ``trio-stomp`` at the real brokers: what they make of it, and what its doctor makes of them."""

from __future__ import annotations

import json
from typing import Literal

import pytest
from click.testing import CliRunner, Result

from tests.interop.bench import Destination
from tests.interop.broker_facts import Broker
from trio_stomp.cli.command_line import command_line
from trio_stomp.cli.running import ExitCode

MARKS = {"ok": "+", "warning": "!", "failed": "x", "skipped": "-"}


def cli(url: str, *arguments: str, octets: str | None = None) -> Result:
    return CliRunner().invoke(command_line, [*arguments, "-u", url], input=octets)


def examined(broker: Broker, url: str, *arguments: str) -> tuple[str, dict[str, str], int]:
    """One mark for each step, what was seen at each, and the status."""
    done = cli(url, "doctor", "--json", "--connect-timeout", "3", *arguments)
    steps = json.loads(done.stdout)["steps"]
    assert "s3cret" not in done.output
    return (
        "".join(MARKS[step["status"]] for step in steps),
        {step["step"]: step["what"] for step in steps},
        done.exit_code,
    )


def test_messages_when_sent_moved_and_printed_then_arrive_whole(broker: Broker, destination: Destination) -> None:
    url, first, second = broker.url(), destination("a"), destination("b")
    lines = "".join(f"{number}\n" for number in range(250))

    sent = cli(url, "send", first, "--lines", "--text", "-H", "shop:7", octets=lines)
    peeked = cli(url, "subscribe", first, "--peek", "-n", "1", "--prefetch", "10", "-w", "10")
    moved = cli(url, "move", first, second, "--idle", "1")
    printed = cli(url, "subscribe", second, "--json", "-n", "250", "-w", "10")

    assert (sent.exit_code, peeked.exit_code, moved.exit_code, printed.exit_code) == (0, 0, 0, 0), printed.output
    assert peeked.stdout == "0\n"
    assert moved.stdout == "250 messages moved\n"
    messages = [json.loads(line) for line in printed.stdout.splitlines()]
    assert "".join(message["body"] + "\n" for message in messages) == lines
    assert {message["headers"]["shop"] for message in messages} == {"7"}


def test_purge_when_some_are_selected_then_only_those_are_gone(broker: Broker, destination: Destination) -> None:
    url, queue = broker.url(), destination("a")
    sent = cli(url, "send", queue, "{n}", "--template", "--count", "20", "--rate", "1000", "-H", "shop:{n}")

    some = cli(url, "purge", queue, "--yes", "--match", "shop=7", "--idle", "1")
    rest = cli(url, "purge", queue, "--yes", "--idle", "1")
    nothing = cli(url, "subscribe", queue, "-w", "0.5")

    assert (sent.exit_code, some.exit_code, rest.exit_code, nothing.exit_code) == (0, 0, 0, 0), rest.output
    assert some.stdout == "1 message removed, 19 left in place\n"
    assert (rest.stdout, nothing.stdout) == ("19 messages removed\n", "")


def test_ping_when_run_then_every_round_trip_is_answered(broker: Broker) -> None:
    done = cli(broker.url(), "ping", "--count", "5", "--interval", "1ms")

    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1].startswith("5 round trips, 0 without an answer: fastest ")


def test_bench_when_run_then_every_message_comes_back(broker: Broker) -> None:
    done = cli(broker.url(), "bench", "-n", "500", "--json")

    assert json.loads(done.stdout)["messages"] == 500


# The marks are of: DNS, TCP, TLS, CONNECT, login, vhost, heart-beat, broker.


def vhost_mark(broker: Broker) -> str:
    return "+" if broker.facts.refuses_vhosts else "-"


def test_doctor_when_all_is_well_then_every_step_is(broker: Broker) -> None:
    plain = examined(broker, broker.url())
    tls = examined(broker, broker.url("stomp+ssl"), "--ca", broker.tls["ca"])

    assert plain[0] == f"-+-++{vhost_mark(broker)}++"
    assert tls[0] == f"-++++{vhost_mark(broker)}++"
    assert (plain[2], tls[2]) == (0, 0)
    assert "; profile " in plain[1]["broker"]
    assert "the certificate is for localhost" in tls[1]["TLS"]


def test_doctor_when_the_vhost_is_wrong_then_that_step_failed_where_there_are_some(broker: Broker) -> None:
    marks, seen, code = examined(broker, broker.url(), "--vhost", "nope")

    if broker.facts.refuses_vhosts:
        assert (marks, code) == ("-+-++x--", ExitCode.REFUSED)
    else:
        assert (marks, code) == ("-+-++!++", 0)
        assert "has no virtual hosts" in seen["vhost"]


def test_doctor_when_the_passcode_is_wrong_then_the_login_failed(broker: Broker) -> None:
    marks, _, code = examined(broker, broker.url(user="guest:s3cret"))

    assert (marks, code) == ("-+-+x---", ExitCode.REFUSED)


@pytest.mark.parametrize(
    ("url", "ca", "marks", "said"),
    [
        ("stomps://127.0.0.1:{stomp}", None, "-+x-----", "this is a plain STOMP port"),
        ("stomp://127.0.0.1:{stomp+ssl}", None, "-+-x----", "this port speaks TLS"),
        ("stomps://127.0.0.1:{stomp+ssl}", None, "-+x-----", "is not trusted"),
        ("stomps://127.0.0.1:{stomp+ssl}", "other_ca", "-+x-----", "the certificate is for localhost"),
        ("stomps://127.0.0.1:{mtls}", "ca", "-+x-----", "demands a client certificate"),
    ],
)
def test_doctor_when_tls_is_not_what_the_broker_has_then_says_so(
    broker: Broker, url: str, ca: Literal["ca", "other_ca"] | None, marks: str, said: str
) -> None:
    if "mtls" in url and "mtls" not in broker.ports:
        pytest.skip(f"{broker.id} has no port here that wants a certificate")

    found, seen, code = examined(broker, url.format_map(broker.ports), *(("--ca", broker.tls[ca]) if ca else ()))

    assert (found, code) == (marks, ExitCode.NOT_CONNECTED)
    assert said in seen["TLS"] + seen["CONNECT"]
