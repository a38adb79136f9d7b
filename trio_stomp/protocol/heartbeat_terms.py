"""Heart-beat offers and the intervals they result in. Spec: "Heart-beating".

Durations are in milliseconds here, the unit of the header.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from trio_stomp.errors import LocalProtocolError, RemoteProtocolError

__all__ = ["NO_HEART_BEAT", "HeartBeatOffer", "HeartBeatTerms"]

# Eighteen digits of milliseconds are 30 million years, which a float still counts; int() of thousands is an attack.
_OFFER: Final = re.compile(r" *([0-9]{1,18}) *, *([0-9]{1,18}) *")


class HeartBeatOffer(NamedTuple):
    """The ``heart-beat`` header of one side, in milliseconds.

    Attributes:
        can_ms: The smallest interval at which it can send; 0 if it cannot.
        want_ms: The interval at which it would like to receive; 0 if it does not want to.
    """

    can_ms: int
    want_ms: int

    @classmethod
    def parse(cls, value: str | None) -> HeartBeatOffer:
        """Read a header's value; a missing header means ``0,0``.

        Raises:
            RemoteProtocolError: It is not two whole numbers with a comma between them.
        """
        if value is None:
            return NO_HEART_BEAT
        found = _OFFER.fullmatch(value)
        if found is None:
            raise RemoteProtocolError(
                f"heart-beat must be two whole numbers of milliseconds, as in '5000,5000', got {value[:80]!r}"
            )
        return cls(can_ms=int(found[1]), want_ms=int(found[2]))

    @classmethod
    def of_seconds(cls, can: float, want: float) -> HeartBeatOffer:
        """Make an offer from seconds, the unit of the public API; fractions of a millisecond are rounded up."""
        if not (0 <= can < float("inf") and 0 <= want < float("inf")):
            raise LocalProtocolError(
                f"heart-beat intervals must be seconds of at least 0, got {(can, want)!r}; 0 switches one off"
            )
        # Rounded first: 1.1 * 1000 is 1100.0000000000002, and must not become 1101.
        return cls(can_ms=math.ceil(round(can * 1000, 6)), want_ms=math.ceil(round(want * 1000, 6)))

    def agree(self, *, server: HeartBeatOffer) -> HeartBeatTerms:
        """Combine the client's offer, this one, with the server's.

        Spec: Heart-beating: "there will be heart-beats every MAX(<cx>,<sy>) milliseconds".
        """
        return HeartBeatTerms(
            client_sends_ms=max(self.can_ms, server.want_ms) if self.can_ms and server.want_ms else 0,
            server_sends_ms=max(server.can_ms, self.want_ms) if server.can_ms and self.want_ms else 0,
        )

    def __str__(self) -> str:
        return f"{self.can_ms},{self.want_ms}"


NO_HEART_BEAT: Final = HeartBeatOffer(can_ms=0, want_ms=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartBeatTerms:
    """The agreed intervals, in milliseconds; 0 means that this side sends no heart-beats.

    Attributes:
        client_sends_ms: The client sends something at least this often.
        server_sends_ms: The server does.
    """

    client_sends_ms: int
    server_sends_ms: int

    @property
    def client_sends_seconds(self) -> float:
        """The client's interval in seconds."""
        return self.client_sends_ms / 1000

    @property
    def server_sends_seconds(self) -> float:
        """The server's interval in seconds."""
        return self.server_sends_ms / 1000
