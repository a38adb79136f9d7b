import pytest

from trio_stomp.cli.exit_codes import CommandFailed, ExitCode, exit_code_of
from trio_stomp.errors import (
    AuthenticationError,
    BrokerError,
    ConnectError,
    ConnectionLost,
    HeartBeatTimeout,
    LocalProtocolError,
    NotConfirmed,
    OutcomeUnknown,
    RequestTimeout,
    StompError,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConnectError([]), ExitCode.NOT_CONNECTED),
        (AuthenticationError([]), ExitCode.REFUSED),
        (ConnectionLost("x"), ExitCode.LOST),
        (HeartBeatTimeout("x"), ExitCode.LOST),
        (RequestTimeout("x"), ExitCode.TIMED_OUT),
        (NotConfirmed([]), ExitCode.NOT_CONFIRMED),
        (OutcomeUnknown("x"), ExitCode.NOT_CONFIRMED),
        (LocalProtocolError("x"), ExitCode.USAGE),
        (BrokerError(message="x", headers={}, body=b""), ExitCode.FAILED),
        (CommandFailed("x"), ExitCode.FAILED),
        (CommandFailed("x", ExitCode.TIMED_OUT), ExitCode.TIMED_OUT),
    ],
)
def test_exit_code_when_an_error_ends_the_command_then_tells_its_kind(
    error: StompError | CommandFailed, code: ExitCode
) -> None:
    assert exit_code_of(error) is code
