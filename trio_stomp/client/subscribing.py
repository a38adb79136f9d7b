"""A subscription for the length of a block.

Beside the class, not with it: mypyc, which compiles that, knows no async generators.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from typing_extensions import TypeVar

from trio_stomp.client.subscription import Subscription
from trio_stomp.client.work import OpenTransaction
from trio_stomp.session import Codec, Registration, Session, SubscriptionOptions

__all__ = ["open_subscription"]

T = TypeVar("T")


@asynccontextmanager
async def open_subscription(
    session: Session, options: SubscriptionOptions, transaction: OpenTransaction, codec: Codec[T]
) -> AsyncGenerator[Subscription[T]]:
    """Keep a subscription for the length of a block."""
    registration = Registration(options)
    try:
        await session.subscribe(registration)
        yield Subscription(registration, transaction, codec, session.turn)
    finally:
        session.unsubscribe(registration)
    if session.failure is None:
        registration.raise_unnoticed()
