"""THE TABLE: which side may send which frame in which state, and which state follows.

One table for both sides: each asks it about its own frames, where a missing entry is our fault, and about the peer's,
where it is theirs. `docs/` draws its diagram from it.
Spec: "Connecting", "DISCONNECT", "ERROR".
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from trio_stomp.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from trio_stomp.protocol.frames import Command, Role, Word

__all__ = ["TRANSITIONS", "Session", "State"]


class State(Word):
    """The state of a session.

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


TRANSITIONS: Final[Mapping[Role, Mapping[State, Mapping[Command, State]]]] = MappingProxyType(
    {
        Role.CLIENT: {
            # STOMP 1.2, Connecting: "A STOMP client initiates the stream or TCP connection to the server by sending the
            # CONNECT frame". CONNECT or STOMP Frame: "STOMP servers MUST handle a STOMP frame in the same manner as a
            # CONNECT frame."
            State.OPENING: {
                Command.CONNECT: State.CONNECTING,
                Command.STOMP: State.CONNECTING,
            },
            State.CONNECTING: {},
            # STOMP 1.2, Client Frames: "A client MAY send a frame not in this list, but for such a frame a STOMP 1.2
            # server MAY respond with an ERROR frame". A second CONNECT is not in the list.
            State.CONNECTED: {
                Command.SEND: State.CONNECTED,
                Command.SUBSCRIBE: State.CONNECTED,
                Command.UNSUBSCRIBE: State.CONNECTED,
                Command.BEGIN: State.CONNECTED,
                Command.COMMIT: State.CONNECTED,
                Command.ABORT: State.CONNECTED,
                Command.ACK: State.CONNECTED,
                Command.NACK: State.CONNECTED,
                Command.DISCONNECT: State.DISCONNECTING,
            },
            # STOMP 1.2, DISCONNECT: "Clients MUST NOT send any more frames after the DISCONNECT frame is sent."
            State.DISCONNECTING: {},
            State.CLOSED: {},
        },
        Role.SERVER: {
            # A server may refuse before it has read a CONNECT: too many connections, a first frame of another protocol.
            State.OPENING: {
                Command.ERROR: State.CLOSED,
            },
            # STOMP 1.2, Connecting: "The server SHOULD respond back with an ERROR frame explaining why the connection
            # was rejected and then close the connection."
            State.CONNECTING: {
                Command.CONNECTED: State.CONNECTED,
                Command.ERROR: State.CLOSED,
            },
            # 1.0 and 1.1 don't close after every ERROR (row 11-ERR-2), so the client decides whether one is fatal.
            State.CONNECTED: {
                Command.MESSAGE: State.CONNECTED,
                Command.RECEIPT: State.CONNECTED,
                Command.ERROR: State.CONNECTED,
            },
            # MESSAGE frames may cross DISCONNECT: row all-DISC-5.
            State.DISCONNECTING: {
                Command.MESSAGE: State.DISCONNECTING,
                Command.RECEIPT: State.DISCONNECTING,
                Command.ERROR: State.DISCONNECTING,
            },
            State.CLOSED: {},
        },
    }
)

# (state, role) -> the commands that leave that state as it is: nearly all that is sent. To look into one small set
# takes a third of the time of the table.
_STEADY: Final = {
    (state, role): frozenset(command for command, then in after.items() if then is state)
    for role, table in TRANSITIONS.items()
    for state, after in table.items()
}


class Session:
    """The state of one session, as one of its two sides sees it.

    Args:
        role: This side.

    Attributes:
        state: Where it is.
        steady: The commands this side may send now that leave the state as it is.
        steady_of_peer: Those of the peer.
    """

    __slots__ = ("_role", "state", "steady", "steady_of_peer")

    def __init__(self, role: Role) -> None:
        self._role = role
        self._enter(State.OPENING)

    def _enter(self, state: State) -> None:
        self.state = state
        self.steady = _STEADY[state, self._role]
        self.steady_of_peer = _STEADY[state, self._role.peer]

    def step(self, sender: Role, command: Command) -> None:
        """Enter the state that follows a frame of `sender`.

        Raises:
            LocalProtocolError: This side may not send it now.
            RemoteProtocolError: The peer may not send it now.
        """
        state = TRANSITIONS[sender][self.state].get(command)
        if state is None:
            raise self._illegal(sender, command)
        if state is not self.state:
            self._enter(state)

    @property
    def is_closed(self) -> bool:
        """Whether no frame may follow."""
        return self.state is State.CLOSED

    def close(self) -> None:
        """End the session: no frame may follow in either direction."""
        self._enter(State.CLOSED)

    def reopen(self) -> None:
        """Return from `close` to connected, for frames of this side alone."""
        self._enter(State.CONNECTED)

    def _illegal(self, sender: Role, command: Command) -> ProtocolError:
        legal = sorted(TRANSITIONS[sender][self.state])
        may = f"it may send {', '.join(legal)}" if legal else "it may send nothing"
        msg = f"a {sender.value} may not send {command.value} when the session is {self.state.value}: {may}"
        return LocalProtocolError(msg) if sender is self._role else RemoteProtocolError(msg)
