"""One failure, raised many times."""

from __future__ import annotations

import pickle
import traceback

import pytest

from trio_stomp.errors import BrokerError, ConnectError, ConnectFailure, ConnectionLost, StompError
from trio_stomp.session.failures import renewed


@pytest.mark.parametrize(
    "error",
    [
        ConnectionLost("gone"),
        BrokerError(message="no", headers={"receipt-id": "r-1"}, body=b"why"),
        ConnectError([ConnectFailure(address="stomp://b:1", step="dns", reason="unknown")]),
    ],
)
def test_renewed_when_made_then_equal_in_all_but_identity(error: StompError) -> None:
    error.__cause__ = OSError("below")
    fresh = renewed(error)
    assert fresh is not error
    assert type(fresh) is type(error)
    assert str(fresh) == str(error)
    assert fresh.__cause__ is error.__cause__
    assert fresh.__traceback__ is None


def test_renewed_when_raised_then_the_first_keeps_its_own_traceback() -> None:
    first = ConnectionLost("gone")
    with pytest.raises(ConnectionLost):
        raise renewed(first)
    assert first.__traceback__ is None


def test_renewed_when_raised_while_another_error_is_handled_then_that_one_is_not_shown() -> None:
    first = ConnectionLost("gone")
    with pytest.raises(ConnectionLost) as caught:
        try:
            int("unrelated")
        except ValueError:
            raise renewed(first)  # noqa: B904  # as in a handler of the program
    assert "unrelated" not in "".join(traceback.format_exception(caught.value))


def test_broker_error_when_pickled_then_all_of_it_arrives() -> None:
    error = BrokerError(message="no", headers={"receipt-id": "r-1"}, body=b"why")
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own bytes
    assert (copy.message, copy.body, copy.receipt_id, str(copy)) == ("no", b"why", "r-1", "no: why")
