from __future__ import annotations

import pytest

from tests.kit.chunks import fed
from trio_stomp import AckMode, Limits
from trio_stomp.errors import LocalProtocolError, NotInVersionError
from trio_stomp.protocol import (
    Connected,
    ConnectRequested,
    DraftClientProtocol,
    DraftDecoder,
    DraftServerProtocol,
    ErrorReceived,
    HeartBeatOffer,
    MessagesReceived,
    ReceiptsReceived,
    Role,
    Tolerances,
    Violation,
)
from trio_stomp.types import Command, Frame, Headers, Version

EACH_SIZE = pytest.mark.parametrize("size", [1, 2, 7, 1000])


@EACH_SIZE
def test_draft_when_a_value_looks_escaped_then_is_kept_as_it_is(size: int) -> None:
    (frame,) = fed(DraftDecoder(role=Role.CLIENT), b"error\nMessage:a\\cb\n\n\0", size)

    assert frame.headers == {"message": "a\\cb"}


@EACH_SIZE
def test_draft_when_lines_are_exactly_at_the_limits_then_pass(size: int) -> None:
    decoder = DraftDecoder(
        role=Role.CLIENT, limits=Limits(command_bytes=5, header_line_bytes=4, header_count=2, body_bytes=0)
    )

    (frame,) = fed(decoder, b"ERROR\r\na:bc\r\nd:ef\r\n\r\n\0", size)

    assert frame.headers == {"a": "bc", "d": "ef"}


# --- both sides of a session ------------------------------------------------------------------------------------------


def opened(tolerances: Tolerances | None = None) -> DraftClientProtocol:
    protocol = DraftClientProtocol(tolerances_for=lambda _: tolerances or Tolerances())
    protocol.connect(host="/", headers=[("login", "u"), ("passcode", "p")])
    protocol.receive_data(b"connected\n\n\0")
    return protocol


@EACH_SIZE
def test_client_when_the_server_writes_leniently_then_events_do_not_depend_on_the_chunks(size: int) -> None:
    """Rows draft-LEN-1 to draft-LEN-5."""
    protocol = DraftClientProtocol()
    protocol.connect(host="/")
    data = b"\r\n\nConnected \r\nSESSION: 7 \r\n\r\n\0"
    data += b" \nmessage\nDestination: /q \r\nMessage-ID:1\r\r\nContent-Length:1\n \r\n\0\0"
    data += b"\nreceipt\nReceipt-Id: r 1 \n\n\0Error \nMessage: no \n\nwhy\0"

    connected, messages, receipts, error = fed(protocol, data, size)

    assert isinstance(connected, Connected)
    assert (connected.version, connected.session, connected.terms.server_sends_ms) == (Version.V1_0, "7", 0)
    assert isinstance(messages, MessagesReceived)
    (message,) = messages.frames
    assert message.headers == {"destination": "/q", "message-id": "1", "content-length": "1"}
    assert message.body == b"\0"
    assert receipts == ReceiptsReceived(["r 1"])
    assert isinstance(error, ErrorReceived)
    assert error.frame == Frame(Command.ERROR, Headers({"message": "no"}), b"why")
    assert not error.fatal


def test_client_when_its_frames_are_encoded_then_all_have_a_content_length() -> None:
    """Rows draft-CONN-15, draft-LEN-3, draft-LEN-5, draft-LEN-8."""
    protocol = DraftClientProtocol()
    frames = [protocol.connect(host="h", offer=HeartBeatOffer(can_ms=1, want_ms=1), headers=[("login", "u")])]
    protocol.receive_data(b"CONNECTED\nversion:1.0\n\n\0")
    frames += [
        protocol.begin("t"),
        protocol.send("/q", b"", content_length=False),
        protocol.send("/q", b"ab", headers=[("content-length", "2")], transaction="t"),
        protocol.send_head("/q", 3, headers=[("a", "x:content-length:0")]) + b"abc\0",
        protocol.end(Command.COMMIT, "t"),
        protocol.subscribe("1", "/q", AckMode.CLIENT),
        protocol.acknowledge(Command.ACK, Headers({"message-id": "m"}), "1", headers=[("receipt", "r")]),
        protocol.unsubscribe("1"),
        protocol.disconnect("bye"),
    ]

    assert frames == [
        b"CONNECT\nusername:u\npasscode:\ncontent-length:0\n\n\0",
        b"BEGIN\ntransaction:t\ncontent-length:0\n\n\0",
        b"SEND\ndestination:/q\ncontent-length:0\n\n\0",
        b"SEND\ndestination:/q\ntransaction:t\ncontent-length:2\n\nab\0",
        b"SEND\ndestination:/q\na:x:content-length:0\ncontent-length:3\n\nabc\0",
        b"COMMIT\ntransaction:t\ncontent-length:0\n\n\0",
        b"SUBSCRIBE\nid:1\ndestination:/q\nack:client\ncontent-length:0\n\n\0",
        b"ACK\nmessage-id:m\nsubscription:1\nreceipt:r\ncontent-length:0\n\n\0",
        b"UNSUBSCRIBE\nid:1\ndestination:/q\ncontent-length:0\n\n\0",
        b"DISCONNECT\nreceipt:bye\ncontent-length:0\n\n\0",
    ]
    server = DraftServerProtocol()
    (requested,) = server.receive_data(b"".join(frames))
    assert isinstance(requested, ConnectRequested)
    server.send_frame(Command.CONNECTED, [])
    assert not any(isinstance(event, Violation) for event in server.receive_data(b""))


def test_client_when_a_command_is_not_in_the_draft_then_refused() -> None:
    protocol = opened()
    protocol.subscribe("1", "/q", AckMode.CLIENT)

    with pytest.raises(NotInVersionError, match="the early draft of STOMP has no NACK; leave the message unsettled"):
        protocol.acknowledge(Command.NACK, Headers({"message-id": "m"}), "1")
    with pytest.raises(NotInVersionError, match="the early draft of STOMP has no ack mode 'client-individual'"):
        protocol.subscribe("2", "/q", AckMode.CLIENT_INDIVIDUAL)
    with pytest.raises(LocalProtocolError, match="no heart-beats"):
        protocol.heart_beat()
    assert protocol.acknowledge(Command.ACK, Headers({"message-id": "m"}), "1")


@pytest.mark.parametrize("body_bytes", [0, 5])
def test_client_when_a_header_is_refused_then_the_transaction_is_as_it_was(body_bytes: int) -> None:
    """Row draft-LEN-6."""
    protocol = opened()
    with pytest.raises(LocalProtocolError, match="no control characters"):
        protocol.begin("t\t")
    protocol.begin("t")
    with pytest.raises(LocalProtocolError, match="begins or ends with a space"):
        protocol.send_head("/q ", body_bytes, transaction="t")
    with pytest.raises(LocalProtocolError, match="don't repeat it"):
        protocol.send_head("/q", body_bytes, headers=[("content-length", "0")])
    protocol.end(Command.COMMIT, "t")


@pytest.mark.parametrize("version", ["1.1", "1.2", "draft"])
def test_client_when_the_server_chooses_another_version_then_a_violation(version: str) -> None:
    protocol = DraftClientProtocol()
    protocol.connect(host="/")

    (violation,) = protocol.receive_data(f"CONNECTED\nversion:{version}\n\n\0".encode())

    assert isinstance(violation, Violation)
    assert "the client offered only 1.0" in str(violation.error)


def test_client_when_the_broker_is_tolerated_then_that_holds_after_connected() -> None:
    protocol = opened(Tolerances(lines_without_colon=True))

    (event,) = protocol.receive_data(b"ERROR\nMessage: a\nodd\n\n\0")

    assert isinstance(event, ErrorReceived)
    assert event.frame.headers == {"message": "a", "odd": ""}


def test_server_when_its_frames_are_encoded_then_they_keep_the_rules_for_senders() -> None:
    """Rows draft-LEN-5, draft-LEN-6, draft-LEN-8."""
    server = DraftServerProtocol()
    server.receive_data(b"CONNECT\n\n\0")

    assert server.send_frame(Command.CONNECTED, [("session", "7")]) == b"CONNECTED\nsession:7\ncontent-length:0\n\n\0"
    for header in (("X-y", "1"), ("x", "a\tb"), ("x", " a")):
        with pytest.raises(LocalProtocolError):
            server.send_frame(Command.MESSAGE, [("destination", "/q"), ("message-id", "1"), header])
    assert server.send_frame(Command.RECEIPT, [("receipt-id", "1")]).endswith(b"\ncontent-length:0\n\n\0")
    assert server.send_frame(Command.ERROR, [], b"e", content_length=False) == b"ERROR\ncontent-length:1\n\ne\0"
