import pytest

from tests.testing.test_deliveries import Scene
from trio_stomp import AckMode
from trio_stomp.testing import Refusal
from trio_stomp.testing.broker_transactions import Claim, Transactions
from trio_stomp.testing.deliveries import Consumer
from trio_stomp.testing.destinations import StoredMessage


def message(body: str = "x") -> StoredMessage:
    return StoredMessage(message_id="m", headers=(), body=body.encode())


def claim(consumer: Consumer, tag: str) -> Claim:
    return Claim(consumer, consumer.claim(tag))


def test_begin_when_id_is_in_use_then_refused() -> None:
    """Row 12-TX-2."""
    transactions = Transactions(limit=10)
    transactions.begin("t")

    with pytest.raises(Refusal, match="transaction exists"):
        transactions.begin("t")


def test_begin_when_id_was_in_use_then_it_is_free_again() -> None:
    """Row 12-TX-2."""
    transactions = Transactions(limit=10)
    transactions.begin("t")
    transactions.end("t")

    transactions.begin("t")

    assert len(transactions) == 1


def test_end_when_there_is_none_then_refused() -> None:
    """Row all-TX-7."""
    with pytest.raises(Refusal, match="no such transaction"):
        Transactions(limit=10).end("t")


def test_end_when_frames_were_gathered_then_returns_them_in_order() -> None:
    scene = Scene(AckMode.CLIENT_INDIVIDUAL, "ab")
    transactions = Transactions(limit=10)
    transactions.begin("t")
    sent = message()
    claimed = claim(scene.consumer, "7.2")

    transactions.add_send(transactions.with_room("t"), "/queue/a", sent)
    transactions.with_room("t").claims.append(claimed)

    transaction = transactions.end("t")
    assert transaction.sends == [("/queue/a", sent)]
    assert transaction.claims == [claimed]


def test_frame_when_transaction_is_full_then_refused() -> None:
    transactions = Transactions(limit=1)
    transactions.begin("t")
    transactions.add_send(transactions.with_room("t"), "/queue/a", message())

    with pytest.raises(Refusal, match="transaction is full"):
        transactions.with_room("t")


def test_undo_when_acks_were_gathered_then_messages_are_unacknowledged_again() -> None:
    """Row all-TX-4."""
    scene = Scene(AckMode.CLIENT, "abc")
    transactions = Transactions(limit=10)
    transactions.begin("t")
    transactions.with_room("t").claims.append(claim(scene.consumer, "7.2"))

    transactions.end("t").undo()

    assert scene.held == "abc"


def test_abort_all_when_several_are_open_then_all_are_undone() -> None:
    """Rows 1x-TX-5, 1x-TX-6."""
    scene = Scene(AckMode.CLIENT, "abc")
    transactions = Transactions(limit=10)
    for name, tag in (("t", "7.1"), ("u", "7.2")):
        transactions.begin(name)
        transactions.with_room(name).claims.append(claim(scene.consumer, tag))

    transactions.abort_all()

    assert (scene.held, len(transactions)) == ("abc", 0)
