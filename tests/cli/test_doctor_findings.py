import pytest

from trio_stomp.cli.doctor_findings import Finding, Status, Step, duration, exit_code_for
from trio_stomp.cli.exit_codes import ExitCode


@pytest.mark.parametrize(
    ("failed", "code"),
    [
        (None, ExitCode.OK),
        (Step.DNS, ExitCode.NOT_CONNECTED),
        (Step.TLS, ExitCode.NOT_CONNECTED),
        (Step.CONNECT, ExitCode.NOT_CONNECTED),
        (Step.LOGIN, ExitCode.REFUSED),
        (Step.VHOST, ExitCode.REFUSED),
        (Step.HEART_BEAT, ExitCode.FAILED),
    ],
)
def test_exit_code_when_a_step_failed_then_that_of_connecting(failed: Step | None, code: ExitCode) -> None:
    statuses = [Status.FAILED if step is failed else Status.WARNING for step in Step]
    findings = [Finding(step=step, status=status, what="") for step, status in zip(Step, statuses, strict=True)]

    assert exit_code_for(findings) is code


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.000123, "0.123 ms"), (0.0456, "45.6 ms"), (0.9999, "1 s"), (12.345, "12.3 s")],
)
def test_duration_when_shown_then_in_three_digits(seconds: float, text: str) -> None:
    assert duration(seconds) == text
