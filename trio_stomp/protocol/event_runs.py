"""What the frames of a server mean to its client: each an event of its own, but for runs.

MESSAGEs of one subscription that follow each other are one event, and so are RECEIPTs. Under load a chunk holds a
hundred of them, and whoever handles events does so once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from trio_stomp.protocol.events import ClientEvent, ErrorReceived, MessagesReceived, ReceiptsReceived
from trio_stomp.protocol.frames import Command, Frame
from trio_stomp.protocol.open_subscriptions import OpenSubscriptions
from trio_stomp.protocol.receipt_runs import receipt_ids_of
from trio_stomp.protocol.versions import Version

__all__ = ["add_events"]

_MESSAGE: Final = Command.MESSAGE
_RECEIPT: Final = Command.RECEIPT


def add_events(
    events: list[ClientEvent],
    frames: Iterable[Frame],
    subscriptions: OpenSubscriptions,
    version: Version,
    step: Callable[[Frame], ClientEvent],
    *,
    steady: bool,
) -> None:
    """Add the events of frames; nothing after a fatal ERROR.

    Args:
        events: What they are added to.
        frames: The frames, in order.
        subscriptions: Those that are open.
        version: The version in force.
        step: Takes a frame into account that may change the session, and tells what it means.
        steady: Whether MESSAGE and RECEIPT may come and change nothing; else they are for `step` too.

    Raises:
        RemoteProtocolError: The server may not send such a frame; what came before it was added.
    """
    needs_of, needs_of_others = subscriptions.needs, subscriptions.needs_of_others
    # The subscription of the newest event, its messages, and what others must have to be added to them.
    run: str | None = None
    messages: list[Frame] = []
    needs = needs_of_others
    receipts: list[str] | None = None
    for frame in frames:
        command, headers = frame.command, frame.headers
        if command is _MESSAGE and steady:
            receipts = None
            subscription_id = headers.get("subscription")
            if subscription_id != run:
                run, needs = None, needs_of.get(subscription_id, needs_of_others)
            if subscription_id is None or not headers.has_all(needs):
                subscription_id = subscriptions.meant_by(frame, version)
            if run is None:
                run, messages = subscription_id, []
                events.append(MessagesReceived(messages, run))
            messages.append(frame)
        elif command is _RECEIPT and steady:
            run, receipt_ids = None, receipt_ids_of(frame, version)
            if receipts is None:
                receipts = []
                events.append(ReceiptsReceived(receipts))
            receipts += receipt_ids
        else:
            run = receipts = None
            event = step(frame)
            events.append(event)
            if isinstance(event, ErrorReceived) and event.fatal:
                return
