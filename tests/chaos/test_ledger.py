"""The book finds what it is there to find."""

from __future__ import annotations

import pytest

from tests.chaos.ledger import Ledger


@pytest.fixture
def ledger() -> Ledger:
    return Ledger("run", 2000)


def test_ledger_when_a_confirmed_message_is_not_handled_then_it_is_missing_under_its_fault(ledger: Ledger) -> None:
    for number in (0, 1, 2):
        ledger.phase = number
        ledger.sending(number)
        ledger.confirm(number)
    ledger.handle(ledger.body(1), "p-1")

    assert ledger.missing() == {0: [0], 2: [2]}
    assert not ledger.is_complete


def test_ledger_when_each_was_sent_confirmed_and_handled_then_it_is_complete() -> None:
    ledger = Ledger("run", 3)
    for number in range(3):
        ledger.sending(number)
        ledger.handle(ledger.body(number), f"p-{number}")
        assert not ledger.is_complete
        ledger.confirm(number)

    assert ledger.is_complete
    assert not ledger.troubles
    assert ledger.missing() == {}
    assert ledger.unconfirmed() == []


def test_handle_when_a_message_comes_twice_then_it_is_a_duplicate_and_no_trouble(ledger: Ledger) -> None:
    ledger.sending(5)
    ledger.handle(ledger.body(5), "p-1")
    ledger.handle(ledger.body(5), "p-1")

    assert (ledger.handled, ledger.distinct, ledger.duplicates) == (2, 1, 1)
    assert not ledger.troubles


@pytest.mark.parametrize(
    ("sent", "ids", "trouble"),
    [
        (True, ["p-1", "p-2"], "another stable id"),
        (True, [None], "without a stable id"),
        (False, ["p-1"], "had not been sent"),
    ],
)
def test_handle_when_its_id_is_wrong_or_it_was_never_sent_then_that_is_trouble(
    ledger: Ledger, sent: bool, ids: list[str | None], trouble: str
) -> None:
    if sent:
        ledger.sending(5)
    for each in ids:
        ledger.handle(ledger.body(5), each)

    assert trouble in ledger.troubles[0]


@pytest.mark.parametrize("body", [b"", b"other 5 5\0\n", b"run x ", b"run 2000 2000\0\n"])
def test_handle_when_it_is_not_of_this_run_then_that_is_trouble(ledger: Ledger, body: bytes) -> None:
    ledger.handle(body, "p-1")

    assert "what nobody had sent" in ledger.troubles[0]
    assert ledger.handled == 0


def test_handle_when_two_bodies_were_spliced_then_that_is_trouble(ledger: Ledger) -> None:
    ledger.sending(3)
    ledger.handle(ledger.body(3)[:2000] + ledger.body(103)[2000:], "p-1")

    assert "another body" in ledger.troubles[0]


def test_confirm_when_it_comes_twice_then_that_is_trouble(ledger: Ledger) -> None:
    ledger.sending(5)
    ledger.confirm(5)
    ledger.confirm(5)

    assert ledger.confirmed == 1
    assert "confirmed twice" in ledger.troubles[0]


def test_unconfirmed_when_some_are_on_their_way_then_it_names_them(ledger: Ledger) -> None:
    ledger.sending(5)
    ledger.sending(6)
    ledger.confirm(5)

    assert ledger.unconfirmed() == [6]
    assert ledger.on_the_way == 2


def test_body_when_looked_at_then_its_lengths_differ_and_it_has_the_bytes_that_frames_are_made_of(
    ledger: Ledger,
) -> None:
    lengths = {len(ledger.body(number)) for number in range(2000)}

    assert (min(lengths), max(lengths)) == (80, 40_000)
    assert b"\0\n" in ledger.body(1)


def test_trouble_when_there_is_much_then_the_first_is_kept(ledger: Ledger) -> None:
    for number in range(100):
        ledger.trouble(str(number))

    assert ledger.troubles[0] == "0"
    assert len(ledger.troubles) < 100
