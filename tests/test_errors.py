from __future__ import annotations

import copy
import pickle

import pytest

from trio_stomp import errors
from trio_stomp.errors import (
    AuthenticationError,
    BrokerError,
    CommitTimeout,
    ConnectError,
    ConnectFailure,
    ConnectionLost,
    DeliveryStatus,
    HeartBeatTimeout,
    LimitExceeded,
    LocalProtocolError,
    OperationTimeout,
    OutcomeUnknown,
    ProtocolError,
    RemoteProtocolError,
    RequestTimeout,
    StompError,
    UnconfirmedError,
    UnconfirmedMessage,
    UnconfirmedTimeout,
)

CLASSES = [found for name in errors.__all__ if issubclass(found := getattr(errors, name), BaseException)]
UNCONFIRMED = UnconfirmedMessage(id="a-1", destination="/queue/a", delivery=DeliveryStatus.UNKNOWN, reason="no RECEIPT")
FAILURE = ConnectFailure(address="stomp://a:1", step="tcp", reason="refused")


@pytest.mark.parametrize("kind", CLASSES)
def test_error_when_of_this_library_then_is_a_stomp_error_and_in_the_drawing(kind: type[Exception]) -> None:
    assert issubclass(kind, StompError)
    assert kind.__doc__
    assert kind.__name__ in (errors.__doc__ or "")


def test_exports_when_compared_with_the_classes_of_the_module_then_are_all_of_them() -> None:
    here = [value for value in vars(errors).values() if isinstance(value, type)]
    defined = {value.__name__ for value in here if value.__module__ == errors.__name__}

    assert set(errors.__all__) == defined
    assert list(errors.__all__) == sorted(errors.__all__)


@pytest.mark.parametrize(
    ("kind", "parent"),
    [
        (AuthenticationError, ConnectError),
        (HeartBeatTimeout, ConnectionLost),
        (LocalProtocolError, ProtocolError),
        (RemoteProtocolError, ProtocolError),
        (LimitExceeded, RemoteProtocolError),
        (OperationTimeout, TimeoutError),
        (RequestTimeout, OperationTimeout),
        (CommitTimeout, OperationTimeout),
        (CommitTimeout, OutcomeUnknown),
        (UnconfirmedTimeout, OperationTimeout),
        (UnconfirmedTimeout, UnconfirmedError),
    ],
)
def test_error_when_it_is_a_special_case_then_is_caught_as_the_general_one(
    kind: type[StompError], parent: type[Exception]
) -> None:
    assert issubclass(kind, parent)


def test_connect_error_when_several_hosts_failed_then_tells_each_cause() -> None:
    other = ConnectFailure(address="stomp://b:2", step="dns", reason="unknown name", cause=OSError("x"))

    error = ConnectError([FAILURE, other])

    assert error.failures == (FAILURE, other)
    assert str(error) == "could not connect: stomp://a:1: tcp: refused; stomp://b:2: dns: unknown name"


@pytest.mark.parametrize(
    ("message", "body", "told"),
    [
        ("no", b"", "no"),
        ("no", b"no\n", "no"),
        ("no", b"why\n", "no: why"),
        ("no", b"\xff", "no: \ufffd"),
        ("no", b"x" * 10_000, "no: " + "x" * 300 + "..."),
        (
            "no",
            (
                b"java.io.IOException: why\r\n\tat org.a.B.c(B.java:1)\r\n\tat org.a.B.d(B.java:2)\r\n"
                b"Caused by: java.lang.Error: because\r\n\t... 7 more\r\n"
            ),
            "no: java.io.IOException: why\\nCaused by: java.lang.Error: because (and 3 lines of a Java stack trace)",
        ),
        # The frame that was refused: behind the reason, or before it, as in the example of the specification.
        ("no", b"why\n-----\nSEND [destination:a]", "no: why"),
        ("no", b"The message:\n-----\nSEND\n-----\nwhy", "no: The message:\\n-----\\nSEND\\n-----\\nwhy"),
    ],
)
def test_broker_error_when_printed_then_shows_message_and_the_start_of_its_body(
    message: str, body: bytes, told: str
) -> None:
    assert str(BrokerError(message=message, headers={}, body=body)) == told


def test_broker_error_when_the_frame_names_a_receipt_then_tells_it() -> None:
    assert BrokerError(message="no", headers={"receipt-id": "7"}, body=b"").receipt_id == "7"
    assert BrokerError(message="no", headers={}, body=b"").receipt_id is None


@pytest.mark.parametrize(
    "error",
    [
        ConnectError([FAILURE]),
        AuthenticationError([FAILURE, FAILURE]),
        BrokerError(message="no", headers={"receipt-id": "7", "a": "b"}, body=b"why"),
        LimitExceeded("too much"),
        OperationTimeout("late", messages=[UNCONFIRMED], sent=2),
        CommitTimeout("late"),
        UnconfirmedError([UNCONFIRMED]),
        UnconfirmedTimeout("late", messages=[UNCONFIRMED], sent=1),
    ],
)
def test_error_when_copied_or_pickled_then_is_the_same(error: StompError) -> None:
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):  # noqa: S301  # our own bytes
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert vars(twin) == vars(error)
