"""The doctor where the way to the broker is no plain one: WebSocket, Unix socket, proxy.

There it has no eyes of its own: `connect` takes the way, and what it says is put to the steps.
"""

from __future__ import annotations

from typing import Final

from trio_stomp.cli.doctor_findings import Finding, Report, Status, Step
from trio_stomp.cli.doctor_handshake import Answer, Kind
from trio_stomp.cli.doctor_target import Target
from trio_stomp.cli.doctor_verdicts import broker_finding, on_refused
from trio_stomp.cli.exit_codes import CommandFailed, ExitCode
from trio_stomp.client import Client, ConnectOptions, connect
from trio_stomp.errors import BrokerError, ConnectError, ConnectFailure, LocalProtocolError
from trio_stomp.protocol import ClientProtocol

__all__ = ["diagnose_by_connecting"]

# Where a step of `connect` belongs, and which steps it has behind it then.
_STEPS: Final = {
    "dns": Step.DNS,
    "tcp": Step.TCP,
    "unix": Step.TCP,
    "proxy": Step.TCP,
    "tls": Step.TLS,
    "websocket": Step.CONNECT,
    "connect": Step.CONNECT,
    "timeout": Step.CONNECT,
}


async def diagnose_by_connecting(url: str, options: ConnectOptions, report: Report) -> list[Finding]:
    """Connect, and put what was seen to the steps.

    Args:
        url: Where to.
        options: As for `connect`.
        report: Is told of each finding at once.

    Returns:
        One finding for each step.

    Raises:
        CommandFailed: The URL or an option cannot be meant.

    Cancellation: what was opened is closed.
    """
    try:
        async with connect(url, **options) as client:
            found = _on_client(client)
    except ConnectError as error:
        found = _on_failure(error.failures[0])
    except LocalProtocolError as error:
        raise CommandFailed(str(error), ExitCode.USAGE) from error
    by_step = {finding.step: finding for finding in found}
    findings = [
        by_step.get(step, Finding(step=step, status=Status.SKIPPED, what="no look of its own on this way"))
        for step in Step
    ]
    for finding in findings:
        report(finding)
    return findings


def _on_client(client: Client) -> list[Finding]:
    terms = client.heart_beat
    beats = f"agreed: the broker every {terms.server_sends_seconds:g} s, this side {terms.client_sends_seconds:g} s"
    return [
        Finding(step=Step.CONNECT, status=Status.OK, what=f"the broker answers, and speaks STOMP {client.version}"),
        Finding(step=Step.LOGIN, status=Status.OK, what="let in"),
        Finding(step=Step.HEART_BEAT, status=Status.OK, what=beats),
        broker_finding(client.server, None),
    ]


def _on_failure(failure: ConnectFailure) -> list[Finding]:
    if isinstance(failure.cause, BrokerError):
        # The same words as on the plain way. What was sent is not known here, and not needed to tell the step.
        answer = Answer(kind=Kind.REFUSED, seconds=0, protocol=ClientProtocol())
        refused = on_refused(failure.cause, answer, Target(host="", port=0, login="?", passcode="?"))
        return [
            Finding(step=each.step, status=each.status, what=each.what)
            for each in refused
            if each.status is Status.FAILED
        ]
    step = _STEPS.get(failure.step, Step.CONNECT)
    return [Finding(step=step, status=Status.FAILED, what=f"{failure.step}: {failure.reason}")]
