"""Subscriptions: their ack modes, the headers their messages must have, and those by which an ACK names a message.

Spec: "SUBSCRIBE", "SUBSCRIBE ack Header", "MESSAGE", "ACK", "NACK".
"""

from __future__ import annotations

import enum
from typing import Final, Literal

from trio_stomp.errors import LocalProtocolError, NotInVersionError, RemoteProtocolError
from trio_stomp.protocol.frames import Command, Frame
from trio_stomp.protocol.header_rules import ACK_MODES, needed_headers
from trio_stomp.protocol.headers import Headers
from trio_stomp.protocol.tolerances import Tolerances
from trio_stomp.protocol.versions import Version

__all__ = ["AckMode", "AckName", "OpenSubscriptions", "ack_headers", "require_ack_mode"]

AckName = Literal["auto", "client", "client-individual"]

_V1_2: Final = Version.V1_2
# The headers that a MESSAGE must have in some version, in the order of checking.
_MESSAGE_HEADERS: Final = ("destination", "message-id", "subscription", "ack")
# Those by which an ACK names the message.
_NAMES: Final = ("message-id", "ack")


class AckMode(enum.StrEnum):
    """When messages of a subscription count as consumed.

    Attributes:
        AUTO: When the broker has sent them; there are no ACKs.
        CLIENT: When they are acknowledged. An ACK also acknowledges all earlier messages.
        CLIENT_INDIVIDUAL: When they are acknowledged, each by its own ACK.
    """

    AUTO = "auto"
    CLIENT = "client"
    CLIENT_INDIVIDUAL = "client-individual"

    @classmethod
    def of(cls, name: str) -> AckMode:
        """Return the mode with this name.

        Raises:
            LocalProtocolError: There is none.
        """
        try:
            return cls(name)
        except ValueError:
            raise LocalProtocolError(f"ack must be one of {', '.join(cls)}; got {name!r}") from None


def require_ack_mode(mode: AckMode, version: Version, *, title: str | None = None) -> None:
    """Raise if `version`, named `title` in the message, does not have this mode.

    Raises:
        NotInVersionError: 1.0 has no ``client-individual``.
    """
    if mode.value not in ACK_MODES[version]:
        title = title or f"STOMP {version.value}"
        modes = ", ".join(sorted(ACK_MODES[version]))
        raise NotInVersionError(f"{title} has no ack mode {mode.value!r}; it has {modes}")


def _ack_id(message: Headers, *, by_message_id: bool) -> str:
    """The id of a message in an ACK or NACK of 1.2: its ``ack`` header.

    Args:
        message: The headers of the MESSAGE.
        by_message_id: Use its ``message-id``, for a broker whose ``ack`` header a sender can forge.

    Raises:
        LocalProtocolError: The message has no such header, so it cannot be acknowledged.

    Spec: ACK; NACK.
    """
    ack = message.get("message-id" if by_message_id else "ack")
    if ack is None:
        raise LocalProtocolError(
            "this MESSAGE has no ack header, so it cannot be acknowledged; subscribe with ack='auto'"
        )
    return ack


def ack_headers(
    message: Headers, version: Version, *, subscription_id: str, by_message_id: bool = False
) -> list[tuple[str, str]]:
    """The headers of an ACK or NACK that name a message.

    Args:
        message: The headers of the MESSAGE.
        version: The STOMP version.
        subscription_id: The id of its subscription, for 1.0 and 1.1.
        by_message_id: In 1.2, use its ``message-id``, for a broker whose ``ack`` header a sender can forge.

    Returns:
        1.0 and 1.1: ``message-id`` and ``subscription``; 1.2: ``id``, which is the message's ``ack``.

    Raises:
        LocalProtocolError: The message has no such header, so it cannot be acknowledged.

    Spec: ACK (1.0, 1.1, 1.2).
    """
    if version is _V1_2:
        return [("id", _ack_id(message, by_message_id=by_message_id))]
    message_id = message.get("message-id")
    if message_id is None:
        raise LocalProtocolError(
            "this MESSAGE has no message-id header, so it cannot be acknowledged; subscribe with ack='auto'"
        )
    # 1.0 requires the message-id alone; OpenMQ refuses an ACK without the subscription in 1.0 too.
    return [("message-id", message_id), ("subscription", subscription_id)]


class OpenSubscriptions:
    """The open subscriptions of one session.

    Attributes:
        modes: The ack mode of each, by its id.
        destination_of: The destination of each, by its id.
        needs: The headers required of its messages, by its id.
        needs_of_others: The headers required of any other message.
    """

    __slots__ = ("_at", "_needs_of_client_modes", "destination_of", "modes", "needs", "needs_of_others")

    def __init__(self) -> None:
        self.modes: dict[str, AckMode] = {}
        self.needs: dict[str | None, frozenset[str]] = {}
        self.needs_of_others: frozenset[str] = frozenset()
        self._needs_of_client_modes: frozenset[str] = frozenset()
        # Destination -> the subscriptions to it in order, and back: for messages of 1.0 that name only that.
        self._at: dict[str, dict[str, None]] = {}
        self.destination_of: dict[str, str] = {}

    def begin(self, version: Version, tolerances: Tolerances) -> None:
        """Start, now that the version is known."""
        needs = frozenset(needed_headers(Command.MESSAGE, version))
        # STOMP 1.2, MESSAGE: the "ack" header, where the subscription needs explicit acknowledgment.
        self._needs_of_client_modes = needs | {"ack"} if version is Version.V1_2 else needs
        self.needs_of_others = needs - {"message-id"} if tolerances.messages_without_id else needs

    def add(self, subscription_id: str, destination: str, ack: AckMode) -> None:
        """Add a subscription."""
        self.modes[subscription_id] = ack
        self._at.setdefault(destination, {})[subscription_id] = None
        self.destination_of[subscription_id] = destination
        self.needs[subscription_id] = self.needs_of_others if ack is AckMode.AUTO else self._needs_of_client_modes

    def forget(self, subscription_id: str) -> None:
        """Remove a subscription, if it is there."""
        self.modes.pop(subscription_id, None)
        self.needs.pop(subscription_id, None)
        destination = self.destination_of.pop(subscription_id, None)
        if destination is not None:
            del self._at[destination][subscription_id]
            if not self._at[destination]:
                del self._at[destination]

    def named_by(self, headers: Headers) -> str | None:
        """Return the id of the subscription of a MESSAGE; None if neither a header nor its destination identifies it.

        Spec: MESSAGE.
        """
        subscription_id = headers.get("subscription")
        if subscription_id is None:
            # Row 10-SUB-15: a 1.0 server should name the subscription; one that does not leaves the destination. Of
            # several open subscriptions to it, the newest gets the message.
            subscription_id = next(reversed(self._at.get(headers.get("destination", "") or "", {})), None)
        return subscription_id

    def meant_by(self, message: Frame, version: Version) -> str | None:
        """Return the id of the subscription of a MESSAGE, as `named_by` does, and check its headers.

        Raises:
            RemoteProtocolError: A required header is missing.

        Spec: MESSAGE.
        """
        headers = message.headers
        subscription_id = self.named_by(headers)
        needs = self.needs.get(subscription_id, self.needs_of_others)
        if not headers.has_all(needs):
            missing = next(name for name in _MESSAGE_HEADERS if name in needs and name not in headers)
            msg = f"a MESSAGE frame of STOMP {version.value} must have the header {missing}: {message}"
            if missing in _NAMES and self.modes.get(subscription_id or "", AckMode.AUTO) is not AckMode.AUTO:
                msg += f"; a broker that sends no {missing} cannot be sent an ACK: subscribe with ack='auto'"
            raise RemoteProtocolError(msg)
        return subscription_id
