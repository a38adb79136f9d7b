"""Helpers for tests of connecting."""

from __future__ import annotations

import pytest
import trio

import trio_stomp
from trio_stomp import ConnectError

__all__ = ["Credentials", "refused"]


async def refused(url: str | list[str], **options: object) -> ConnectError:
    """Connect in vain, and return the error."""
    with trio.fail_after(60), pytest.raises(ConnectError) as caught:
        async with trio_stomp.connect(url, **options):  # type: ignore[arg-type]  # passed on as given
            raise AssertionError
    return caught.value


class Credentials:
    """A function for ``credentials=``: each call returns or raises the next of its plan, and good ones at its end."""

    def __init__(self, *plan: object) -> None:
        self.plan = list(plan)
        self.calls = 0

    async def __call__(self) -> tuple[str, str]:
        self.calls += 1
        await trio.lowlevel.checkpoint()
        now = self.plan.pop(0) if self.plan else ("me", "good")
        if isinstance(now, BaseException):
            raise now
        return now  # type: ignore[return-value]  # a test may return what is refused
