"""Transactions: all of it or nothing, by hand too, and what fails without being waited for."""

from __future__ import annotations

import pytest

from tests.blocking.conftest import QUEUE, bodies, lose
from trio_stomp import LocalProtocolError, OutgoingMessage, TransactionLost
from trio_stomp.blocking import Client, Message, Transaction
from trio_stomp.testing import ThreadedBroker
from trio_stomp.types import Settlement, TransactionState


def state(transaction: Transaction) -> TransactionState:
    """Its state now: the type checkers think that it stays what it was."""
    return transaction.state


def settlement(message: Message) -> Settlement:
    """What has become of it by now."""
    return message.settlement


def test_transaction_when_it_ends_well_then_all_takes_effect_in_order(broker: ThreadedBroker, client: Client) -> None:
    with client.transaction() as transaction:
        assert state(transaction) is TransactionState.OPEN
        transaction.send(QUEUE, b"1", headers={"a": "b"}, content_type="text/plain")
        transaction.send_many([OutgoingMessage(QUEUE, b"2"), OutgoingMessage(QUEUE, "ü")])
        assert bodies(broker) == []

    assert state(transaction) is TransactionState.COMMITTED
    assert transaction.id
    assert bodies(broker) == [b"1", b"2", "ü".encode()]


def test_send_when_headers_are_used_again_then_each_message_has_those_of_its_call(
    broker: ThreadedBroker, client: Client
) -> None:
    mapping: dict[str, str] = {}
    pairs: list[tuple[str, str]] = []
    with client.transaction() as transaction:
        for number in map(str, range(100)):
            mapping["number"] = number
            transaction.send(QUEUE, b"", headers=mapping)
            pairs[:] = [("number", number)]
            transaction.send(QUEUE, b"", headers=pairs)

    numbers = broker.call(lambda inner: [message.headers["number"] for message in inner.messages(QUEUE)])
    assert numbers == [number for number in map(str, range(100)) for _ in range(2)]


def test_transaction_when_it_raises_then_nothing_takes_effect(broker: ThreadedBroker, client: Client) -> None:
    seen: list[Transaction] = []
    with pytest.raises(ValueError, match="mine"):
        with client.transaction() as transaction:
            seen.append(transaction)
            transaction.send(QUEUE, b"1")
            raise ValueError("mine")
    client.send("/queue/other", b"", receipt=True)

    assert state(seen[0]) is TransactionState.ABORTED
    assert bodies(broker) == []


def test_commit_when_by_hand_then_the_transaction_takes_nothing_more(broker: ThreadedBroker, client: Client) -> None:
    with client.transaction() as transaction:
        transaction.send(QUEUE, b"1")
        transaction.commit()
        assert bodies(broker) == [b"1"]
        with pytest.raises(LocalProtocolError, match="begin another"):
            transaction.send(QUEUE, b"2")


def test_abort_when_by_hand_then_nothing_takes_effect(broker: ThreadedBroker, client: Client) -> None:
    with client.transaction() as transaction:
        transaction.send(QUEUE, b"1")
        transaction.abort()
    client.send("/queue/other", b"", receipt=True)

    assert state(transaction) is TransactionState.ABORTED
    assert bodies(broker) == []


def test_ack_when_committed_then_settled_and_when_aborted_then_open_again(
    broker: ThreadedBroker, client: Client
) -> None:
    client.send(QUEUE, b"1")
    with client.subscribe(QUEUE) as subscription:
        message = next(subscription)
        with client.transaction() as transaction:
            transaction.ack(message)
            assert settlement(message) is Settlement.IN_TRANSACTION
            transaction.abort()
        assert settlement(message) is Settlement.UNSETTLED
        with client.transaction() as transaction:
            transaction.ack(message)
            with pytest.raises(LocalProtocolError, match="in a transaction"):
                transaction.ack(message)
        assert settlement(message) is Settlement.ACKED

    assert bodies(broker) == []


def test_nack_when_committed_then_delivered_again(client: Client) -> None:
    client.send(QUEUE, b"1")
    with client.subscribe(QUEUE) as subscription:
        message = next(subscription)
        with client.transaction() as transaction:
            transaction.nack(message)

        assert settlement(message) is Settlement.NACKED
        assert next(subscription).redelivered


def test_transaction_when_the_link_is_lost_before_commit_then_lost(broker: ThreadedBroker, client: Client) -> None:
    seen: list[Transaction] = []
    with pytest.raises(TransactionLost):
        with client.transaction() as transaction:
            seen.append(transaction)
            transaction.send(QUEUE, b"1")
            lose(broker, client)
            transaction.send(QUEUE, b"2")

    assert state(seen[0]) is TransactionState.ABORTED
    assert bodies(broker) == []


def test_transaction_when_what_was_posted_has_failed_then_aborted_and_raised(
    broker: ThreadedBroker, client: Client
) -> None:
    seen: list[Transaction] = []
    with pytest.raises(LocalProtocolError, match="posted"):
        with client.transaction() as transaction:
            seen.append(transaction)
            transaction.send(QUEUE, b"1")
            transaction._calls.failures.append(LocalProtocolError("posted"))
    client.send("/queue/other", b"", receipt=True)

    assert state(seen[0]) is TransactionState.ABORTED
    assert bodies(broker) == []
