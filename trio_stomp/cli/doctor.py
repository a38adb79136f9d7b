"""Why a connection fails: connecting step by step, with a second look where a step fails.

`connect` takes the same steps and names the one that failed. What is here goes on where it gives up: it asks the port
for another protocol, reads a certificate that is not trusted, looks at the other usual ports, and waits for a
heart-beat.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import trio

from trio_stomp.cli.doctor_findings import Finding, Report, Status, Step
from trio_stomp.cli.doctor_handshake import Answer, Kind, knock
from trio_stomp.cli.doctor_network import Network, look_up, reach
from trio_stomp.cli.doctor_pulse import feel_pulse
from trio_stomp.cli.doctor_target import Target
from trio_stomp.cli.doctor_tls import certificate_at, secure
from trio_stomp.cli.doctor_verdicts import broker_finding, on_connected, on_refused, on_unanswered

__all__ = ["diagnose"]

# Seconds for leaving well; what was to be found has been found.
_FAREWELL: Final = 2.0


@dataclass(frozen=True, slots=True)
class _Examination:
    """One run through the steps."""

    target: Target
    network: Network
    findings: list[Finding]
    report: Report

    def add(self, finding: Finding) -> None:
        self.findings.append(finding)
        self.report(finding)


async def diagnose(target: Target, network: Network, report: Report) -> list[Finding]:
    """Connect step by step, and say how each step went.

    Args:
        target: The broker.
        network: How it is reached.
        report: Is told of each finding at once.

    Returns:
        One finding for each step, those that were not reached included.

    Cancellation: what was opened is closed.
    """
    examination = _Examination(target, network, [], report)
    await _take_steps(examination)
    taken = {finding.step for finding in examination.findings}
    for step in Step:
        if step not in taken:
            examination.add(Finding(step=step, status=Status.SKIPPED, what="not reached"))
    return examination.findings


async def _take_steps(examination: _Examination) -> None:
    target, network = examination.target, examination.network
    finding, addresses = await look_up(target, network)
    examination.add(finding)
    if not addresses:
        return
    finding, reached = await reach(target, addresses, network)
    examination.add(finding)
    if reached is None:
        return
    stream: trio.abc.Stream | None = reached.stream
    if target.tls:
        finding, stream = await secure(reached.stream, reached.address, target, network)
        examination.add(finding)
    else:
        secret = "" if target.passcode is None else ", the passcode included,"
        what = f"not asked for: what is sent{secret} can be read on the way"
        examination.add(Finding(step=Step.TLS, status=Status.SKIPPED, what=what))
    if stream is None:
        return
    try:
        await _talk(examination, stream, reached.address)
    finally:
        # Closing by force does not wait.
        await trio.aclose_forcefully(stream)  # noqa: ASYNC102  # see above


async def _talk(examination: _Examination, stream: trio.abc.Stream, address: str) -> None:
    target = examination.target
    answer = await knock(stream, target)
    if answer.refusal is not None:
        found = on_refused(answer.refusal.as_exception(), answer, target)
    elif answer.connected is not None:
        found = on_connected(answer.connected, answer, target)
    else:
        # A look with TLS at a port that was silent or rude without.
        is_odd = not target.tls and answer.kind in (Kind.CLOSED, Kind.BROKEN, Kind.SILENT, Kind.STRANGE)
        certificate = await certificate_at(address, target, examination.network) if is_odd else None
        found = [on_unanswered(answer, certificate, target)]
    for finding in found:
        examination.add(finding)
    if answer.connected is not None:
        examination.add(await feel_pulse(stream, answer.protocol, answer.connected.terms))
        examination.add(broker_finding(answer.connected.server, target.profile))
        await _leave(stream, answer)


async def _leave(stream: trio.abc.Stream, answer: Answer) -> None:
    """Say DISCONNECT, so that the broker does not take this for a client that died."""
    with trio.move_on_after(_FAREWELL):
        try:
            await stream.send_all(answer.protocol.disconnect("bye"))
            while await stream.receive_some(4096):
                pass
        except trio.BrokenResourceError:
            return
