from pathlib import Path

import pytest

from trio_stomp.cli.doctor_findings import Finding, Status, Step
from trio_stomp.cli.doctor_transports import diagnose_by_connecting
from trio_stomp.cli.exit_codes import CommandFailed
from trio_stomp.testing import BrokerOptions, open_broker

MARKS = {Status.OK: "+", Status.WARNING: "!", Status.FAILED: "x", Status.SKIPPED: "-"}


async def diagnosed(url: str) -> tuple[str, dict[Step, Finding]]:
    """One mark for each step, and the findings."""
    reported: list[Finding] = []
    findings = await diagnose_by_connecting(url, {"connect_timeout": 5}, reported.append)
    assert reported == findings
    assert [finding.step for finding in findings] == list(Step)
    assert "s3cret" not in str(findings)
    return "".join(MARKS[finding.status] for finding in findings), {finding.step: finding for finding in findings}


# The marks are of: DNS, TCP, TLS, CONNECT, login, vhost, heart-beat, broker.


async def test_doctor_when_a_websocket_is_well_then_tells_what_was_agreed() -> None:
    async with open_broker(websocket=True, options=BrokerOptions(server="RabbitMQ/3.13.0")) as broker:
        marks, findings = await diagnosed(broker.url)

    assert marks == "---++-++"
    assert findings[Step.BROKER].what.startswith("RabbitMQ 3.13.0")
    assert findings[Step.HEART_BEAT].what == "agreed: the broker every 10 s, this side 10 s"


async def test_doctor_when_the_login_is_refused_then_that_step_failed() -> None:
    async with open_broker(websocket=True, options=BrokerOptions(logins={"guest": "another"})) as broker:
        marks, findings = await diagnosed(f"ws://guest:s3cret@127.0.0.1:{broker.port}")

    assert marks == "----x---"
    assert "access refused" in findings[Step.LOGIN].what


async def test_doctor_when_a_plain_port_is_taken_for_a_websocket_then_said_so() -> None:
    async with open_broker() as broker:
        marks, findings = await diagnosed(f"ws://127.0.0.1:{broker.port}")

    assert marks == "---x----"
    assert findings[Step.CONNECT].what.startswith("websocket: ")


async def test_doctor_when_there_is_no_such_socket_then_said_so(tmp_path: Path) -> None:
    marks, findings = await diagnosed(f"stomp+unix://{tmp_path}/none")

    assert marks == "-x------"
    assert findings[Step.TCP].what.startswith("unix: ")


async def test_doctor_when_the_url_cannot_be_meant_then_refused_without_showing_it() -> None:
    with pytest.raises(CommandFailed) as caught:
        await diagnosed("stomp+unix://ann:s3cret@host/x")

    assert "s3cret" not in str(caught.value)
