"""A subscription for the length of a block.

Beside the class, not with it: mypyc, which compiles that, knows no async generators.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from typing_extensions import TypeVar

from trio_stomp.client.subscription import Subscription
from trio_stomp.client.work import OpenTransaction
from trio_stomp.session import Codec, Line, Registration, SubscriptionOptions

__all__ = ["open_subscription"]

T = TypeVar("T")


@asynccontextmanager
async def open_subscription(
    line: Line, options: SubscriptionOptions, transaction: OpenTransaction, codec: Codec[T]
) -> AsyncGenerator[Subscription[T]]:
    """Keep a subscription for the length of a block."""
    registration = Registration(options, line.was_raised)
    try:
        await line.subscribe(registration)
        yield Subscription(registration, transaction, codec, line.turn)
    finally:
        line.unsubscribe(registration)
    if line.failure is None:
        registration.raise_unnoticed()
