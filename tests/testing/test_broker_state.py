from collections import Counter

import pytest

from trio_stomp.testing import BrokerOptions, BrokerStatistics, Refusal
from trio_stomp.testing.broker_state import BrokerState
from trio_stomp.types import Command, Headers

USERS = BrokerOptions(logins={"alice": "s3cret"})


def test_login_when_no_logins_are_set_then_anyone_comes_in() -> None:
    admission = BrokerState(BrokerOptions()).admit(Headers(), "s-1")

    assert (admission.login, admission.vhost, admission.client_id) == ("", None, None)


def test_login_when_passcode_fits_then_comes_in() -> None:
    headers = Headers({"login": "alice", "passcode": "s3cret", "client-id": "me"})

    admission = BrokerState(USERS).admit(headers, "s-1")

    assert (admission.login, admission.client_id) == ("alice", "me")


@pytest.mark.parametrize(
    "headers",
    [{}, {"login": "alice"}, {"login": "alice", "passcode": "S3cret"}, {"login": "bob", "passcode": "s3cret"}],
)
def test_login_when_unknown_or_passcode_wrong_then_refused_without_naming_the_passcode(headers: dict[str, str]) -> None:
    with pytest.raises(Refusal) as caught:
        BrokerState(USERS).admit(Headers(headers), "s-1")

    assert caught.value.message == "access refused"
    assert "3cret" not in caught.value.details


def test_vhost_when_any_is_taken_then_all_share_their_destinations() -> None:
    state = BrokerState(BrokerOptions())

    one, other = state.admit(Headers({"host": "a"}), "s-1"), state.admit(Headers({"host": "b"}), "s-2")

    assert one.namespace is other.namespace is state.namespace()


def test_vhost_when_several_then_each_has_its_own_destinations() -> None:
    state = BrokerState(BrokerOptions(vhosts={"/", "/test"}))

    one, other = state.admit(Headers(), "s-1"), state.admit(Headers({"host": "/test"}), "s-2")

    assert (one.vhost, other.vhost) == ("/", "/test")
    assert one.namespace is state.namespace("/") is state.namespace()
    assert other.namespace is state.namespace("/test")
    assert one.namespace is not other.namespace


def test_vhost_when_unknown_then_refused() -> None:
    """Row 1x-CONN-11."""
    with pytest.raises(Refusal, match="no such virtual host"):
        BrokerState(BrokerOptions(vhosts={"/"})).admit(Headers({"host": "other"}), "s-1")


def test_message_ids_when_several_vhosts_then_differ_across_them() -> None:
    state = BrokerState(BrokerOptions(vhosts={"/", "/test"}), name="x")

    ids = {state.namespace(vhost).new_message(Headers(), b"", 1).message_id for vhost in ("/", "/test")}

    assert ids == {"x-1", "x-2"}


def test_snapshot_when_counters_go_on_then_stays_as_it_was() -> None:
    statistics = BrokerStatistics(connections=1)
    statistics.received[Command.SEND] += 2

    snapshot = statistics.snapshot()
    statistics.received[Command.SEND] += 1
    statistics.connections = 2

    assert snapshot == BrokerStatistics(connections=1, received=Counter({Command.SEND: 2}))
