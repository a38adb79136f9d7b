"""The subscriptions that are open on a session, and what their messages must have."""

from __future__ import annotations

from trio_stomp.protocol.ack_rules import AckMode
from trio_stomp.protocol.frames import Command, Frame
from trio_stomp.protocol.header_rules import needed_headers, require_headers
from trio_stomp.protocol.versions import Version

__all__ = ["OpenSubscriptions"]


class OpenSubscriptions:
    """The open subscriptions of one session.

    Attributes:
        modes: The ack mode of each, by its id.
        needs: The headers that its messages must have, by its id.
        needs_of_others: The headers that any other message must have.
    """

    __slots__ = ("_destination_of", "_newest_at", "modes", "needs", "needs_of_others")

    def __init__(self) -> None:
        self.modes: dict[str, AckMode] = {}
        self.needs: dict[str | None, frozenset[str]] = {}
        self.needs_of_others: frozenset[str] = frozenset()
        # Destination -> the newest subscription to it, and back: for messages of 1.0 that name only their destination.
        self._newest_at: dict[str, str] = {}
        self._destination_of: dict[str, str] = {}

    def begin(self, version: Version) -> None:
        """The session stands, and this version is in force."""
        self.needs_of_others = frozenset(needed_headers(Command.MESSAGE, version))

    def add(self, subscription_id: str, destination: str, ack: AckMode, version: Version) -> None:
        """A subscription is open from now on."""
        self.modes[subscription_id] = ack
        self._newest_at[destination] = subscription_id
        self._destination_of[subscription_id] = destination
        # STOMP 1.2, MESSAGE: the "ack" header, where the subscription needs explicit acknowledgment.
        settles = version is Version.V1_2 and ack is not AckMode.AUTO
        self.needs[subscription_id] = self.needs_of_others | {"ack"} if settles else self.needs_of_others

    def forget(self, subscription_id: str) -> None:
        """A subscription is open no more."""
        self.modes.pop(subscription_id, None)
        self.needs.pop(subscription_id, None)
        destination = self._destination_of.pop(subscription_id, None)
        if destination is not None and self._newest_at.get(destination) == subscription_id:
            del self._newest_at[destination]

    def meant_by(self, message: Frame, version: Version) -> str | None:
        """The id of the subscription that a MESSAGE is for; None where it names none and nothing else tells.

        Raises:
            RemoteProtocolError: A header is missing that it must have.

        Spec: MESSAGE.
        """
        headers = message.headers
        subscription_id = headers.get("subscription")
        if subscription_id is None:
            # Row 10-SUB-15: a 1.0 server should name the subscription; one that does not leaves the destination.
            subscription_id = self._newest_at.get(headers.get("destination", "") or "")
        if not headers.has_all(self.needs.get(subscription_id, self.needs_of_others)):
            mode = None if subscription_id is None else self.modes.get(subscription_id)
            require_headers(message, version, ack_mode=mode)
        return subscription_id
