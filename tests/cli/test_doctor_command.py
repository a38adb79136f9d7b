import io
import json

import pytest
from rich.console import Console

from tests.cli.conftest import Cli
from trio_stomp.cli.doctor_command import as_json, print_finding
from trio_stomp.cli.doctor_findings import Finding, Status, Step
from trio_stomp.cli.exit_codes import ExitCode
from trio_stomp.testing import Broker, BrokerOptions, ThreadedBroker

FAILURE = Finding(step=Step.LOGIN, status=Status.FAILED, what="no\n\x1b[2J", advice=("try again",))


@pytest.fixture
def stomp_broker_options() -> BrokerOptions:
    # No heart-beats, so that nobody waits for one.
    return BrokerOptions(logins={"guest": "s3cret"}, heart_beat=(0, 0))


def test_doctor_when_all_is_well_then_says_so(cli: Cli) -> None:
    done = cli("doctor")

    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[-1] == "all is well"
    assert [line.split()[1] for line in lines if line[:1] in "✓!✗-"] == [
        *("DNS", "TCP", "TLS", "CONNECT", "login", "vhost", "heart-beat", "broker")
    ][:8]
    assert "s3cret" not in done.output


def test_doctor_when_the_login_is_refused_then_advises_and_ends_with_its_code(
    cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    done = cli("doctor", "-u", f"stomp://guest@127.0.0.1:{stomp_broker_thread.port}")

    assert done.exit_code == ExitCode.REFUSED
    assert "✗ login" in done.stdout
    assert "-> no passcode was sent for 'guest'" in done.stdout
    assert done.stdout.endswith("it does not work\n")


def test_doctor_when_several_brokers_are_named_then_each_is_examined(
    cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    done = cli("doctor", "--json", "-u", stomp_broker_thread.url, "-u", "stomp://127.0.0.1:1")

    well, refused = map(json.loads, done.stdout.splitlines())
    assert done.exit_code == ExitCode.NOT_CONNECTED
    assert (well["healthy"], refused["healthy"]) == (True, False)
    assert refused["address"] == "127.0.0.1:1"
    assert [step["status"] for step in refused["steps"]][:2] == ["skipped", "failed"]


def test_doctor_when_the_url_is_none_then_a_matter_of_usage(cli: Cli) -> None:
    done = cli("doctor", "-u", "http://ann:s3cret@host")

    assert done.exit_code == ExitCode.USAGE
    assert "s3cret" not in done.output


def test_doctor_when_nothing_listens_then_says_so(cli: Cli, stomp_broker_thread: ThreadedBroker) -> None:
    stomp_broker_thread.call(Broker.stop_listening)

    done = cli("doctor")

    assert done.exit_code == ExitCode.NOT_CONNECTED
    assert "Connection refused" in done.stdout


@pytest.mark.parametrize(("encoding", "mark"), [("utf-8", "✗"), ("ascii", "x")])
def test_finding_when_printed_then_harmless_and_in_what_the_output_can_hold(encoding: str, mark: str) -> None:
    octets = io.BytesIO()
    file = io.TextIOWrapper(octets, encoding=encoding)

    print_finding(FAILURE, Console(file=file))

    file.flush()
    assert octets.getvalue().decode(encoding) == (f"{mark} login       no\\n\\x1b[2J\n              -> try again\n")


def test_findings_when_printed_as_json_then_whole() -> None:
    assert json.loads(as_json("host:1", [FAILURE])) == {
        "address": "host:1",
        "healthy": False,
        "steps": [{"step": "login", "status": "failed", "what": FAILURE.what, "advice": ["try again"]}],
    }


def test_doctor_when_the_way_is_no_plain_one_then_takes_what_connect_says(
    cli: Cli, stomp_broker_thread: ThreadedBroker
) -> None:
    done = cli("doctor", "-u", f"ws://ann:s3cret@127.0.0.1:{stomp_broker_thread.port}/ws?token=s3cret")

    assert done.exit_code == ExitCode.NOT_CONNECTED
    assert done.stdout.startswith(f"ws://127.0.0.1:{stomp_broker_thread.port}/ws\n")
    assert "✗ CONNECT     websocket: " in done.stdout
    assert "s3cret" not in done.output
