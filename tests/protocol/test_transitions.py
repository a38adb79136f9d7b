from __future__ import annotations

import pytest

from trio_stomp.errors import LocalProtocolError, RemoteProtocolError
from trio_stomp.protocol.frames import CLIENT_COMMANDS, SERVER_COMMANDS, Command, Role
from trio_stomp.protocol.transitions import TRANSITIONS, Session, State

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
ALL_CELLS = [
    (state, sender, command, table[state].get(command.value))
    for sender, table, commands in (
        (Role.CLIENT, CLIENT_FRAMES, CLIENT_COMMANDS),
        (Role.SERVER, SERVER_FRAMES, SERVER_COMMANDS),
    )
    for state in State
    for command in sorted(commands)
]


@pytest.mark.parametrize(("state", "sender", "command", "following"), ALL_CELLS)
@pytest.mark.parametrize("asked_by", list(Role))
def test_step_when_a_side_sends_a_frame_then_follows_the_table(
    asked_by: Role, state: State, sender: Role, command: Command, following: State | None
) -> None:
    session = Session(asked_by)
    session._enter(state)

    if following is not None:
        session.step(sender, command)
        assert session.state is following
        return
    fault = LocalProtocolError if sender is asked_by else RemoteProtocolError
    with pytest.raises(fault, match=f"a {sender.value} may not send {command.value} when .* {state.value}: it may"):
        session.step(sender, command)
    assert session.state is state


def test_table_when_counted_then_has_no_entry_beyond_those_tested() -> None:
    entries = sum(len(after) for table in TRANSITIONS.values() for after in table.values())

    assert entries == sum(1 for *_, following in ALL_CELLS if following is not None)


def test_error_when_a_frame_is_illegal_then_names_those_that_are_legal() -> None:
    with pytest.raises(LocalProtocolError, match=r"it may send CONNECT, STOMP$"):
        Session(Role.CLIENT).step(Role.CLIENT, Command.SEND)


@pytest.mark.parametrize("word", ["opening", "connecting", "connected", "disconnecting", "closed"])
def test_error_when_a_frame_is_illegal_then_says_the_state_in_a_word(word: str) -> None:
    session = Session(Role.CLIENT)
    session._enter(State(word))

    with pytest.raises(LocalProtocolError, match=f"a client may not send RECEIPT when the session is {word}: it may"):
        session.step(Role.CLIENT, Command.RECEIPT)


def test_session_when_closed_then_takes_no_frame() -> None:
    session = Session(Role.SERVER)
    session.close()

    with pytest.raises(LocalProtocolError, match="it may send nothing"):
        session.step(Role.SERVER, Command.ERROR)


def test_steady_when_the_state_changes_then_holds_what_may_be_sent_in_any_number() -> None:
    session = Session(Role.CLIENT)
    assert session.steady == set()
    session.step(Role.CLIENT, Command.CONNECT)
    assert session.steady == set()
    session.step(Role.SERVER, Command.CONNECTED)
    assert session.steady == CLIENT_COMMANDS - {Command.CONNECT, Command.STOMP, Command.DISCONNECT}
    session.step(Role.CLIENT, Command.DISCONNECT)
    assert session.steady == set()
    session.close()
    assert session.steady == set()
