"""The session without its connection: bytes in, bytes out."""

from collections.abc import Sequence

import pytest

from trio_stomp import Limits
from trio_stomp.protocol import Decoder, Role, encode_frame
from trio_stomp.testing import BrokerOptions
from trio_stomp.testing.broker_state import BrokerState
from trio_stomp.testing.conversation import Conversation, Stage
from trio_stomp.types import Command, Frame, Version

ALL = pytest.mark.parametrize("version", list(Version))
SINCE_1_1 = pytest.mark.parametrize("version", [Version.V1_1, Version.V1_2])


class OpenGate:
    """Lets every receipt through."""

    def __init__(self) -> None:
        self.mute = False

    def answers_connect(self) -> bool:
        return self.mute

    def receipts(self, command: Command, receipt_id: str) -> Sequence[str]:
        return [receipt_id]


class Talk:
    """A conversation, and what it has said."""

    def __init__(self, options: BrokerOptions | None = None, *, state: BrokerState | None = None) -> None:
        options = BrokerOptions(server="test/1") if options is None else options
        self.state = BrokerState(options) if state is None else state
        self.gate = OpenGate()
        self.wakes = 0
        self.conversation = Conversation(session_id="s-1", state=self.state, gate=self.gate, wake=self._woken)
        self._decoder = Decoder(role=Role.CLIENT)

    def _woken(self) -> None:
        self.wakes += 1

    def say(self, data: bytes) -> list[Frame]:
        self.conversation.receive(data)
        return self.answers()

    def answers(self) -> list[Frame]:
        frames = self._decoder.receive_data(self.conversation.take_output())
        assert self._decoder.error is None, self._decoder.error
        return frames

    def connect(self, version: Version = Version.V1_2, /, **headers: str) -> Frame:
        pairs = {"accept-version": version.value, "host": "h"} | headers
        (frame,) = self.say(encode_frame(Command.CONNECT, tuple(pairs.items()), version=version))
        self._decoder.set_version(version)
        return frame

    def error(self, data: bytes) -> Frame:
        (frame,) = self.say(data)
        assert frame.command is Command.ERROR
        return frame


@ALL
@pytest.mark.parametrize("command", ["CONNECT", "STOMP"])
def test_connect_when_versions_meet_then_connected_names_version_session_and_server(
    version: Version, command: str
) -> None:
    """Rows all-CONN-2, 11-CONN-7, 12-CONN-7, 1x-CONN-17, 11-CONN-19, 12-CONN-19, 10-CONN-21, 1x-CONN-20."""
    talk = Talk()

    (frame,) = talk.say(f"{command}\naccept-version:{version}\nhost:h\n\n\0".encode())

    assert frame.command is Command.CONNECTED
    assert frame.headers["version"] == version
    assert frame.headers["session"] == "s-1"
    assert frame.headers["server"] == "test/1"
    assert ("heart-beat" in frame.headers) is (version is not Version.V1_0)
    assert talk.conversation.connected
    assert talk.conversation.version is version


def test_connect_when_no_accept_version_then_1_0() -> None:
    """Rows 1x-NEG-2, 1x-NEG-8."""
    for headers in ("", "Accept-Version:1.2\n"):
        (frame,) = Talk().say(f"CONNECT\n{headers}\n\0".encode())

        assert frame.headers["version"] == "1.0"


@pytest.mark.parametrize("versions", ["1.3", "", "2.0,1.9"])
def test_connect_when_no_version_is_common_then_error_lists_those_there_are(versions: str) -> None:
    """Rows 11-NEG-4, 12-NEG-4, 1x-NEG-5, 1x-NEG-7."""
    talk = Talk(BrokerOptions(versions=[Version.V1_2, Version.V1_1]))

    error = talk.error(f"CONNECT\naccept-version:{versions}\nhost:h\nreceipt:r\n\n\0".encode())

    assert error.headers["version"] == "1.1,1.2"
    assert talk.conversation.stage is Stage.CLOSING


def test_connect_when_versions_are_spaced_then_spaces_do_not_count() -> None:
    """Row 1x-NEG-7."""
    (frame,) = Talk().say(b"CONNECT\naccept-version:1.0, 1.1\nhost:h\n\n\0")

    assert frame.headers["version"] == "1.1"


def test_connect_when_refused_then_error_and_close() -> None:
    """Row 1x-CONN-3."""
    talk = Talk(BrokerOptions(logins={"a": "b"}, errors_leave_open=True))

    error = talk.error(b"CONNECT\naccept-version:1.2\nhost:h\nlogin:a\npasscode:guessed\nreceipt:r\n\n\0")

    assert error.headers["message"] == "access refused"
    assert error.headers["receipt-id"] == "r"
    assert b"guessed" not in talk.conversation.take_output() + error.body
    assert talk.conversation.stage is Stage.CLOSING


@SINCE_1_1
def test_connect_when_host_is_missing_then_taken_unless_required(version: Version) -> None:
    """Row 1x-CONN-16."""
    data = f"CONNECT\naccept-version:{version}\n\n\0".encode()

    assert Talk().say(data)[0].command is Command.CONNECTED
    assert Talk(BrokerOptions(require_host=True)).say(data)[0].command is Command.ERROR


def test_connect_when_draft_then_any_case_and_username_will_do() -> None:
    """Row draft-CONN-15."""
    talk = Talk(BrokerOptions(draft=True, logins={"a": "b"}, versions=[Version.V1_0]))

    (frame,) = talk.say(b"connect  \r\nUsername: a\r\npasscode: b\r\n\r\n\0")

    assert frame.command is Command.CONNECTED


def test_frames_when_draft_then_all_have_a_length_and_no_header_that_the_draft_cannot_carry() -> None:
    """Rows draft-LEN-5, draft-LEN-6, draft-LEN-8."""
    talk = Talk(BrokerOptions(draft=True))
    frames = [talk.connect(Version.V1_0)]

    frames += talk.say(b"subscribe\nid:1\ndestination:/queue/a\n\n\0")
    frames += talk.say(b"send\ndestination:/queue/a\nk:1\nk_2:2\ntab:a\tb\n\n\0")
    frames += talk.say(b"send\ndestination:/queue/a\nreceipt:a\tb\n\n\0")

    connected, message, error = frames
    assert (connected.command, message.command, error.command) == (Command.CONNECTED, Command.MESSAGE, Command.ERROR)
    assert (message.headers["k"], "k_2" in message.headers, "tab" in message.headers) == ("1", False, False)
    assert "receipt-id" not in error.headers
    assert [frame.headers["content-length"] for frame in frames] == [str(len(frame.body)) for frame in frames]


@pytest.mark.parametrize("value", ["1", "1,2,3", "-1,0", "a,b"])
def test_connect_when_heart_beat_is_malformed_then_error(value: str) -> None:
    """Row 1x-HB-15."""
    talk = Talk()

    talk.error(f"CONNECT\naccept-version:1.2\nhost:h\nheart-beat:{value}\n\n\0".encode())

    assert talk.conversation.stage is Stage.CLOSING


def test_connect_when_both_offer_heart_beats_then_terms_are_the_maxima() -> None:
    """Rows 1x-HB-6, 1x-HB-7."""
    talk = Talk(BrokerOptions(heart_beat=(2.0, 0.5)))

    frame = talk.connect(**{"heart-beat": "1000,3000"})

    assert frame.headers["heart-beat"] == "2000,500"
    assert talk.conversation.terms.client_sends_seconds == 1.0
    assert talk.conversation.terms.server_sends_seconds == 3.0


def test_connect_when_1_0_then_no_heart_beats() -> None:
    talk = Talk()

    talk.connect(Version.V1_0, **{"heart-beat": "1000,1000"})

    assert talk.conversation.terms.client_sends_seconds == talk.conversation.terms.server_sends_seconds == 0


def test_connect_when_it_comes_twice_then_error() -> None:
    talk = Talk()
    talk.connect()

    talk.error(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")

    assert talk.conversation.stage is Stage.CLOSING


@pytest.mark.parametrize("data", [b"SEND\ndestination:/queue/a\n\n\0", b"GET / HTTP/1.1\r\n\r\n", b"MESSAGE\n\n\0"])
def test_first_frame_when_not_connect_then_error_and_close(data: bytes) -> None:
    """Rows all-CONN-22, all-FRM-21."""
    talk = Talk()

    talk.error(data)

    assert talk.conversation.stage is Stage.CLOSING


@ALL
@pytest.mark.parametrize("data", [b"SHOUT\n\n\0", b"MESSAGE\ndestination:x\n\n\0", b"CONNECTED\n\n\0"])
def test_frame_when_unknown_or_a_servers_then_error_and_close(version: Version, data: bytes) -> None:
    """Rows all-FRM-21, 11-FRM-18, 12-FRM-18."""
    talk = Talk()
    talk.connect(version)

    talk.error(data)

    assert talk.conversation.stage is Stage.CLOSING


def test_frame_when_grammar_is_broken_then_frames_before_it_count() -> None:
    talk = Talk()
    talk.connect()

    talk.error(b"SEND\ndestination:/queue/a\n\nx\0SEND\ndestination:\\t\n\n\0")

    assert talk.state.namespace().queue("/queue/a").depth == 1


def test_frame_when_a_header_is_missing_then_error_names_it_and_its_receipt() -> None:
    """Rows 1x-ERR-5, 1x-ERR-6, 1x-ERR-7."""
    talk = Talk()
    talk.connect()

    error = talk.error(b"SEND\nreceipt:r-1\n\nx\0")

    assert error.headers["receipt-id"] == "r-1"
    assert b"destination" in error.body
    assert error.headers["content-length"] == str(len(error.body))


@SINCE_1_1
@pytest.mark.parametrize(
    ("limits", "data"),
    [
        (Limits(body_bytes=3), b"SEND\ndestination:/queue/a\ncontent-length:4\n\n"),
        (Limits(body_bytes=3), b"SEND\ndestination:/queue/a\n\nfour"),
        (Limits(header_count=2), b"SEND\ndestination:/queue/a\na:b\nc:d\n"),
        (Limits(header_line_bytes=30), b"SEND\ndestination:/queue/" + b"a" * 31),
    ],
)
def test_frame_when_limit_is_passed_then_error_and_close(version: Version, limits: Limits, data: bytes) -> None:
    """Rows 1x-LIM-1, 1x-LIM-2, 1x-LIM-3, 11-LIM-4, 12-LIM-4."""
    talk = Talk(BrokerOptions(limits=limits, server=None))
    talk.connect(version)

    error = talk.error(data)

    assert error.headers["message"] == "limit exceeded"
    assert talk.conversation.stage is Stage.CLOSING


@ALL
@pytest.mark.parametrize("receipt", ["r", "with space", "a:b"])
def test_receipt_when_asked_for_then_has_the_same_value(version: Version, receipt: str) -> None:
    """Rows all-RCPT-2, 10-RECEIPT-1, 11-RECEIPT-1, 12-RECEIPT-1, 10-BODY-4."""
    talk = Talk()
    talk.connect(version)

    pairs = [("destination", "/queue/a"), ("receipt", receipt)]
    (frame,) = talk.say(encode_frame(Command.SEND, pairs, b"x", version=version))

    assert frame.command is Command.RECEIPT
    assert frame.headers["receipt-id"] == receipt
    assert frame.body == b""


def test_receipt_when_it_comes_then_frame_has_been_processed() -> None:
    """Rows 12-RCPT-3, 12-RECEIPT-2."""
    talk = Talk()
    talk.connect()
    queue = talk.state.namespace().queue("/queue/a")

    talk.conversation.receive(b"SUBSCRIBE\nid:1\ndestination:/queue/a\nreceipt:r\n\n\0")

    assert queue.takers == 1
    assert [frame.command for frame in talk.answers()] == [Command.RECEIPT]


def test_receipt_when_its_value_cannot_be_sent_back_then_error() -> None:
    talk = Talk()
    talk.connect(Version.V1_1)

    error = talk.error(b"SEND\ndestination:/queue/a\nreceipt:r\r\n\nx\0")

    assert error.headers["message"] == "receipt refused"
    assert "receipt-id" not in error.headers


def test_repeated_header_when_the_broker_reads_it_then_first_counts() -> None:
    """Rows 12-REP-1, 10-REP-3."""
    for version in Version:
        talk = Talk()
        talk.connect(version)

        talk.say(b"SEND\ndestination:/queue/first\ndestination:/queue/second\n\nx\0")

        assert talk.state.namespace().queue("/queue/first").depth == 1
        assert talk.state.namespace().queue("/queue/second").depth == 0


@SINCE_1_1
def test_frames_when_all_eleven_commands_then_all_are_taken(version: Version) -> None:
    """Rows 1x-FRM-16, all-TX-1, 1x-UNSUB-1."""
    talk = Talk()
    talk.connect(version)
    talk.say(b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client-individual\n\n\0")
    (first, second) = talk.say(b"SEND\ndestination:/queue/a\n\n1\0SEND\ndestination:/queue/a\n\n2\0")

    def tag(frame: Frame) -> str:
        headers = frame.headers
        if version is Version.V1_2:
            return f"id:{headers['ack']}"
        return f"message-id:{headers['message-id']}\nsubscription:1"

    frames = talk.say(
        f"ACK\n{tag(first)}\n\n\0NACK\n{tag(second)}\n\n\0".encode()
        + b"BEGIN\ntransaction:t\n\n\0COMMIT\ntransaction:t\n\n\0BEGIN\ntransaction:t\n\n\0ABORT\ntransaction:t\n\n\0"
        + b"UNSUBSCRIBE\nid:1\n\n\0DISCONNECT\nreceipt:bye\n\n\0"
    )

    assert [frame.command for frame in frames if frame.command is not Command.MESSAGE] == [Command.RECEIPT]
    assert talk.state.statistics.received[Command.DISCONNECT] == 1
    assert talk.conversation.stage is Stage.CLOSING


def test_error_when_options_leave_it_open_then_session_goes_on() -> None:
    """Row 11-ERR-2."""
    talk = Talk(BrokerOptions(errors_leave_open=True))
    talk.connect()

    talk.error(b"SEND\ndestination:nowhere\n\nx\0")
    (frame,) = talk.say(b"SEND\ndestination:/queue/a\nreceipt:r\n\nx\0")

    assert frame.command is Command.RECEIPT
    assert talk.conversation.stage is Stage.CONNECTED


def test_error_when_session_is_over_then_nothing_more_is_said() -> None:
    """Row 12-ERR-2."""
    talk = Talk()
    talk.connect()

    (error,) = talk.say(b"SEND\ndestination:nowhere\n\nx\0SEND\ndestination:/queue/a\nreceipt:r\n\nx\0")
    talk.conversation.send_error("another")
    talk.conversation.send_receipt("r")

    assert error.command is Command.ERROR
    assert talk.answers() == []
    assert talk.state.namespace().queue("/queue/a").depth == 0


def test_error_when_message_has_line_ends_then_they_become_spaces() -> None:
    talk = Talk()
    talk.connect(Version.V1_0)

    talk.conversation.send_error("two\n lines", "details", close=False)

    (frame,) = talk.answers()
    assert frame.headers["message"] == "two lines"
    assert frame.body == b"details"


def test_frames_when_behind_disconnect_then_ignored() -> None:
    talk = Talk()
    talk.connect()

    frames = talk.say(b"DISCONNECT\nreceipt:r\n\n\0SEND\ndestination:/queue/a\n\nx\0")

    assert [frame.command for frame in frames] == [Command.RECEIPT]
    assert talk.state.namespace().queue("/queue/a").depth == 0


def test_gate_when_it_answers_connect_then_nobody_else_does() -> None:
    talk = Talk()
    talk.gate.mute = True

    assert talk.say(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0SEND\ndestination:/queue/a\n\nx\0") == []
    assert not talk.conversation.connected
    assert talk.say(b"SEND\ndestination:/queue/a\n\nx\0") == []
    assert talk.state.statistics.received == {Command.CONNECT: 1}


def test_output_when_long_then_no_more_messages_are_taken_until_it_is_written() -> None:
    talk = Talk(BrokerOptions(outbox_bytes=1000))
    talk.connect()
    talk.say(b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0")
    queue = talk.state.namespace().queue("/queue/a")

    talk.conversation.receive(b"SEND\ndestination:/queue/a\n\nx\0" * 100)

    assert not talk.conversation.ready
    assert 1000 <= talk.conversation.output_bytes < 1200
    first = len(talk.answers())
    assert first + queue.depth == 100
    talk.conversation.relieved()
    assert len(talk.answers()) == first


def test_output_when_it_begins_then_wakes_the_writer_once() -> None:
    talk = Talk()
    talk.connect()
    before = talk.wakes

    talk.conversation.receive(b"SEND\ndestination:/queue/a\nreceipt:r\n\nx\0" * 10)

    assert talk.wakes == before + 1
    assert len(talk.answers()) == 10


def test_heart_beat_when_output_waits_then_is_not_needed() -> None:
    """Rows 11-HB-10, 12-HB-10, 1x-HB-16."""
    talk = Talk()
    talk.connect()

    talk.conversation.heart_beat()
    assert talk.conversation.take_output() == b"\n"

    talk.conversation.send_receipt("r")
    talk.conversation.heart_beat()
    assert talk.conversation.take_output().endswith(b"\n\n\0\n")


def test_mute_when_link_takes_nothing_then_frames_still_take_effect() -> None:
    """Row 12-RECEIPT-4."""
    talk = Talk()
    talk.connect()
    talk.say(b"SUBSCRIBE\nid:1\ndestination:/queue/b\n\n\0")

    talk.conversation.mute()

    for name in ("a", "b"):
        assert talk.say(f"SEND\ndestination:/queue/{name}\nreceipt:r\n\nx\0".encode()) == []
        assert talk.state.namespace().queue(f"/queue/{name}").depth == 1


def test_end_when_session_holds_messages_then_others_get_them_at_once() -> None:
    state = BrokerState(BrokerOptions())
    first = Talk(state=state)
    second = Talk(state=state)
    for talk in (first, second):
        talk.connect()
        talk.say(b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client\n\n\0")
        if talk is first:
            talk.say(b"SEND\ndestination:/queue/a\n\nx\0")

    first.conversation.end()

    (message,) = second.answers()
    assert message.headers["redelivered"] == "true"
    first.conversation.end()
