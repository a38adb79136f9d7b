"""What the doctor finds: one finding for each step of connecting, in the order in which they are taken."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from trio_stomp.cli.exit_codes import ExitCode

__all__ = ["Finding", "Report", "Status", "Step", "duration", "exit_code_for"]


class Step(enum.StrEnum):
    """The steps of connecting."""

    DNS = "DNS"
    TCP = "TCP"
    TLS = "TLS"
    CONNECT = "CONNECT"
    LOGIN = "login"
    VHOST = "vhost"
    HEART_BEAT = "heart-beat"
    BROKER = "broker"


class Status(enum.StrEnum):
    """How a step went.

    Attributes:
        OK: As it should.
        WARNING: Well enough, but something is odd.
        FAILED: Here it ends.
        SKIPPED: It was not reached, or is not needed.
    """

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """How one step went.

    Attributes:
        step: The step.
        status: How it went.
        what: What was seen.
        advice: What to do about it.
    """

    step: Step
    status: Status
    what: str
    advice: tuple[str, ...] = ()


# Is told of each finding as soon as there is one.
Report = Callable[[Finding], None]


def exit_code_for(findings: list[Finding]) -> ExitCode:
    """How the process ends that has found this."""
    failed = {finding.step for finding in findings if finding.status is Status.FAILED}
    if not failed:
        return ExitCode.OK
    if failed & {Step.LOGIN, Step.VHOST}:
        return ExitCode.REFUSED
    return ExitCode.NOT_CONNECTED if failed & {Step.DNS, Step.TCP, Step.TLS, Step.CONNECT} else ExitCode.FAILED


def duration(seconds: float) -> str:
    """A duration, for people."""
    # The bound is below 1 s by what rounding to three digits may add.
    return f"{seconds * 1000:.3g} ms" if seconds < 0.9995 else f"{seconds:.3g} s"  # noqa: PLR2004  # see above
