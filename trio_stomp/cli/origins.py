"""Where a dead letter came from, as its broker or this library wrote it down."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["origin_of"]


def origin_of(headers: Mapping[str, str], destination: str) -> str | None:
    """The destination that a dead letter was sent to at first; None where it does not tell.

    Args:
        headers: The headers of the dead letter.
        destination: Where it lies now: Artemis tells the bare address alone, so its prefix is taken from here.
    """
    # By Subscription.work(), which puts aside what its handlers cannot handle; it knows best.
    ours = headers.get("x-original-destination")
    if ours is not None:
        return ours
    # RabbitMQ tells the queue. /amq/queue/ sends to it as it is; /queue/ would declare it anew, with other arguments.
    queue = headers.get("x-first-death-queue")
    if queue is not None:
        return f"/amq/queue/{queue}"
    address = headers.get("_AMQ_ORIG_ADDRESS")
    if address is not None:
        kinds = ("/queue/", "/topic/")
        return next((kind + address for kind in kinds if destination.startswith(kind)), address)
    # ActiveMQ Classic, and the broker of trio_stomp.testing.
    return headers.get("original-destination") or headers.get("dead-letter-source")
