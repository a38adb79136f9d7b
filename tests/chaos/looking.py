"""Waiting for what nobody tells: conditions on counters of several parties."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

__all__ = ["wait_until"]

_LOOK_SECONDS: Final = 0.005


async def wait_until(condition: Callable[[], bool], every: float = _LOOK_SECONDS) -> None:
    """Look now and then until a condition holds."""
    while not condition():  # noqa: ASYNC110  # counters of the library have no event to wait for
        await trio.sleep(every)
