"""work() in a pool of threads, with a handler that is async: refused when it is called."""

from __future__ import annotations

import functools
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.kit.ctrl_c import CtrlC
from trio_stomp import Retry
from trio_stomp.blocking import Client, Message


class Service:
    """Its methods are of all kinds but the right one."""

    async def handle(self, message: Message) -> None:
        """Handle it."""

    def generates(self, message: Message) -> Iterator[str]:
        yield message.text

    async def generates_async(self, message: Message) -> AsyncIterator[str]:  # noqa: ASYNC900  # what a program sends
        yield message.text

    async def __call__(self, message: Message) -> None:
        """Handle it."""


SERVICE = Service()
WRONG = {
    "method": SERVICE.handle,
    "partial": functools.partial(Service.handle, SERVICE),
    "object": SERVICE,
    "generator": SERVICE.generates,
    "async generator": SERVICE.generates_async,
    "no function": "handle",
}


@pytest.mark.parametrize("name", WRONG)
def test_work_when_the_handler_is_no_plain_function_then_type_error_with_an_idle_queue(
    client: Client, name: str
) -> None:
    with (
        client.subscribe("/queue/idle") as jobs,
        pytest.raises(TypeError, match=r"not a plain function|needs a function"),
    ):
        jobs.work(WRONG[name])  # type: ignore[arg-type]  # the mistake


def test_log_when_a_handler_fails_then_its_traceback_begins_with_it(
    client: Client, caplog: pytest.LogCaptureFixture, ctrl_c: CtrlC
) -> None:
    begun = threading.Event()

    def fails(message: Message) -> None:
        begun.set()
        raise ValueError(message.text)

    client.send("/queue/jobs", "no such order", receipt=True)
    ctrl_c(begun)
    with client.subscribe("/queue/jobs") as jobs, pytest.raises(KeyboardInterrupt):
        jobs.work(fails, retry=Retry(attempts=1), dead_letter="/queue/dead")

    (record,) = [each for each in caplog.records if "failed for good" in each.getMessage()]
    assert record.exc_info is not None
    assert record.exc_info[2] is not None
    assert record.exc_info[2].tb_frame.f_code is fails.__code__
