"""The subscriptions that are open on a session, and what their messages must have."""

from __future__ import annotations

from typing import Final

from trio_stomp.errors import RemoteProtocolError
from trio_stomp.protocol.ack_rules import AckMode
from trio_stomp.protocol.frames import Command, Frame
from trio_stomp.protocol.header_rules import needed_headers
from trio_stomp.protocol.tolerances import Tolerances
from trio_stomp.protocol.versions import Version

__all__ = ["OpenSubscriptions"]

# What a MESSAGE must have in some version, in the order in which it is looked for.
_MESSAGE_HEADERS: Final = ("destination", "message-id", "subscription", "ack")
# By which of them an ACK names the message.
_NAMES: Final = ("message-id", "ack")


class OpenSubscriptions:
    """The open subscriptions of one session.

    Attributes:
        modes: The ack mode of each, by its id.
        destination_of: The destination of each, by its id.
        needs: The headers that its messages must have, by its id.
        needs_of_others: The headers that any other message must have.
    """

    __slots__ = ("_needs_of_client_modes", "_newest_at", "destination_of", "modes", "needs", "needs_of_others")

    def __init__(self) -> None:
        self.modes: dict[str, AckMode] = {}
        self.needs: dict[str | None, frozenset[str]] = {}
        self.needs_of_others: frozenset[str] = frozenset()
        self._needs_of_client_modes: frozenset[str] = frozenset()
        # Destination -> the newest subscription to it, and back: for messages of 1.0 that name only their destination.
        self._newest_at: dict[str, str] = {}
        self.destination_of: dict[str, str] = {}

    def begin(self, version: Version, tolerances: Tolerances) -> None:
        """The session is connected, with this version in force."""
        needs = frozenset(needed_headers(Command.MESSAGE, version))
        # STOMP 1.2, MESSAGE: the "ack" header, where the subscription needs explicit acknowledgment.
        self._needs_of_client_modes = needs | {"ack"} if version is Version.V1_2 else needs
        self.needs_of_others = needs - {"message-id"} if tolerances.messages_without_id else needs

    def add(self, subscription_id: str, destination: str, ack: AckMode) -> None:
        """A subscription is open from now on."""
        self.modes[subscription_id] = ack
        self._newest_at[destination] = subscription_id
        self.destination_of[subscription_id] = destination
        self.needs[subscription_id] = self.needs_of_others if ack is AckMode.AUTO else self._needs_of_client_modes

    def forget(self, subscription_id: str) -> None:
        """A subscription is open no more."""
        self.modes.pop(subscription_id, None)
        self.needs.pop(subscription_id, None)
        destination = self.destination_of.pop(subscription_id, None)
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
        needs = self.needs.get(subscription_id, self.needs_of_others)
        if not headers.has_all(needs):
            missing = next(name for name in _MESSAGE_HEADERS if name in needs and name not in headers)
            msg = f"a MESSAGE frame of STOMP {version.value} must have a {missing} header: {message}"
            if missing in _NAMES and self.modes.get(subscription_id or "", AckMode.AUTO) is not AckMode.AUTO:
                msg += f"; a broker that sends no {missing} cannot be sent an ACK: subscribe with ack='auto'"
            raise RemoteProtocolError(msg)
        return subscription_id
