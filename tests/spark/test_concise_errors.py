"""What Spark shows of an error: the sentence, without the inside of this package."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from functools import partial

import pytest

from trio_stomp.errors import StompError
from trio_stomp.spark.concise_errors import ConciseErrors
from trio_stomp.spark.spool_store import SpoolError


def deep(error: Exception, levels: int = 20) -> None:
    if levels:
        deep(error, levels - 1)
    raise error from OSError("its cause")


@ConciseErrors()
def called(error: Exception) -> int:
    deep(error)
    return 1


def iterated(error: Exception) -> Iterator[int]:
    with ConciseErrors():
        yield 1
        deep(error)


@pytest.mark.parametrize("error", [StompError("why"), ValueError("why"), SpoolError("why"), OSError("why")])
def test_error_when_it_leaves_a_method_then_only_its_sentence_is_shown(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "trio_stomp.spark")
    numbers = iterated(error)
    assert next(numbers) == 1

    for call in (partial(called, error), partial(next, numbers)):
        caplog.clear()
        with pytest.raises(type(error), match=r"^why$") as caught:
            call()

        assert caught.value is error
        shown = "".join(traceback.format_exception(error))
        assert "deep(" not in shown
        assert "its cause" not in shown
        assert shown.splitlines()[-1].endswith(": why")
        # Nothing is lost.
        assert "deep(" in caplog.text
        assert "its cause" in caplog.text


def test_fault_of_this_package_when_it_leaves_a_method_then_its_traceback_stays() -> None:
    with pytest.raises(KeyError) as caught:
        called(KeyError("x"))

    assert "deep(" in "".join(traceback.format_exception(caught.value))
