from __future__ import annotations

import pytest

from tests.kit.chunks import fed
from trio_stomp import Limits
from trio_stomp.errors import LimitExceeded, LocalProtocolError, RemoteProtocolError
from trio_stomp.protocol import (
    NO_HEART_BEAT,
    ConnectRequested,
    DraftServerProtocol,
    FrameReceived,
    HeartBeatOffer,
    ServerProtocol,
    State,
    Violation,
)
from trio_stomp.types import Command, Version


def connected(version: str = "1.2") -> ServerProtocol:
    protocol = ServerProtocol()
    (event,) = protocol.receive_data(f"CONNECT\naccept-version:{version}\nhost:h\n\n\0".encode())
    assert isinstance(event, ConnectRequested)
    protocol.send_frame(Command.CONNECTED, [("version", version)])
    return protocol


def violation(protocol: ServerProtocol, data: bytes) -> Violation:
    *_, last = protocol.receive_data(data)
    assert isinstance(last, Violation)
    return last


@pytest.mark.parametrize("command", ["CONNECT", "STOMP"])
def test_connect_when_received_then_tells_what_is_wanted(command: str) -> None:
    """Rows 12-CONN-7, 11-CONN-7, 1x-NEG-3, 1x-HDR-ESC-9, all-FRM-6."""
    protocol = ServerProtocol()

    (event,) = protocol.receive_data(
        f"\n{command}\r\naccept-version:1.1,1.0\r\nhost:h\r\nheart-beat:1,2\r\nlogin:a\\cb\r\n\r\n\0".encode()
    )

    assert isinstance(event, ConnectRequested)
    assert event.version is protocol.version is Version.V1_1
    assert event.offer == HeartBeatOffer(can_ms=1, want_ms=2)
    assert event.frame.headers["login"] == "a\\cb"
    assert protocol.state is State.CONNECTING


def test_connect_when_it_is_bare_then_is_one_of_1_0() -> None:
    """Rows 1x-NEG-2, 10-HDR-PAD-3."""
    (event,) = ServerProtocol().receive_data(b"CONNECT\nlogin: u\n\n\0")

    assert isinstance(event, ConnectRequested)
    assert event.version is Version.V1_0
    assert event.offer == NO_HEART_BEAT
    assert event.frame.headers == {"login": "u"}


def test_connect_when_it_has_no_host_then_is_refused_on_demand_only() -> None:
    """Rows 1x-CONN-16, 12-CONN-13."""
    data = b"CONNECT\naccept-version:1.2\n\n\0"

    (event,) = ServerProtocol().receive_data(data)

    assert isinstance(event, ConnectRequested)
    assert event.offer == NO_HEART_BEAT
    assert isinstance(violation(ServerProtocol(require_host=True), data), Violation)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"CONNECT\naccept-version:2.0\nhost:h\n\n\0", "client sent accept-version '2.0'; supported: 1.0,1.1,1.2$"),
        (b"CONNECT\naccept-version:1.2\nhost:h\nheart-beat:x\n\n\0", "heart-beat must be"),
        (b"SEND\ndestination:/q\n\n\0", "expected one of CONNECT, STOMP"),
        (b"GET / HTTP/1.1\r\n", "unknown command"),
    ],
)
def test_handshake_when_the_client_breaks_the_rules_then_is_answered_by_error(data: bytes, told: str) -> None:
    """Rows 12-NEG-4, 11-NEG-4, 1x-NEG-5, 1x-HB-15, all-CONN-22."""
    protocol = ServerProtocol()

    with pytest.raises(RemoteProtocolError, match=told):
        raise violation(protocol, data).error
    assert protocol.send_frame(Command.ERROR, [("version", protocol.supported)]).startswith(
        b"ERROR\nversion:1.0,1.1,1.2\n"
    )
    assert protocol.state is State.CLOSED


def test_handshake_when_the_client_names_no_version_and_1_0_is_not_supported_then_is_a_violation() -> None:
    with pytest.raises(RemoteProtocolError, match=r"client sent no accept-version \(so 1.0\); supported: 1.2$"):
        raise violation(ServerProtocol(versions=[Version.V1_2]), b"CONNECT\nhost:h\n\n\0").error


def test_protocol_when_it_supports_no_version_then_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="at least one version"):
        ServerProtocol(versions=[])


@pytest.mark.parametrize("size", [1, 1000])
def test_frames_when_they_come_with_connect_then_are_read_by_its_version(size: int) -> None:
    protocol = ServerProtocol()
    (requested,) = protocol.receive_data(b"CONNECT\naccept-version:1.1\nhost:h\n\n\0")
    assert isinstance(requested, ConnectRequested)
    protocol.send_frame(Command.CONNECTED, [("version", "1.1")])
    data = b"SEND\ndestination:/q\nk:\\c\r\n\nx\0\nDISCONNECT\n\n\0"

    send, disconnect = fed(protocol, data, size)

    assert isinstance(send, FrameReceived)
    assert send.frame.headers["k"] == ":\r"
    assert isinstance(disconnect, FrameReceived)
    assert protocol.state is State.DISCONNECTING


@pytest.mark.parametrize("draft", [False, True])
def test_frames_when_the_client_does_not_wait_for_connected_then_follow_the_answer(draft: bool) -> None:
    protocol = DraftServerProtocol() if draft else ServerProtocol()
    send = b"SEND\ndestination:/q\n\n%b\0"

    (requested,) = protocol.receive_data(b"CONNECT\n\n\0" + send % b"1")
    assert isinstance(requested, ConnectRequested)
    assert protocol.receive_data(send % b"2") == []
    protocol.send_frame(Command.CONNECTED, [])

    events = protocol.receive_data(b"") + protocol.receive_data(send % b"3")

    assert [event.frame.body for event in events if isinstance(event, FrameReceived)] == [b"1", b"2", b"3"]


def test_frames_when_a_bad_one_follows_before_connected_then_are_judged_after_the_answer() -> None:
    protocol = ServerProtocol()
    protocol.receive_data(b"CONNECT\n\n\0")
    assert protocol.receive_data(b"SEND\ndestination:/q\n\n\0NOPE\n\n\0") == []
    protocol.send_frame(Command.CONNECTED, [])

    first, last = protocol.receive_data(b"")

    assert isinstance(first, FrameReceived)
    assert isinstance(last, Violation)


@pytest.mark.parametrize(
    ("version", "data", "told"),
    [
        ("1.2", b"SEND\nreceipt:1\n\n\0", "header destination in STOMP 1.2"),
        ("1.1", b"ACK\nmessage-id:1\n\n\0", "header subscription"),
        ("1.2", b"SUBSCRIBE\nid:1\ndestination:/q\nack:never\n\n\0", "header ack .* with a value it allows"),
        ("1.2", b"CONNECT\naccept-version:1.2\nhost:h\n\n\0", "may not send CONNECT"),
    ],
)
def test_frame_when_it_may_not_come_so_then_the_violation_carries_it(version: str, data: bytes, told: str) -> None:
    """Rows 12-TAB-1, 11-ACK-1, 1x-SUB-6."""
    found = violation(connected(version), data)

    assert found.frame is not None
    with pytest.raises(RemoteProtocolError, match=told):
        raise found.error


@pytest.mark.parametrize(
    ("accepts", "ack", "kind"),
    [
        (False, "client-individual", Violation),
        (True, "client-individual", FrameReceived),
        (True, "sometimes", Violation),
        (True, "client", FrameReceived),
    ],
)
def test_subscribe_when_1_0_then_client_individual_is_accepted_on_demand_only(
    accepts: bool, ack: str, kind: type
) -> None:
    protocol = ServerProtocol(individual_acks_in_1_0=True) if accepts else ServerProtocol()
    protocol.receive_data(b"CONNECT\n\n\0")
    protocol.send_frame(Command.CONNECTED, [("version", "1.0")])

    (event,) = protocol.receive_data(f"SUBSCRIBE\ndestination:/queue/a\nack:{ack}\n\n\0".encode())

    assert isinstance(event, kind)


def test_frame_when_it_follows_disconnect_then_is_a_violation() -> None:
    """Row 1x-DISC-2."""
    found = violation(connected(), b"DISCONNECT\n\n\0SEND\ndestination:/q\n\n\0")

    assert "when the session is disconnecting" in str(found.error)


@pytest.mark.parametrize("bad", [b"SEND\n\n\0", b"NOPE\n\n\0"])
def test_violation_when_it_has_happened_then_nothing_more_is_read(bad: bytes) -> None:
    protocol = connected()
    good = b"SEND\ndestination:/q\n\n\0"

    first, last = protocol.receive_data(good + bad + good)

    assert isinstance(first, FrameReceived)
    assert isinstance(last, Violation)
    assert protocol.receive_data(good) == []


def test_stream_when_it_passes_a_limit_then_is_a_violation() -> None:
    protocol = ServerProtocol(limits=Limits(header_line_bytes=10))

    assert isinstance(violation(protocol, b"CONNECT\naccept-version").error, LimitExceeded)


def test_send_frame_when_its_turn_has_not_come_then_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="a server may not send MESSAGE"):
        ServerProtocol().send_frame(Command.MESSAGE, [])
    with pytest.raises(LocalProtocolError, match="a server may not send CONNECTED"):
        connected().send_frame(Command.CONNECTED, [])


def test_send_frame_when_connected_then_encodes_by_the_version() -> None:
    protocol = connected()

    assert protocol.send_frame(Command.MESSAGE, [("a", "b:c")], b"x") == b"MESSAGE\na:b\\cc\ncontent-length:1\n\nx\0"
    assert protocol.send_frame(Command.MESSAGE, [], b"x", content_length=False) == b"MESSAGE\n\nx\0"
    assert protocol.heart_beat() == b"\n"


def test_close_when_called_then_nothing_more_is_read_or_sent() -> None:
    protocol = connected()
    protocol.close()

    assert protocol.receive_data(b"SEND\ndestination:/q\n\n\0") == []
    with pytest.raises(LocalProtocolError, match="may not send ERROR"):
        protocol.send_frame(Command.ERROR, [])


def test_draft_when_the_client_speaks_it_then_its_username_is_the_login() -> None:
    """Rows draft-CONN-15, draft-LEN-3, draft-LEN-5."""
    protocol = DraftServerProtocol()

    requested, other = protocol.receive_data(b"connect \nUserName: u\r\nPassCode: p\n\n\0"), protocol.supported

    (event,) = requested
    assert isinstance(event, ConnectRequested)
    assert event.frame.headers == {"login": "u", "passcode": "p"}
    assert (event.version, other) == (Version.V1_0, "1.0")
    protocol.send_frame(Command.CONNECTED, [])
    (send,) = protocol.receive_data(b"send\ndestination: /q\n\nx\0")
    assert isinstance(send, FrameReceived)
    assert send.frame.headers == {"destination": "/q"}


def test_pending_when_the_input_ends_inside_a_frame_then_true_until_the_session_is_closed() -> None:
    protocol = connected()
    seen = [protocol.pending]
    protocol.receive_data(b"SEND\ndestination:/q\n\nhalf")
    seen.append(protocol.pending)
    protocol.close()
    seen.append(protocol.pending)

    assert seen == [False, True, False]
