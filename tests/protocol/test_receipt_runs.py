"""RECEIPTs in a row as one: only such as the exact way would have taken, and with the same ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_stomp.errors import RemoteProtocolError
from trio_stomp.protocol.client_protocol import ClientProtocol
from trio_stomp.protocol.decoder import Decoder
from trio_stomp.protocol.events import ClientEvent, ReceiptsReceived
from trio_stomp.protocol.frames import Command, Frame, Role
from trio_stomp.protocol.headers import Headers
from trio_stomp.protocol.limits import Limits
from trio_stomp.protocol.receipt_runs import ReceiptRun, fits, receipt_ids_of, receipt_run
from trio_stomp.protocol.versions import Version


def receipt(receipt_id: str) -> bytes:
    return f"RECEIPT\nreceipt-id:{receipt_id}\n\n\0".encode()


def test_run_when_receipts_follow_each_other_then_is_all_of_them() -> None:
    data = b"before" + receipt("r-1") + b"\n" + receipt("r-2") + receipt("ab$!~") + b"\n\nMESSAGE"

    found = receipt_run(data, len(b"before"))

    assert found is not None
    run, end, ends = found
    assert run.receipt_ids == ["r-1", "r-2", "ab$!~"]
    assert (run.command, dict(run.headers), run.body) == (Command.RECEIPT, {"receipt-id": "r-1"}, b"")
    assert data[end:] == b"MESSAGE"
    assert ends == 3


@pytest.mark.parametrize(
    "second",
    [
        receipt(""),
        receipt("a:b"),
        receipt("a\\c"),
        receipt("a b"),
        receipt("a\r"),
        receipt("ä"),
        receipt("x" * 201),
        receipt("1")[:-1],
        receipt("1")[:-1] + b"body\0",
        b"RECEIPT\nreceipt-id:1\nx:y\n\n\0",
        b"RECEIPT\n\n\0",
        b"ERROR\n\n\0",
        b"",
    ],
)
def test_run_when_a_frame_is_not_plain_then_ends_before_it(second: bytes) -> None:
    assert receipt_run(second, 0) is None

    found = receipt_run(receipt("1") + second, 0)

    assert found is not None
    assert found[0].receipt_ids == ["1"]
    assert found[1] == len(receipt("1"))


def test_ids_when_a_receipt_has_none_then_refused() -> None:
    assert receipt_ids_of(Frame(Command.RECEIPT, Headers({"receipt-id": "1"})), Version.V1_2) == ["1"]
    assert receipt_ids_of(ReceiptRun(["1", "2"]), Version.V1_2) == ["1", "2"]
    with pytest.raises(RemoteProtocolError, match="receipt-id"):
        receipt_ids_of(Frame(Command.RECEIPT), Version.V1_2)


@pytest.mark.parametrize(
    ("limits", "fitting"),
    [
        (Limits(), True),
        (Limits(header_line_octets=210), False),
        (Limits(header_line_octets=211), True),
        (Limits(header_count=0), False),
        (Limits(command_octets=6), False),
    ],
)
def test_limits_when_a_run_could_pass_them_then_none_is_read(limits: Limits, fitting: bool) -> None:
    assert fits(limits) is fitting
    frames = Decoder(role=Role.CLIENT, version=Version.V1_2, limits=limits, receipt_runs=True).receive_data(
        receipt("1") + receipt("2")
    )
    assert any(isinstance(frame, ReceiptRun) for frame in frames) is fitting


def test_decoder_when_not_told_otherwise_then_gives_each_receipt_as_a_frame() -> None:
    frames = Decoder(role=Role.CLIENT, version=Version.V1_2).receive_data(receipt("1") + receipt("2"))

    assert [frame.headers["receipt-id"] for frame in frames] == ["1", "2"]


def test_ends_of_line_when_runs_and_other_frames_take_turns_then_each_is_counted_once() -> None:
    message = b"MESSAGE\nsubscription:s\nmessage-id:1\ndestination:/q\n\n\0"
    data = b"\n".join([receipt("1"), receipt("2"), message, message, receipt("3"), message, b""])
    at_once = Decoder(role=Role.CLIENT, version=Version.V1_2, receipt_runs=True)
    one_by_one = Decoder(role=Role.CLIENT, version=Version.V1_2, receipt_runs=True)

    at_once.receive_data(data)
    for octet in data:
        one_by_one.receive_data(bytes([octet]))

    assert at_once.heartbeats == one_by_one.heartbeats == 6


PIECES = st.sampled_from(
    [
        *(receipt(receipt_id) for receipt_id in ("r-1", "r-22", "", "a:b", "\\c", "\\x", "ä", " ", "x" * 300)),
        b"\n",
        b"RECEIPT\nreceipt-id:1\nreceipt-id:2\n\n\0",
        b"RECEIPT\r\nreceipt-id:1\r\n\r\n\0",
        b"RECEIPT\n\n\0",
        b"RECEIPT\nreceipt-id:1\n\nbody\0",
        b"MESSAGE\nsubscription:s\nmessage-id:1\ndestination:/q\n\nbody\0",
        b"ERROR\nmessage:no\n\n\0",
    ]
)


def ids(events: list[ClientEvent]) -> list[str]:
    """All receipts that were told of, and the other events by their types."""
    shown: list[str] = []
    for event in events:
        shown += event.receipt_ids if isinstance(event, ReceiptsReceived) else [type(event).__name__]
    return shown


@given(pieces=st.lists(PIECES, max_size=8), version=st.sampled_from(["1.0", "1.1", "1.2"]))
def test_stream_when_it_holds_runs_then_tells_what_octet_by_octet_tells(pieces: list[bytes], version: str) -> None:
    whole, cut = ClientProtocol(), ClientProtocol()
    for protocol in (whole, cut):
        protocol.connect(host="h")
        protocol.receive_data(f"CONNECTED\nversion:{version}\n\n\0".encode())
    stream = b"".join(pieces)

    at_once = ids(whole.receive_data(stream))
    one_by_one = [told for octet in stream for told in ids(cut.receive_data(bytes([octet])))]

    # Messages in a row are one event.
    assert [told for told in at_once if told != "MessagesReceived"] == [
        told for told in one_by_one if told != "MessagesReceived"
    ]
