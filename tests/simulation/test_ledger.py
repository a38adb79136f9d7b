"""Each count of the ledger can fail, and does not where there is a reason."""

from __future__ import annotations

import random
from hashlib import blake2b

import pytest

from tests.simulation.ledger import Delivery, Entry, Kind, Ledger, Outcome
from tests.simulation.network import Link

QUEUE = "/queue/a"


class Book:
    """A ledger, and links to use in it."""

    def __init__(self) -> None:
        self._chance = random.Random(0)  # noqa: S311  # not a secret
        self.links: list[Link] = []
        self.ledger = Ledger()
        self.ledger.links = self.links

    def link(self) -> Link:
        self.links.append(Link(self._chance, blake2b(), len(self.links), "h0"))
        return self.links[-1]

    def sent(self, outcome: Outcome, *links: Link, kind: Kind = Kind.CONFIRMED, transaction: int = 0) -> Entry:
        entry = self.ledger.new(0, QUEUE, kind, 20, persistent=True, transaction=transaction)
        for link in links:
            self.ledger.wrote(link, entry.body, is_whole=True)
        self.ledger.ended(entry, outcome, links[-1] if links else None)
        return entry

    def received(self, entry: Entry, link: Link, *, settled: bool = True) -> None:
        delivery = Delivery(link, (0, 0), redelivered=False)
        self.ledger.delivered(entry.body, QUEUE, delivery)
        delivery.settled = settled
        entry.handled += settled

    def counts(self) -> dict[str, int]:
        self.ledger.close()
        return dict(self.ledger.counts)


@pytest.fixture
def book() -> Book:
    return Book()


def test_message_when_confirmed_and_handled_then_nothing_is_wrong(book: Book) -> None:
    link = book.link()
    book.received(book.sent(Outcome.CONFIRMED, link), link)
    assert book.counts() == {}


def test_confirmed_message_when_it_never_arrives_then_lost(book: Book) -> None:
    book.sent(Outcome.CONFIRMED, book.link())
    assert book.counts() == {"lost": 1}


def test_confirmed_message_when_delivered_and_never_handled_then_lost(book: Book) -> None:
    link = book.link()
    book.received(book.sent(Outcome.CONFIRMED, link), link, settled=False)
    assert book.counts() == {"lost": 1}


def test_confirmed_message_when_a_restart_forgot_it_then_nothing_is_wrong(book: Book) -> None:
    book.sent(Outcome.CONFIRMED, book.link()).forgotten = True
    assert book.counts() == {}


@pytest.mark.parametrize("is_faulty", [False, True])
def test_plain_message_when_it_never_arrives_then_lost_unless_its_link_broke(book: Book, *, is_faulty: bool) -> None:
    link = book.link()
    book.sent(Outcome.SENT, link, kind=Kind.PLAIN)
    link.is_faulty = is_faulty
    assert book.counts() == ({} if is_faulty else {"lost": 1})


@pytest.mark.parametrize("is_faulty", [False, True])
def test_settled_message_when_delivered_again_then_doubled_unless_its_link_broke(
    book: Book, *, is_faulty: bool
) -> None:
    first, second = book.link(), book.link()
    entry = book.sent(Outcome.CONFIRMED, first)
    book.received(entry, first)
    book.received(entry, second)
    first.is_faulty = is_faulty
    assert book.counts() == ({} if is_faulty else {"doubled": 1})


def test_message_when_written_twice_then_it_may_be_delivered_twice(book: Book) -> None:
    first, second = book.link(), book.link()
    entry = book.sent(Outcome.CONFIRMED, first, second)
    book.received(entry, second)
    book.received(entry, second)
    assert book.counts() == {}


@pytest.mark.parametrize("kind", [Kind.PLAIN, Kind.TRANSACTED, Kind.REQUEST])
def test_message_that_is_sent_once_when_written_to_two_links_then_doubled(book: Book, kind: Kind) -> None:
    book.sent(Outcome.UNKNOWN, book.link(), book.link(), kind=kind)
    assert book.counts() == {"doubled": 1}


def test_message_when_written_to_a_link_that_is_newer_than_its_outcome_then_doubled(book: Book) -> None:
    entry = book.sent(Outcome.UNKNOWN, book.link())
    book.ledger.wrote(book.link(), entry.body, is_whole=True)
    assert book.counts() == {"doubled": 1}


def test_messages_of_a_task_when_written_in_another_order_then_reordered(book: Book) -> None:
    link, (first, second) = book.link(), (book.sent(Outcome.UNKNOWN), book.sent(Outcome.UNKNOWN))
    for entry in (first, second):
        entry.outcome = Outcome.OPEN
    book.ledger.wrote(link, second.body, is_whole=True)
    book.ledger.wrote(link, first.body, is_whole=True)
    assert book.ledger.counts == {"reordered": 1}


def test_messages_of_a_task_when_delivered_in_another_order_then_reordered(book: Book) -> None:
    link = book.link()
    first, second = book.sent(Outcome.CONFIRMED, link), book.sent(Outcome.CONFIRMED, link)
    book.received(second, link)
    book.received(first, link)
    assert book.counts() == {"reordered": 1}


@pytest.mark.parametrize("body", [b"#0#x", b"#9#", b"other", b""])
def test_body_that_was_not_sent_when_received_then_phantom(book: Book, body: bytes) -> None:
    link = book.link()
    book.sent(Outcome.UNKNOWN, link)
    assert book.ledger.delivered(body, QUEUE, Delivery(link, (0, 0), redelivered=False)) is None
    assert book.counts() == {"phantom": 1}


def test_frame_when_another_is_written_in_its_middle_then_phantom(book: Book) -> None:
    link, entry = book.link(), book.sent(Outcome.UNKNOWN)
    book.ledger.wrote(link, entry.body[:5], is_whole=False)
    assert not book.ledger.counts
    book.ledger.wrote(link, entry.body[:5] + b"SEND\n", is_whole=False)
    assert book.counts() == {"phantom": 1}


def test_message_of_an_aborted_transaction_when_it_arrives_then_phantom(book: Book) -> None:
    link = book.link()
    book.received(book.sent(Outcome.NEVER, link, kind=Kind.TRANSACTED), link)
    assert book.counts() == {"phantom": 1}


def test_transaction_when_one_of_its_messages_arrives_and_the_other_does_not_then_torn(book: Book) -> None:
    link = book.link()
    book.received(book.sent(Outcome.UNKNOWN, link, kind=Kind.TRANSACTED, transaction=1), link)
    book.sent(Outcome.UNKNOWN, link, kind=Kind.TRANSACTED, transaction=1)
    assert book.counts() == {"torn": 1}


def test_send_when_it_has_not_ended_then_hang(book: Book) -> None:
    book.ledger.new(0, QUEUE, Kind.PLAIN, 20, persistent=True)
    assert book.counts() == {"hang": 1}
