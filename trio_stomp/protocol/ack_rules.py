"""Ack modes, and the headers that an ACK or NACK needs in each version. Spec: "ACK", "NACK", "SUBSCRIBE ack Header"."""

from __future__ import annotations

import enum
from typing import Final, Literal

from trio_stomp.errors import LocalProtocolError, NotSupported
from trio_stomp.protocol.header_rules import ACK_MODES
from trio_stomp.protocol.headers import Headers
from trio_stomp.protocol.versions import Version

__all__ = ["AckMode", "AckName", "ack_headers", "require_ack_mode"]

AckName = Literal["auto", "client", "client-individual"]


_V1_2: Final = Version.V1_2


class AckMode(enum.StrEnum):
    """How a subscription acknowledges.

    Attributes:
        AUTO: Nothing is acknowledged; a message counts as consumed when the broker has sent it.
        CLIENT: An ACK settles that message and all earlier ones.
        CLIENT_INDIVIDUAL: An ACK settles that message alone.
    """

    AUTO = "auto"
    CLIENT = "client"
    CLIENT_INDIVIDUAL = "client-individual"

    @classmethod
    def of(cls, name: str) -> AckMode:
        """The mode of that name.

        Raises:
            LocalProtocolError: There is none.
        """
        try:
            return cls(name)
        except ValueError:
            msg = f"ack must be one of {', '.join(cls)}; got {name!r}"
            raise LocalProtocolError(msg) from None


def require_ack_mode(mode: AckMode, version: Version) -> None:
    """Raise where `version` has no such mode.

    Raises:
        NotSupported: 1.0 has no ``client-individual``.
    """
    if mode.value not in ACK_MODES[version]:
        msg = f"STOMP {version.value} has no ack mode {mode.value!r}; it has {', '.join(sorted(ACK_MODES[version]))}"
        raise NotSupported(msg)


def ack_id(message: Headers, *, by_message_id: bool = False) -> str:
    """What names a message in an ACK or NACK of 1.2: its ``ack`` header.

    Args:
        message: The headers of the MESSAGE.
        by_message_id: Name it by its ``message-id``, for a broker whose ``ack`` header a sender can forge.

    Raises:
        LocalProtocolError: The message has no such header, so it cannot be acknowledged.

    Spec: ACK; NACK.
    """
    ack = message.get("message-id" if by_message_id else "ack")
    if ack is None:
        msg = "this MESSAGE has no ack header, so it cannot be acknowledged; subscribe with ack='auto'"
        raise LocalProtocolError(msg)
    return ack


def ack_headers(
    message: Headers, version: Version, *, subscription_id: str, by_message_id: bool = False
) -> list[tuple[str, str]]:
    """The headers by which an ACK or NACK names a message.

    Args:
        message: The headers of the MESSAGE.
        version: The version in force.
        subscription_id: The id of its subscription, for 1.0 and 1.1.
        by_message_id: In 1.2, name it by its ``message-id``, for a broker whose ``ack`` header a sender can forge.

    Returns:
        1.0 and 1.1: ``message-id`` and ``subscription``; 1.2: ``id``, which is the message's ``ack``.

    Raises:
        LocalProtocolError: The message has no such header, so it cannot be acknowledged.

    Spec: ACK (1.0, 1.1, 1.2).
    """
    if version is _V1_2:
        return [("id", ack_id(message, by_message_id=by_message_id))]
    message_id = message.get("message-id")
    if message_id is None:
        msg = "this MESSAGE has no message-id header, so it cannot be acknowledged; subscribe with ack='auto'"
        raise LocalProtocolError(msg)
    # 1.0 asks for the message-id alone; OpenMQ refuses an ACK without the subscription in 1.0 too.
    return [("message-id", message_id), ("subscription", subscription_id)]
