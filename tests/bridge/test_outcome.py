"""What the trio thread reports to the thread that waits."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

from trio_stomp.bridge import Outcome, wait_done


def test_callback_added_before_and_after_the_result_then_each_called_once() -> None:
    outcome: Outcome[int] = Outcome()
    called: list[tuple[str, int]] = []
    outcome.add_done_callback(lambda done: called.append(("before", done.result())))
    outcome.add_done_callback(lambda done: called.append(("next", done.result())))
    assert not outcome.done()

    outcome.set_result(7)
    outcome.add_done_callback(lambda done: called.append(("after", done.result())))

    assert outcome.done()
    assert outcome.exception() is None
    assert called == [("before", 7), ("next", 7), ("after", 7)]


def test_callback_added_while_others_are_called_then_called_once_by_the_thread_that_added_it() -> None:
    outcome: Outcome[None] = Outcome()
    called: list[tuple[str, int]] = []
    here = threading.get_ident()

    def first(_done: Outcome[None]) -> None:
        adding = threading.Thread(target=add)
        adding.start()
        adding.join()

    def add() -> None:
        outcome.add_done_callback(lambda _: called.append(("added", threading.get_ident())))
        called.append(("adding ends", threading.get_ident()))

    outcome.add_done_callback(first)
    outcome.add_done_callback(lambda _: called.append(("second", threading.get_ident())))
    outcome.set_result(None)

    # The other thread calls its own function, and not one that was meant for this thread.
    assert [name for name, _ in called] == ["added", "adding ends", "second"]
    assert called[0][1] == called[1][1] != here
    assert called[2][1] == here


def test_result_raised_then_no_garbage_for_the_collector() -> None:
    class Failure(Exception):
        pass

    gc.disable()
    try:
        outcome: Outcome[None] = Outcome()
        outcome.set_exception(Failure())
        with pytest.raises(Failure):
            outcome.result()
        gone = weakref.ref(outcome.exception() or outcome)
        del outcome
        assert gone() is None
    finally:
        gc.enable()


def test_set_twice_then_a_mistake() -> None:
    outcome: Outcome[int] = Outcome()
    outcome.set_result(1)

    with pytest.raises(AssertionError):
        outcome.set_result(2)
    with pytest.raises(AssertionError):
        outcome.set_exception(ValueError())
    assert outcome.result() == 1


def test_wait_when_it_is_done_at_once_or_never_then_returns() -> None:
    done: Outcome[None] = Outcome()
    done.set_result(None)
    wait_done(done)

    never: Outcome[None] = Outcome()
    wait_done(never, 0)
    assert not never.done()
