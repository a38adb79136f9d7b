"""CONNECT, RECEIPT and ERROR at the embedded broker, and frames that are none."""

import anyio
import pytest

from tests.kit.loops import wait_all_tasks_blocked
from tests.testing.raw_client import ALL, CONNECT, SINCE_1_1, RawClient, connected, with_options
from trio_stomp import Limits
from trio_stomp.testing import Broker, BrokerOptions, DelayReceipts
from trio_stomp.types import Command, Version

pytestmark = pytest.mark.anyio


# --- CONNECT ----------------------------------------------------------------------------------------------------------


@ALL
@pytest.mark.parametrize("command", ["CONNECT", "STOMP"])
@with_options(BrokerOptions(server="test/1"))
async def test_connect_when_versions_meet_then_connected_names_version_session_and_server(
    broker: Broker, stranger: RawClient, version: Version, command: str
) -> None:
    """Rows all-CONN-2, 11-CONN-7, 12-CONN-7, 1x-CONN-17, 11-CONN-19, 12-CONN-19, 10-CONN-21, 1x-CONN-20, 1x-FRM-16."""
    await stranger.stream.send_all(f"{command}\naccept-version:{version}\nhost:h\n\n\0".encode())

    frame = await stranger.expect(Command.CONNECTED, version=version.value, server="test/1")
    (session,) = broker.sessions
    assert frame.headers["session"] == session.session_id
    assert ("heart-beat" in frame.headers) is (version is not Version.V1_0)
    assert (session.connected, session.version) == (True, version)


@pytest.mark.parametrize(
    ("header", "chosen"), [("", "1.0"), ("Accept-Version:1.2\n", "1.0"), ("accept-version:1.0, 1.1\n", "1.1")]
)
async def test_connect_when_versions_are_left_out_or_spaced_then_the_highest_common_one(
    stranger: RawClient, header: str, chosen: str
) -> None:
    """Rows 1x-NEG-2, 1x-NEG-7, 1x-NEG-8."""
    await stranger.stream.send_all(f"CONNECT\n{header}host:h\n\n\0".encode())

    await stranger.expect(Command.CONNECTED, version=chosen)


@pytest.mark.parametrize("versions", ["1.0", "1.3", "", "2.0,1.9"])
@with_options(BrokerOptions(versions=[Version.V1_2, Version.V1_1]))
async def test_connect_when_no_version_is_common_then_error_lists_those_there_are(
    stranger: RawClient, versions: str
) -> None:
    """Rows 11-NEG-4, 12-NEG-4, 1x-NEG-5, 1x-NEG-7."""
    await stranger.write(Command.CONNECT, accept_version=versions, host="h", receipt="r")

    assert (await stranger.refused("protocol error")).headers["version"] == "1.1,1.2"


@with_options(BrokerOptions(logins={"alice": "s3cret"}, errors_leave_open=True))
@pytest.mark.parametrize("passcode", [{}, {"passcode": "S3cret"}])
@pytest.mark.parametrize("login", [{}, {"login": "alice"}, {"login": "bob"}])
async def test_connect_when_the_login_is_wrong_then_refused_without_a_passcode(
    broker: Broker, stranger: RawClient, login: dict[str, str], passcode: dict[str, str]
) -> None:
    """Row 1x-CONN-3."""
    await stranger.write(Command.CONNECT, accept_version="1.2", host="h", receipt="r", **login, **passcode)

    error = await stranger.refused("access refused")
    assert error.headers["receipt-id"] == "r"
    assert b"3cret" not in stranger.data
    await connected(broker, login="alice", passcode="s3cret")


@SINCE_1_1
@pytest.mark.parametrize(
    ("options", "answer"),
    [(BrokerOptions(), Command.CONNECTED), (BrokerOptions(require_host=True), Command.ERROR)],
    ids=["tolerant", "strict"],
)
async def test_connect_when_host_is_missing_then_taken_unless_required(
    stranger: RawClient, version: Version, answer: Command
) -> None:
    """Row 1x-CONN-16."""
    await stranger.write(Command.CONNECT, accept_version=version.value)

    await stranger.expect(answer)


async def test_connect_when_the_client_id_is_in_use_then_refused_until_its_session_ends(broker: Broker) -> None:
    first = await connected(broker, client_id="me")
    second = RawClient(broker.connect_stream())
    await second.write(Command.CONNECT, accept_version="1.2", host="h", client_id="me")
    await second.refused("client-id in use")

    await first.confirmed(Command.DISCONNECT)

    await connected(broker, client_id="me")


@with_options(BrokerOptions(draft=True, logins={"a": "b"}, versions=[Version.V1_0]))
async def test_connect_when_draft_then_any_case_and_username_will_do(stranger: RawClient) -> None:
    """Row draft-CONN-15."""
    await stranger.stream.send_all(b"connect  \r\nUsername: a\r\npasscode: b\r\n\r\n\0")

    await stranger.expect(Command.CONNECTED)


@pytest.mark.parametrize("version", [Version.V1_0])
@with_options(BrokerOptions(draft=True))
async def test_frames_when_draft_then_all_have_a_length_and_no_header_that_the_draft_cannot_carry(
    stranger: RawClient,
) -> None:
    """Rows draft-LEN-5, draft-LEN-6, draft-LEN-8."""
    connected_frame = await stranger.connect()
    await stranger.stream.send_all(b"subscribe\nid:1\ndestination:/queue/a\n\n\0")
    await stranger.stream.send_all(b"send\ndestination:/queue/a\nk:1\nk_2:2\ntab:a\tb\n\n\0")
    message = await stranger.message(k="1")
    await stranger.stream.send_all(b"send\ndestination:/queue/a\nreceipt:a\tb\n\n\0")
    error = await stranger.expect(Command.ERROR)

    assert not {"k_2", "tab"} & set(message.headers)
    assert "receipt-id" not in error.headers
    for frame in (connected_frame, message, error):
        assert frame.headers["content-length"] == str(len(frame.body))


@pytest.mark.parametrize("version", [Version.V1_0])
@with_options(BrokerOptions(draft=True))
async def test_message_when_draft_and_large_then_it_has_one_length(broker: Broker, stranger: RawClient) -> None:
    await stranger.connect()
    await stranger.subscribe("/queue/a")

    broker.publish("/queue/a", bytes(100_000))

    message = await stranger.message()
    assert message.headers.get_all("content-length") == ("100000",)
    assert message.body == bytes(100_000)


@pytest.mark.parametrize("value", ["1", "1,2,3", "-1,0", "a,b"])
async def test_connect_when_heart_beat_is_malformed_then_error(stranger: RawClient, value: str) -> None:
    """Row 1x-HB-15."""
    await stranger.write(Command.CONNECT, accept_version="1.2", host="h", heart_beat=value)

    await stranger.refused("protocol error")


@with_options(BrokerOptions(heart_beat=(2.0, 0.5)))
@pytest.mark.parametrize(
    ("version", "answer", "terms"), [(Version.V1_2, "2000,500", (1.0, 3.0)), (Version.V1_0, None, (0, 0))]
)
async def test_connect_when_both_offer_heart_beats_then_terms_are_the_maxima_but_1_0_has_none(
    broker: Broker, stranger: RawClient, answer: str | None, terms: tuple[float, float]
) -> None:
    """Rows 1x-HB-6, 1x-HB-7."""
    frame = await stranger.connect(heart_beat="1000,3000")

    agreed = broker.sessions[0].heart_beat
    assert frame.headers.get("heart-beat") == answer
    assert (agreed.client_sends_seconds, agreed.server_sends_seconds) == terms


@pytest.mark.parametrize("data", [b"SEND\ndestination:/queue/a\n\n\0", b"GET / HTTP/1.1\r\n\r\n", b"MESSAGE\n\n\0"])
async def test_first_frame_when_not_connect_then_error_and_close(stranger: RawClient, data: bytes) -> None:
    """Rows all-CONN-22, all-FRM-21."""
    await stranger.stream.send_all(data)

    await stranger.refused("protocol error")


# --- later frames -----------------------------------------------------------------------------------------------------


@ALL
@pytest.mark.parametrize(
    "data",
    [
        b"SHOUT\n\n\0",
        b"MESSAGE\ndestination:x\n\n\0",
        b"CONNECTED\n\n\0",
        CONNECT,
    ],
)
async def test_frame_when_unknown_or_a_servers_or_connect_again_then_error_and_close(
    client: RawClient, data: bytes
) -> None:
    """Rows all-FRM-21, 11-FRM-18, 12-FRM-18."""
    await client.stream.send_all(data)

    await client.refused("protocol error")


async def test_frame_when_grammar_is_broken_then_frames_before_it_count(broker: Broker, client: RawClient) -> None:
    await client.stream.send_all(b"SEND\ndestination:/queue/a\n\nx\0SEND\ndestination:\\t\n\n\0")

    await client.refused("protocol error")
    assert broker.depth("/queue/a") == 1


async def test_frame_when_a_header_is_missing_then_error_names_it_and_its_receipt(client: RawClient) -> None:
    """Rows 1x-ERR-5, 1x-ERR-6, 1x-ERR-7."""
    await client.stream.send_all(b"SEND\nreceipt:r-1\n\nx\0")

    error = await client.refused("protocol error")
    assert error.headers["receipt-id"] == "r-1"
    assert error.headers["content-length"] == str(len(error.body))
    assert b"destination" in error.body


@SINCE_1_1
@pytest.mark.parametrize(
    ("options", "data"),
    [
        (
            BrokerOptions(limits=Limits(body_bytes=3), server=None),
            b"SEND\ndestination:/queue/a\ncontent-length:4\n\n",
        ),
        (BrokerOptions(limits=Limits(body_bytes=3), server=None), b"SEND\ndestination:/queue/a\n\nfour"),
        (BrokerOptions(limits=Limits(header_count=2), server=None), b"SEND\ndestination:/queue/a\na:b\nc:d\n"),
        (BrokerOptions(limits=Limits(header_line_bytes=30), server=None), b"SEND\ndestination:/queue/" + b"a" * 31),
    ],
    ids=["length", "body", "headers", "line"],
)
async def test_frame_when_limit_is_passed_then_error_and_close(client: RawClient, data: bytes) -> None:
    """Rows 1x-LIM-1, 1x-LIM-2, 1x-LIM-3, 11-LIM-4, 12-LIM-4."""
    await client.stream.send_all(data)

    await client.refused("limit exceeded")


@ALL
async def test_repeated_header_when_the_broker_reads_it_then_first_counts(broker: Broker, client: RawClient) -> None:
    """Rows 12-REP-1, 10-REP-3."""
    await client.write(Command.SEND, [("destination", "/queue/second")], destination="/queue/first", receipt="r")
    await client.expect(Command.RECEIPT)

    assert (broker.depth("/queue/first"), broker.depth("/queue/second")) == (1, 0)


# --- RECEIPT ----------------------------------------------------------------------------------------------------------


@ALL
@pytest.mark.parametrize("receipt", ["r", "with space", "a:b"])
async def test_receipt_when_asked_for_then_has_the_same_value(client: RawClient, receipt: str) -> None:
    """Rows all-RCPT-2, 10-RECEIPT-1, 11-RECEIPT-1, 12-RECEIPT-1, 10-BODY-4."""
    await client.send("/queue/a", "x", receipt=receipt)

    assert (await client.expect(Command.RECEIPT, receipt_id=receipt)).body == b""


@pytest.mark.parametrize("version", [Version.V1_1])
async def test_receipt_when_its_value_cannot_be_sent_back_then_error(client: RawClient) -> None:
    await client.stream.send_all(b"SEND\ndestination:/queue/a\nreceipt:r\r\n\nx\0")

    assert "receipt-id" not in (await client.refused("receipt refused")).headers


# --- ERROR ------------------------------------------------------------------------------------------------------------


async def test_error_when_it_ends_the_session_then_nothing_more_is_executed_or_said(
    broker: Broker, client: RawClient
) -> None:
    """Row 12-ERR-2."""
    broker.faults.now(DelayReceipts(seconds=5))
    await client.send("/queue/a", receipt="late")
    await client.stream.send_all(b"SEND\ndestination:nowhere\n\nx\0SEND\ndestination:/queue/b\nreceipt:r\n\nx\0")
    await wait_all_tasks_blocked()
    broker.faults.send_error("another")
    await anyio.sleep(10)

    await client.refused("no such destination")
    assert (broker.depth("/queue/a"), broker.depth("/queue/b")) == (1, 0)
