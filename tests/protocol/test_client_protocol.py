from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.kit.chunks import fed
from trio_stomp import AckMode, Limits
from trio_stomp.errors import LimitExceeded, LocalProtocolError, NotSupportedError, RemoteProtocolError
from trio_stomp.protocol import (
    ClientProtocol,
    Connected,
    ErrorReceived,
    HeartBeatOffer,
    MessagesReceived,
    ReceiptsReceived,
    ServerInfo,
    State,
    Tolerances,
    Violation,
    encode_frame,
    plain_head,
)
from trio_stomp.types import Command, Headers, HeartBeatTerms, Version

STRICT = Tolerances()
CLIENT, INDIVIDUAL, AUTO = AckMode.CLIENT, AckMode.CLIENT_INDIVIDUAL, AckMode.AUTO
MESSAGE = b"MESSAGE\nsubscription:s\nmessage-id:m:1\ndestination:/q\n"


def connected(version: str = "1.2", tolerances: Tolerances = STRICT) -> ClientProtocol:
    protocol = ClientProtocol(tolerances_for=lambda _server: tolerances)
    protocol.connect(host="h")
    (event,) = protocol.receive_data(f"CONNECTED\nversion:{version}\n\n\0".encode())
    assert isinstance(event, Connected)
    return protocol


def violation(protocol: ClientProtocol, data: bytes) -> RemoteProtocolError:
    *_, last = protocol.receive_data(data)
    assert isinstance(last, Violation)
    assert protocol.state is State.CLOSED
    return last.error


# --- connecting -------------------------------------------------------------------------------------------------------


def test_connect_when_asked_then_offers_versions_host_and_heart_beat_first() -> None:
    """Rows 1x-CONN-9, 1x-CONN-10, 1x-NEG-1, 1x-HDR-ESC-10."""
    protocol = ClientProtocol()

    given = protocol.connect(
        host="mq.test", offer=HeartBeatOffer(can_ms=1, want_ms=2), headers=[("login", "a:b"), ("passcode", "c\\n")]
    )

    assert given == (
        b"CONNECT\naccept-version:1.0,1.1,1.2\nhost:mq.test\nheart-beat:1,2\nlogin:a:b\npasscode:c\\n\n\n\0"
    )
    assert protocol.state is State.CONNECTING


def test_connect_when_versions_are_chosen_then_offers_them_rising() -> None:
    protocol = ClientProtocol(versions=[Version.V1_2, Version.V1_1])

    assert b"accept-version:1.1,1.2\n" in protocol.connect(host="h")


def test_protocol_when_no_version_is_offered_then_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="at least one version"):
        ClientProtocol(versions=[])


def test_connect_when_called_twice_then_is_refused() -> None:
    protocol = ClientProtocol()
    protocol.connect(host="h")

    with pytest.raises(LocalProtocolError, match="may not send CONNECT"):
        protocol.connect(host="h")


def test_connect_when_a_header_cannot_be_sent_then_leaves_the_session_unopened() -> None:
    protocol = ClientProtocol()

    with pytest.raises(LocalProtocolError):
        protocol.connect(host="h", headers=[("passcode", "a\nb")])
    assert protocol.state is State.OPENING


def test_connected_when_received_then_tells_what_was_agreed() -> None:
    """Rows 1x-NEG-3, 12-CONN-19, 11-CONN-19, 1x-HB-6, 1x-HB-7."""
    servers: list[str | None] = []

    def tolerances_for(server: str | None) -> Tolerances:
        servers.append(server)
        return STRICT

    protocol = ClientProtocol(tolerances_for=tolerances_for)
    protocol.connect(host="h", offer=HeartBeatOffer(can_ms=4000, want_ms=6000))

    (event,) = protocol.receive_data(
        b"CONNECTED\nversion:1.1\nserver:X/1 y\nsession:ID:1\nheart-beat:5000,3000\n\n\0\n"
    )

    assert isinstance(event, Connected)
    assert event.version is protocol.version is Version.V1_1
    assert (event.server, event.session) == ("X/1 y", "ID:1")
    assert event.terms == HeartBeatTerms(client_sends_ms=4000, server_sends_ms=6000)
    assert servers == ["X/1 y"]
    assert protocol.state is State.CONNECTED


def test_connected_when_it_is_bare_then_the_session_is_1_0_without_heart_beats() -> None:
    """Rows 1x-CONN-18, 10-HB-14."""
    protocol = ClientProtocol()
    protocol.connect(host="h", offer=HeartBeatOffer(can_ms=4000, want_ms=6000))

    (event,) = protocol.receive_data(b"CONNECTED\nheart-beat:nonsense\n\n\0")

    assert isinstance(event, Connected)
    assert (event.version, event.server, event.session) == (Version.V1_0, None, None)
    assert event.terms == HeartBeatTerms(client_sends_ms=0, server_sends_ms=0)


def test_connected_when_its_server_header_breaks_the_grammar_then_the_session_stands() -> None:
    """Row 1x-CONN-23."""
    protocol = ClientProtocol()
    protocol.connect(host="h")

    (event,) = protocol.receive_data(b"CONNECTED\nversion:1.2\nserver: /odd \n\n\0")

    assert isinstance(event, Connected)
    assert event.server == " /odd "
    with pytest.raises(RemoteProtocolError):
        ServerInfo.parse(event.server)
    assert protocol.state is State.CONNECTED


@pytest.mark.parametrize("size", [1, 1000])
def test_frames_when_they_come_with_connected_then_are_read_by_its_version(size: int) -> None:
    """Row all-CONN-5."""
    protocol = ClientProtocol()
    protocol.connect(host="h")
    data = b"CONNECTED\nversion:1.2\n\n\0\n" + MESSAGE + b"k:\\r\n\nx\0RECEIPT\nreceipt-id:1\n\n\0"

    connected_event, message, receipt = fed(protocol, data, size)

    assert isinstance(connected_event, Connected)
    assert isinstance(message, MessagesReceived)
    assert message.frames[0].headers["k"] == "\r"
    assert receipt == ReceiptsReceived(["1"])


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"CONNECTED\nversion:1.3\n\n\0", "CONNECTED has version '1.3', but the client offered only 1.0,1.1,1.2$"),
        (b"CONNECTED\nversion:1.2\nheart-beat:5\n\n\0", "heart-beat must be"),
        (b"CONNECTED\nversion:1.2\n\nx\0", "no body"),
        (b"MESSAGE\n\n\0", "unknown command"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "unknown command"),
    ],
)
def test_handshake_when_the_server_breaks_the_rules_then_is_a_violation(data: bytes, told: str) -> None:
    """Rows 1x-NEG-6, 1x-HB-15, all-CONN-2, 1x-BODY-2."""
    protocol = ClientProtocol()
    protocol.connect(host="h")

    with pytest.raises(RemoteProtocolError, match=told):
        raise violation(protocol, data)


def test_handshake_when_the_server_names_no_version_and_1_0_was_not_offered_then_is_a_violation() -> None:
    protocol = ClientProtocol(versions=[Version.V1_2])
    protocol.connect(host="h")

    with pytest.raises(RemoteProtocolError, match=r"CONNECTED has no version \(so 1.0\), but .* offered only 1.2$"):
        raise violation(protocol, b"CONNECTED\n\n\0")


def test_connected_when_nothing_was_asked_then_is_a_violation() -> None:
    with pytest.raises(RemoteProtocolError, match="may not send CONNECTED"):
        raise violation(ClientProtocol(), b"CONNECTED\nversion:1.2\n\n\0")


@pytest.mark.parametrize("opened", [False, True])
def test_error_when_it_comes_in_place_of_connected_then_ends_the_session(opened: bool) -> None:
    """Row 1x-CONN-4."""
    protocol = ClientProtocol()
    if opened:
        protocol.connect(host="h")

    (event,) = protocol.receive_data(b"ERROR\nmessage:no\n\n\0ERROR\nmessage:more\n\n\0")

    assert isinstance(event, ErrorReceived)
    assert event.fatal
    assert protocol.state is State.CLOSED
    assert protocol.receive_data(b"CONNECTED\nversion:1.2\n\n\0") == []


# --- verbs ------------------------------------------------------------------------------------------------------------


def test_send_when_connected_then_puts_its_own_headers_first() -> None:
    """Rows all-SEND-1, all-SEND-3, 1x-SEND-4."""
    protocol = connected()
    protocol.begin("t")

    given = protocol.send("/q:1", b"hi", headers=[("k", "v")], transaction="t")

    assert given == b"SEND\ndestination:/q\\c1\ntransaction:t\nk:v\ncontent-length:2\n\nhi\0"
    assert protocol.send("/q", b"hi", content_length=False) == b"SEND\ndestination:/q\n\nhi\0"


@pytest.mark.parametrize(
    ("version", "tolerances", "line"),
    [
        ("1.0", STRICT, b"k:a:\\"),
        ("1.0", Tolerances(escapes_in_1_0=True), b"k:a\\c\\\\"),
        ("1.0", Tolerances(decodes_in_1_0=True), b"k:a:\\\\"),
        ("1.2", Tolerances(decodes_in_1_0=True), b"k:a\\c\\\\"),
    ],
)
def test_verbs_when_the_broker_reads_1_0_in_its_own_way_then_escape_for_that(
    version: str, tolerances: Tolerances, line: bytes
) -> None:
    frame = connected(version, tolerances).send("/q", b"x", headers=[("k", "a:\\")])

    assert frame == b"SEND\ndestination:/q\n%b\ncontent-length:1\n\nx\0" % line


def test_ack_when_senders_can_forge_the_ack_header_then_goes_by_message_id() -> None:
    protocol = connected("1.2", Tolerances(ack_by_message_id=True))
    protocol.subscribe("s", "/q", CLIENT)

    given = protocol.acknowledge(Command.ACK, Headers({"ack": "forged", "message-id": "m"}), "s")

    assert given == b"ACK\nid:m\n\n\0"


@pytest.mark.parametrize("ack", ["a-1", "T_1@@session-x@@1", "ID:host-1", "back\\slash", "line\nfeed", "ä", "", "a\rb"])
@pytest.mark.parametrize("command", [Command.ACK, Command.NACK])
def test_ack_when_its_id_has_any_characters_then_is_the_frame_of_the_encoder(command: Command, ack: str) -> None:
    protocol = connected("1.2")
    protocol.subscribe("s", "/q", CLIENT)

    given = protocol.acknowledge(command, Headers({"ack": ack}), "s")

    assert given == encode_frame(command, [("id", ack)], version=Version.V1_2)


@pytest.mark.parametrize(
    ("version", "headers", "told"),
    [
        ("1.2", {"ack": "\0"}, "cannot carry"),
        ("1.2", {"ack": "\ud800"}, "cannot be encoded"),
        ("1.2", {"message-id": "m", "id": "x"}, "no ack header"),
        ("1.1", {"ack": "a", "id": "x"}, "no message-id header"),
        ("1.0", {"ack": "a", "id": "x"}, "no message-id header"),
    ],
)
def test_ack_when_its_id_is_missing_or_cannot_be_represented_then_refused(
    version: str, headers: dict[str, str], told: str
) -> None:
    protocol = connected(version)
    protocol.subscribe("s", "/q", CLIENT)

    with pytest.raises(LocalProtocolError, match=told):
        protocol.acknowledge(Command.ACK, Headers(headers), "s")


def test_subscribe_when_open_then_its_id_is_taken_until_it_ends() -> None:
    """Rows 12-SUB-3, 11-SUB-3, 1x-SUB-2, 1x-SUB-5, 1x-UNSUB-1, 1x-UNSUB-2."""
    protocol = connected()

    given = protocol.subscribe("s", "/q", INDIVIDUAL, headers=[("prefetch-count", "5")])
    assert given == b"SUBSCRIBE\nid:s\ndestination:/q\nack:client-individual\nprefetch-count:5\n\n\0"
    with pytest.raises(LocalProtocolError, match="'s' is open on this connection; ids must differ"):
        protocol.subscribe("s", "/r", AUTO)
    given = protocol.unsubscribe("s", headers=[("durable", "true")])
    assert given == b"UNSUBSCRIBE\nid:s\ndestination:/q\ndurable:true\n\n\0"
    with pytest.raises(LocalProtocolError, match="no subscription with id 's'"):
        protocol.unsubscribe("s")
    assert protocol.subscribe("s", "/q", AUTO)


def test_unsubscribe_when_said_again_for_what_the_broker_keeps_then_only_once_it_was_left() -> None:
    protocol = connected()
    protocol.subscribe("s", "/topic/t", AUTO)
    with pytest.raises(LocalProtocolError, match="subscription 's' is open; leave it before"):
        protocol.unsubscribe("s", again=True)
    protocol.unsubscribe("s")
    again = protocol.unsubscribe("s", headers=[("durable-subscription-name", "mine")], again=True)
    assert again == b"UNSUBSCRIBE\nid:s\ndurable-subscription-name:mine\n\n\0"


def test_subscribe_when_the_server_ended_it_then_its_id_can_be_freed() -> None:
    protocol = connected()
    protocol.subscribe("s", "/q", AUTO)
    protocol.forget_subscription("s")
    protocol.forget_subscription("s")

    assert protocol.subscribe("s", "/q", AUTO)


def test_subscribe_when_1_0_lacks_the_mode_then_is_not_supported() -> None:
    """Rows 10-SUB-6, 10-SUB-18."""
    protocol = connected("1.0")

    with pytest.raises(NotSupportedError, match=r"1\.0 has no ack mode 'client-individual'; it has auto, client"):
        protocol.subscribe("s", "/q", INDIVIDUAL)
    assert protocol.subscribe("s", "/q", CLIENT)


@pytest.mark.parametrize(
    ("version", "given"),
    [
        ("1.0", b"ACK\nmessage-id:m:1\nsubscription:s\ntransaction:t\n\n\0"),
        ("1.1", b"ACK\nmessage-id:m\\c1\nsubscription:s\ntransaction:t\n\n\0"),
        ("1.2", b"ACK\nid:a\\c1\ntransaction:t\n\n\0"),
    ],
)
def test_ack_when_the_message_was_delivered_then_names_it_as_the_version_does(version: str, given: bytes) -> None:
    """Rows 12-ACK-1, 11-ACK-1, 10-ACK-1, all-ACK-2, 10-TX-8."""
    protocol = connected(version)
    protocol.subscribe("s", "/q", CLIENT)
    protocol.begin("t")
    message = Headers({"message-id": "m:1", "ack": "a:1"})

    assert protocol.acknowledge(Command.ACK, message, "s", transaction="t") == given
    assert b"\ntransaction:t\n" in protocol.send("/q", b"x", transaction="t")
    assert protocol.end(Command.COMMIT, "t") == b"COMMIT\ntransaction:t\n\n\0"


def test_nack_when_the_broker_takes_headers_then_sends_them() -> None:
    """Row 1x-NACK-1."""
    protocol = connected()
    protocol.subscribe("s", "/q", CLIENT)

    given = protocol.acknowledge(Command.NACK, Headers({"ack": "a"}), "s", headers=[("requeue", "false")])

    assert given == b"NACK\nid:a\nrequeue:false\n\n\0"


def test_nack_when_the_session_is_1_0_then_is_refused() -> None:
    """Row 10-NACK-2."""
    protocol = connected("1.0")
    protocol.subscribe("s", "/q", CLIENT)

    with pytest.raises(LocalProtocolError, match=r"1\.0 has no NACK"):
        protocol.acknowledge(Command.NACK, Headers({"message-id": "m"}), "s")


def test_ack_when_the_subscription_is_automatic_or_gone_then_is_refused() -> None:
    """Row 1x-SUB-8."""
    protocol = connected()
    protocol.subscribe("s", "/q", AUTO)

    with pytest.raises(LocalProtocolError, match="'s' is in auto mode"):
        protocol.acknowledge(Command.ACK, Headers({"ack": "a"}), "s")
    with pytest.raises(LocalProtocolError, match="'x' is not open"):
        protocol.acknowledge(Command.ACK, Headers({"ack": "a"}), "x")


def test_transaction_when_open_then_its_id_is_taken_until_it_ends() -> None:
    """Rows all-TX-1, 12-TX-2, all-TX-7."""
    protocol = connected()

    assert protocol.begin("t", headers=[("receipt", "1")]) == b"BEGIN\ntransaction:t\nreceipt:1\n\n\0"
    with pytest.raises(LocalProtocolError, match="'t' is open on this connection; ids must differ"):
        protocol.begin("t")
    assert protocol.end(Command.COMMIT, "t") == b"COMMIT\ntransaction:t\n\n\0"
    with pytest.raises(LocalProtocolError, match="no transaction with id 't'"):
        protocol.end(Command.ABORT, "t")
    protocol.begin("t")
    assert protocol.end(Command.ABORT, "t") == b"ABORT\ntransaction:t\n\n\0"


IN_TRANSACTION: list[Callable[[ClientProtocol], bytes]] = [
    lambda protocol: protocol.send("/q", b"", transaction="t"),
    lambda protocol: protocol.acknowledge(Command.ACK, Headers({"ack": "a"}), "s", transaction="t"),
]


@pytest.mark.parametrize("verb", IN_TRANSACTION)
def test_verb_when_its_transaction_is_not_open_then_is_refused(verb: Callable[[ClientProtocol], bytes]) -> None:
    protocol = connected()
    protocol.subscribe("s", "/q", CLIENT)

    with pytest.raises(LocalProtocolError, match="no transaction with id 't'"):
        verb(protocol)


def test_header_when_an_argument_sets_it_already_then_is_refused() -> None:
    protocol = connected()

    assert b"\na:1\na:2\n" in protocol.send("/q", b"", headers=[("a", "1"), ("a", "2")])
    with pytest.raises(LocalProtocolError, match="header 'destination' of SEND is set by an argument"):
        protocol.send("/q", b"", headers=[("k", "v"), ("destination", "/r")])


def test_verb_when_its_frame_cannot_be_encoded_then_changes_nothing() -> None:
    protocol = connected()

    with pytest.raises(LocalProtocolError):
        protocol.subscribe("s", "/q", CLIENT, headers=[("a", "\0")])
    with pytest.raises(LocalProtocolError):
        protocol.begin("t", headers=[("", "a")])
    assert protocol.subscribe("s", "/q", CLIENT)
    assert protocol.begin("t")


VERBS: list[Callable[[ClientProtocol], bytes]] = [
    lambda protocol: protocol.send("/q", b""),
    lambda protocol: protocol.send_head("/q", 1),
    lambda protocol: protocol.subscribe("s", "/q", AUTO),
    lambda protocol: protocol.begin("t"),
    lambda protocol: protocol.disconnect("r"),
    lambda protocol: protocol.heart_beat(),
]


@pytest.mark.parametrize("verb", VERBS)
def test_verb_when_not_connected_then_is_refused(verb: Callable[[ClientProtocol], bytes]) -> None:
    """Rows all-CONN-1, 1x-DISC-2."""
    opening = ClientProtocol()
    connecting = ClientProtocol()
    connecting.connect(host="h")
    leaving = connected()
    leaving.disconnect("bye")

    for protocol in (opening, connecting, leaving):
        with pytest.raises(LocalProtocolError, match=protocol.state.value):
            verb(protocol)


def test_heart_beat_when_connected_then_is_one_line_feed() -> None:
    assert connected("1.1").heart_beat() == b"\n"
    with pytest.raises(LocalProtocolError, match=r"1\.0 has no heart-beats"):
        connected("1.0").heart_beat()


def test_disconnect_when_sent_then_messages_and_its_receipt_may_still_come() -> None:
    """Rows 1x-DISC-1, all-DISC-5."""
    protocol = connected()
    assert protocol.disconnect("bye") == b"DISCONNECT\nreceipt:bye\n\n\0"

    message, receipt = protocol.receive_data(MESSAGE + b"\n\0RECEIPT\nreceipt-id:bye\n\n\0")

    assert isinstance(message, MessagesReceived)
    assert receipt == ReceiptsReceived(["bye"])
    assert protocol.state is State.DISCONNECTING


# --- input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_open", [True, False])
def test_message_when_received_then_names_its_subscription_open_or_not(is_open: bool) -> None:
    """Rows 1x-MSG-6, all-UNSUB-4."""
    protocol = connected()
    if is_open:
        protocol.subscribe("s", "/q", CLIENT)

    (event,) = protocol.receive_data(MESSAGE + b"ack:a\n\nx\0")

    assert isinstance(event, MessagesReceived)
    assert event.subscription_id == "s"
    assert event.frames[0].body == b"x"


def subscription_of(protocol: ClientProtocol, data: bytes) -> str | None:
    (event,) = protocol.receive_data(data)
    assert isinstance(event, MessagesReceived)
    return event.subscription_id


@pytest.mark.parametrize(
    ("left", "newest"), [("cba", "ba"), ("acb", "cb"), ("bca", "ca"), ("abc", "cc"), ("cab", "bb"), ("bac", "cc")]
)
def test_message_of_1_0_when_it_names_a_destination_only_then_the_newest_open_subscription_to_it_gets_it(
    left: str, newest: str
) -> None:
    """Row 10-SUB-15."""
    protocol = connected("1.0")
    for each in "abc":
        protocol.subscribe(each, "/q", AUTO)
    protocol.subscribe("other", "/other", AUTO)
    to_q, to_other = (b"MESSAGE\ndestination:/%b\nmessage-id:1\n\n\0" % name for name in (b"q", b"other"))
    assert subscription_of(protocol, to_q) == "c"

    for each, open_one in zip(left, newest, strict=False):
        protocol.unsubscribe(each)
        assert subscription_of(protocol, to_q) == open_one
    protocol.unsubscribe(left[-1])

    assert subscription_of(protocol, to_q) is None
    assert subscription_of(protocol, to_other) == "other"


@pytest.mark.parametrize(
    ("version", "data", "name"),
    [
        ("1.2", b"MESSAGE\nsubscription:s\nmessage-id:1\n\n\0", "destination"),
        ("1.1", b"MESSAGE\nsubscription:s\ndestination:/q\n\n\0", "message-id"),
        ("1.2", b"MESSAGE\nmessage-id:1\ndestination:/q\n\n\0", "subscription"),
        ("1.2", MESSAGE + b"\n\0", "ack"),
        ("1.0", b"MESSAGE\nmessage-id:1\n\n\0", "destination"),
        ("1.2", b"RECEIPT\nx:y\n\n\0", "receipt-id"),
    ],
)
def test_frame_when_it_lacks_a_header_then_is_a_violation(version: str, data: bytes, name: str) -> None:
    """Rows 12-MSG-1, 11-MSG-1, 10-MSG-1, 12-MSG-3, 12-RECEIPT-1."""
    protocol = connected(version)
    protocol.subscribe("s", "/q", CLIENT)

    with pytest.raises(RemoteProtocolError, match=f"must have the header {name}"):
        raise violation(protocol, data)


@pytest.mark.parametrize(
    ("version", "mode"),
    [(version, mode) for version in Version for mode in AckMode if (version, mode) != ("1.0", INDIVIDUAL)],
)
def test_message_when_its_mode_needs_acks_in_1_2_then_it_must_have_the_ack_header(
    version: Version, mode: AckMode
) -> None:
    """Row 12-MSG-3."""
    protocol = connected(version)
    protocol.subscribe("s", "/q", mode)

    (event,) = protocol.receive_data(MESSAGE + b"\n\0")

    is_needed = version is Version.V1_2 and mode is not AUTO
    assert isinstance(event, Violation if is_needed else MessagesReceived)


@pytest.mark.parametrize(
    ("version", "missing", "tolerances"),
    [
        ("1.2", "ack", STRICT),
        ("1.2", "message-id", STRICT),
        ("1.1", "message-id", STRICT),
        ("1.1", "message-id", Tolerances(messages_without_id=True)),
        ("1.0", "message-id", Tolerances(messages_without_id=True)),
    ],
)
def test_message_when_it_cannot_be_acknowledged_then_the_error_names_the_mode_that_can(
    version: str, missing: str, tolerances: Tolerances
) -> None:
    protocol = connected(version, tolerances)
    protocol.subscribe("s", "/q", CLIENT)
    headers = (b"subscription:s", b"destination:/q", b"message-id:1", b"ack:a")
    given = [line for line in headers if not line.startswith(missing.encode() + b":")]

    error = violation(protocol, b"\n".join([b"MESSAGE", *given, b"", b"\0"]))

    assert re.search(f"must have the header {missing}: .*subscribe with ack='auto'", str(error))


def test_message_when_it_has_no_id_in_auto_mode_then_taken_only_from_those_who_never_send_one() -> None:
    strict, tolerant = connected("1.1"), connected("1.1", Tolerances(messages_without_id=True))
    for protocol in (strict, tolerant):
        protocol.subscribe("s", "/q", AUTO)

    assert subscription_of(tolerant, b"MESSAGE\nsubscription:s\ndestination:/q\n\n\0") == "s"
    error = str(violation(strict, b"MESSAGE\nsubscription:s\ndestination:/q\n\n\0"))
    assert "must have the header message-id: " in error
    # It is in auto mode already.
    assert "ack=" not in error
    assert "must have the header subscription" in str(violation(tolerant, b"MESSAGE\ndestination:/q\n\n\0"))


@pytest.mark.parametrize(
    ("version", "tolerances", "fatal"),
    [
        ("1.0", STRICT, False),
        ("1.1", STRICT, False),
        ("1.2", STRICT, True),
        ("1.2", Tolerances(errors_leave_open=True), False),
    ],
)
def test_error_when_connected_then_ends_the_session_only_in_1_2(
    version: str, tolerances: Tolerances, fatal: bool
) -> None:
    """Rows 12-ERR-2, 11-ERR-2, all-ERR-1."""
    protocol = connected(version, tolerances)

    events = protocol.receive_data(b"ERROR\nmessage:no\n\n\0RECEIPT\nreceipt-id:1\n\n\0")

    assert isinstance(events[0], ErrorReceived)
    assert events[0].fatal is fatal
    assert len(events) == (1 if fatal else 2)
    assert (protocol.state is State.CLOSED) is fatal


DELIVERY = b"MESSAGE\nsubscription:a\nmessage-id:1\ndestination:/q\n%b\n%b\0\n"


@pytest.mark.parametrize(
    ("given", "bodies", "is_said"),
    [
        # As ActiveMQ Classic sends the JMS text "with<NUL>nul".
        (DELIVERY % (b"", b"1") + DELIVERY % (b"", b"with\0nul"), [b"1"], True),
        (DELIVERY % (b"", b"with\0nul"), [], True),
        # Counted, it is whole, whatever comes behind it.
        (DELIVERY % (b"content-length:1\n", b"1") + b"NONSENSE\n\n\0", [b"1"], False),
        # A fault inside the next frame says nothing of this one.
        (DELIVERY % (b"", b"1") + b"RECEIPT\nno colon\n\n\0", [b"1"], False),
    ],
)
def test_violation_when_it_may_be_the_rest_of_a_message_then_that_is_not_delivered(
    given: bytes, bodies: list[bytes], is_said: bool
) -> None:
    protocol = connected()

    *before, last = protocol.receive_data(given)

    assert [frame.body for event in before if isinstance(event, MessagesReceived) for frame in event.frames] == bodies
    assert len(before) == len(bodies)
    assert isinstance(last, Violation)
    assert ("may have cut it short" in str(last.error)) is is_said


def test_violation_when_the_session_is_reopened_then_messages_can_be_settled_and_nothing_is_received() -> None:
    protocol = connected()
    protocol.subscribe("a", "/q", AckMode.CLIENT_INDIVIDUAL)
    message, last = protocol.receive_data(DELIVERY % (b"ack:1\ncontent-length:0\n", b"") + b"NONSENSE\n\n\0")
    assert isinstance(message, MessagesReceived)
    assert isinstance(last, Violation)

    protocol.reopen()

    assert protocol.acknowledge(Command.ACK, message.frames[0].headers, "a") == b"ACK\nid:1\n\n\0"
    assert [type(event) for event in protocol.receive_data(b"RECEIPT\nreceipt-id:1\n\n\0")] == [Violation]


def test_violation_when_frames_came_before_it_then_is_the_last_event() -> None:
    protocol = connected()

    first, last = protocol.receive_data(b"RECEIPT\nreceipt-id:1\n\n\0CONNECTED\nversion:1.2\n\n\0RECEIPT\n\n\0")

    assert isinstance(first, ReceiptsReceived)
    assert isinstance(last, Violation)
    assert protocol.receive_data(b"RECEIPT\nreceipt-id:2\n\n\0") == []


def test_stream_when_it_passes_a_limit_then_is_a_violation() -> None:
    protocol = ClientProtocol(limits=Limits(header_count=1))
    protocol.connect(host="h")

    assert isinstance(violation(protocol, b"CONNECTED\nversion:1.2\na"), LimitExceeded)


def test_mid_frame_when_the_input_ends_inside_a_frame_then_is_true() -> None:
    protocol = connected()
    assert not protocol.mid_frame

    protocol.receive_data(b"\nRECEIPT\n")

    assert protocol.mid_frame


def test_tolerances_when_the_server_header_calls_for_them_then_are_in_force() -> None:
    protocol = connected(tolerances=Tolerances(undefined_escapes=True))

    (event,) = protocol.receive_data(b"RECEIPT\nreceipt-id:a\\t\n\n\0")

    assert event == ReceiptsReceived(["a\\t"])


@pytest.mark.parametrize("version", list(Version))
@pytest.mark.parametrize("body", [b"", b"x", b"\0"])
@pytest.mark.parametrize("content_length", [True, False])
def test_send_plain_when_the_head_is_given_then_makes_the_bytes_of_send(
    version: Version, body: bytes, content_length: bool
) -> None:
    protocol = connected(version)
    head = plain_head("/q", "text/plain", {"a": "1", "b": "č"})
    assert head is not None

    plain = protocol.send_plain(head, body, b"\nreceipt:r-1", content_length=content_length)

    headers = [("content-type", "text/plain"), ("a", "1"), ("b", "č"), ("receipt", "r-1")]
    assert plain == protocol.send("/q", body, headers=headers, content_length=content_length)


def test_send_when_the_headers_hold_a_length_then_it_is_compared_with_each_body() -> None:
    protocol = connected(Version.V1_2)
    protocol.send("/q", b"abc", headers=[("content-length", "3")])

    with pytest.raises(LocalProtocolError, match="content-length"):
        protocol.send("/q", b"abcd", headers=[("content-length", "3")])


def test_send_when_the_body_is_empty_then_its_length_is_there_once() -> None:
    protocol = connected(Version.V1_2)

    assert protocol.send("/q", b"") == b"SEND\ndestination:/q\ncontent-length:0\n\n\0"
    assert protocol.send("/q", b"", headers=[("content-length", "0")]) == protocol.send("/q", b"")


@pytest.mark.parametrize("body", [b"", b"abc"])
def test_send_head_when_its_body_follows_then_makes_the_bytes_of_send(body: bytes) -> None:
    protocol = connected(Version.V1_2)
    headers = [("a", "b:c")]

    head = protocol.send_head("/q", len(body), headers=headers)

    assert head + body + b"\0" == protocol.send("/q", body, headers=headers)


def test_send_head_when_the_headers_hold_a_length_then_refused() -> None:
    protocol = connected(Version.V1_2)

    with pytest.raises(LocalProtocolError, match="'content-length' of SEND is set by the call"):
        protocol.send_head("/q", 3, headers=[("content-length", "3")])


def test_send_plain_when_the_session_has_ended_then_refused() -> None:
    protocol = connected(Version.V1_2)
    protocol.disconnect("r")

    with pytest.raises(LocalProtocolError, match="may not send SEND"):
        protocol.send_plain(b"SEND\ndestination:/q", b"")


@pytest.mark.parametrize(
    ("version", "command"),
    # 1.0 has no NACK.
    [*((version, Command.ACK) for version in Version), (Version.V1_1, Command.NACK), (Version.V1_2, Command.NACK)],
)
def test_acknowledging_when_disconnect_was_sent_then_refused(version: Version, command: Command) -> None:
    protocol = connected(version)
    protocol.subscribe("s", "/q", INDIVIDUAL if version is not Version.V1_0 else CLIENT)
    (event,) = protocol.receive_data(b"MESSAGE\nsubscription:s\nmessage-id:m\nack:a\ndestination:/q\n\n\0")
    assert isinstance(event, MessagesReceived)
    protocol.disconnect("r")

    with pytest.raises(LocalProtocolError, match=f"may not send {command.value}"):
        protocol.acknowledge(command, event.frames[0].headers, "s")
