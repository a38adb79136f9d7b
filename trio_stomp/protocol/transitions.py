"""THE TABLE: which side may send which frame when, and what that makes of the session.

One table for both sides: it says what a frame does to a session, and each side asks it about its own frames (where a
missing key is our fault) and about the peer's (where it is theirs). `docs/` draws its diagram from it.
Spec: "Connecting", "DISCONNECT", "ERROR".
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from trio_stomp.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from trio_stomp.protocol.frames import CLIENT_COMMANDS, Command, Role, Word

__all__ = ["TRANSITIONS", "Session", "State"]


class State(Word):
    """Where a session is.

    Attributes:
        OPENING: The stream is open, and no frame has been sent.
        CONNECTING: CONNECT has been sent.
        CONNECTED: CONNECTED has been sent.
        DISCONNECTING: DISCONNECT has been sent; the server finishes what it has.
        CLOSED: An ERROR ended it, or a side broke the rules; no frame may follow.
    """

    OPENING = "opening"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    DISCONNECTING = "disconnecting"
    CLOSED = "closed"


def _table() -> dict[tuple[State, Role, Command], State]:
    client, server = Role.CLIENT, Role.SERVER
    opening, connecting, connected, disconnecting = (
        State.OPENING,
        State.CONNECTING,
        State.CONNECTED,
        State.DISCONNECTING,
    )
    table = {
        (opening, client, Command.CONNECT): connecting,
        (opening, client, Command.STOMP): connecting,
        # A server may refuse before it has understood anything: too many connections, a first frame that is no CONNECT.
        (opening, server, Command.ERROR): State.CLOSED,
        (connecting, server, Command.CONNECTED): connected,
        (connecting, server, Command.ERROR): State.CLOSED,
        (connected, client, Command.DISCONNECT): disconnecting,
    }
    # STOMP 1.2, Client Frames: all others may be sent at any time once connected. A second CONNECT may not.
    for command in CLIENT_COMMANDS - {Command.CONNECT, Command.STOMP, Command.DISCONNECT}:
        table[connected, client, command] = connected
    # MESSAGE frames may be on their way while DISCONNECT is: row all-DISC-5. After a DISCONNECT the client is mute.
    for command in (Command.MESSAGE, Command.RECEIPT, Command.ERROR):
        table[connected, server, command] = connected
        table[disconnecting, server, command] = disconnecting
    return table


_TABLE: Final = _table()
TRANSITIONS: Final[Mapping[tuple[State, Role, Command], State]] = MappingProxyType(_TABLE)
# What changes nothing is nearly all that is sent: to look for it in a set of few takes a third of the time.
_STEADY: Final = {
    (state, role): frozenset(command for command in Command if _TABLE.get((state, role, command)) is state)
    for state in State
    for role in Role
}


class Session:
    """The state of one session, as one of its two sides sees it.

    Args:
        role: Which side asks.

    Attributes:
        state: Where it is.
        steady: The commands of which it may send any number now, and the session stays where it is.
    """

    __slots__ = ("_role", "state", "steady")

    def __init__(self, role: Role) -> None:
        self._role = role
        self._enter(State.OPENING)

    def _enter(self, state: State) -> None:
        self.state = state
        self.steady = _STEADY[state, self._role]

    def step(self, sender: Role, command: Command) -> None:
        """Take a frame of `sender` into account.

        Raises:
            LocalProtocolError: It is ours, and may not be sent now.
            RemoteProtocolError: It is the peer's, and may not be sent now.
        """
        state = _TABLE.get((self.state, sender, command))
        if state is None:
            raise self._illegal(sender, command)
        if state is not self.state:
            self._enter(state)

    def is_steady(self, sender: Role, command: Command) -> bool:
        """Whether `sender` may send any number of such frames now, and the session stays as it is."""
        return _TABLE.get((self.state, sender, command)) is self.state

    @property
    def is_closed(self) -> bool:
        """Whether no frame may follow."""
        return self.state is State.CLOSED

    def close(self) -> None:
        """End the session: no frame may follow in either direction."""
        self._enter(State.CLOSED)

    def reopen(self) -> None:
        """Go on after `close` as one that was connected: for frames of this side alone."""
        self._enter(State.CONNECTED)

    def _illegal(self, sender: Role, command: Command) -> ProtocolError:
        legal = sorted(key[2].value for key in TRANSITIONS if key[:2] == (self.state, sender))
        may = f"it may send {', '.join(legal)}" if legal else "it may send nothing"
        msg = f"a {sender.value} may not send {command.value} when the session is {self.state.value}: {may}"
        return LocalProtocolError(msg) if sender is self._role else RemoteProtocolError(msg)
