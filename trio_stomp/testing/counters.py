"""What the broker counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from trio_stomp.protocol import Command

__all__ = ["BrokerStatistics", "Counters"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStatistics:
    """A snapshot of the broker's counters.

    Attributes:
        connections: Links accepted since the start.
        open_connections: Links that are open.
        received: Frames from clients, by command.
        sent: Frames to clients, by command.
        received_octets: Octets from clients.
        sent_octets: Octets to clients.
    """

    connections: int
    open_connections: int
    received: Mapping[Command, int]
    sent: Mapping[Command, int]
    received_octets: int
    sent_octets: int


@dataclass(slots=True, kw_only=True)
class Counters:
    """The counters of a broker, shared by its sessions. The fields are those of `BrokerStatistics`."""

    connections: int = 0
    open_connections: int = 0
    received: Counter[Command] = field(default_factory=Counter[Command])
    sent: Counter[Command] = field(default_factory=Counter[Command])
    received_octets: int = 0
    sent_octets: int = 0

    def snapshot(self) -> BrokerStatistics:
        """The values of this moment."""
        return BrokerStatistics(
            connections=self.connections,
            open_connections=self.open_connections,
            received=Counter(self.received),
            sent=Counter(self.sent),
            received_octets=self.received_octets,
            sent_octets=self.sent_octets,
        )
