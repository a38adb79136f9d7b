import pytest

from trio_stomp.client import OutgoingMessage, connect
from trio_stomp.errors import ConnectError, NotConfirmed
from trio_stomp.spark.sink_link import open_sink_link
from trio_stomp.testing import Broker, BrokerOptions, ThreadedBroker, run_broker_in_thread

MESSAGES = [OutgoingMessage("/queue/a", str(number)) for number in range(10)]


def depth(broker: ThreadedBroker) -> int:
    return broker.call(lambda inner: inner.depth("/queue/a"))


def test_transaction_when_the_block_ends_then_its_rows_are_there(threaded_broker: ThreadedBroker) -> None:
    with open_sink_link(lambda: connect(threaded_broker.url)) as link:
        with link.transaction() as transaction:
            transaction.send_many(MESSAGES)
            assert depth(threaded_broker) == 0

        assert depth(threaded_broker) == 10


def test_transaction_when_it_is_committed_in_the_block_then_leaving_adds_nothing(
    threaded_broker: ThreadedBroker,
) -> None:
    with open_sink_link(lambda: connect(threaded_broker.url)) as link:
        with link.transaction() as transaction:
            transaction.send_many(MESSAGES)
            transaction.commit()
            assert depth(threaded_broker) == 10

    assert depth(threaded_broker) == 10


def test_transaction_when_the_block_raises_then_nothing_is_there(threaded_broker: ThreadedBroker) -> None:
    with open_sink_link(lambda: connect(threaded_broker.url)) as link:
        with pytest.raises(KeyError):
            with link.transaction() as transaction:
                transaction.send_many(MESSAGES)
                raise KeyError

        assert depth(threaded_broker) == 0


def test_publisher_when_the_block_ends_then_all_is_confirmed(threaded_broker: ThreadedBroker) -> None:
    with open_sink_link(lambda: connect(threaded_broker.url)) as link:
        with link.publisher(3, 1000) as publisher:
            publisher.send_many(MESSAGES)

        assert depth(threaded_broker) == 10


def test_publisher_when_the_broker_refuses_then_leaving_raises() -> None:
    options = BrokerOptions(logins={"guest": "guest"}, read_only=("guest",))
    with run_broker_in_thread(options=options) as broker:
        with pytest.raises(NotConfirmed):
            with open_sink_link(lambda: connect(broker.url)) as link, link.publisher(3, 1000) as publisher:
                publisher.send_many(MESSAGES)


def test_id_header_when_asked_then_it_is_the_one_of_the_broker(threaded_broker: ThreadedBroker) -> None:
    with open_sink_link(lambda: connect(threaded_broker.url)) as link:
        assert link.id_header == "dedup-id"


def test_link_when_nothing_listens_then_the_error_is_that_of_connect(threaded_broker: ThreadedBroker) -> None:
    threaded_broker.call(Broker.stop_listening)

    with pytest.raises(ConnectError):
        with open_sink_link(lambda: connect(threaded_broker.url)):
            pass
