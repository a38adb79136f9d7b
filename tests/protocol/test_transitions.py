from __future__ import annotations

import pytest

from trio_stomp.errors import LocalProtocolError, RemoteProtocolError
from trio_stomp.protocol import Role, Session, State
from trio_stomp.types import Command

# Written out once more by hand, as the texts say it: state -> command -> next state.
CLIENT_FRAMES = {
    State.OPENING: {"CONNECT": State.CONNECTING, "STOMP": State.CONNECTING},
    State.CONNECTING: {},
    State.CONNECTED: {
        "SEND": State.CONNECTED,
        "SUBSCRIBE": State.CONNECTED,
        "UNSUBSCRIBE": State.CONNECTED,
        "ACK": State.CONNECTED,
        "NACK": State.CONNECTED,
        "BEGIN": State.CONNECTED,
        "COMMIT": State.CONNECTED,
        "ABORT": State.CONNECTED,
        "DISCONNECT": State.DISCONNECTING,
    },
    State.DISCONNECTING: {},
    State.CLOSED: {},
}
SERVER_FRAMES = {
    State.OPENING: {"ERROR": State.CLOSED},
    State.CONNECTING: {"CONNECTED": State.CONNECTED, "ERROR": State.CLOSED},
    State.CONNECTED: {"MESSAGE": State.CONNECTED, "RECEIPT": State.CONNECTED, "ERROR": State.CONNECTED},
    State.DISCONNECTING: {
        "MESSAGE": State.DISCONNECTING,
        "RECEIPT": State.DISCONNECTING,
        "ERROR": State.DISCONNECTING,
    },
    State.CLOSED: {},
}
TABLES = {Role.CLIENT: CLIENT_FRAMES, Role.SERVER: SERVER_FRAMES}


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("sender", Role)
@pytest.mark.parametrize("asked_by", Role)
def test_step_when_a_side_sends_a_frame_then_follows_the_table(asked_by: Role, sender: Role, state: State) -> None:
    following = TABLES[sender][state]
    legal = ", ".join(sorted(following)) or "nothing"
    fault = LocalProtocolError if sender is asked_by else RemoteProtocolError
    for command in Command:
        session = Session(asked_by)
        session._enter(state)
        if command.value in following:
            session.step(sender, command)
            assert session.state is following[command.value]
            continue
        with pytest.raises(fault) as caught:
            session.step(sender, command)
        assert str(caught.value) == (
            f"a {sender.value} may not send {command.value} when the session is {state.value}: it may send {legal}"
        )
        assert session.state is state
