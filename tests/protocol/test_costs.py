"""What a frame costs the codec, in counts: a guard against becoming slow little by little.

A bound that is passed is no bug. It says that each frame of each user has become dearer, and asks whether that was
meant; then the bound is set anew.
"""

from __future__ import annotations

from tests.kit.costs import blocks_kept, count_calls, expect_below, measures_memory, peak_bytes
from trio_stomp import AckMode
from trio_stomp.protocol import ClientProtocol, Decoder, MessagesReceived, Role, encode_frame, plain_head
from trio_stomp.types import Command, Version

FRAMES = 500
BODY = b"x" * 200
MIB = 1024 * 1024
HEADERS = [("destination", "/queue/a"), ("content-type", "text/plain"), ("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]
ESCAPED = [("destination", "/queue/a"), *((name, "12:30\n") for name in "abcde")]
ENCODED = {
    "encode": (HEADERS, Version.V1_2),
    "encode, escapes": (ESCAPED, Version.V1_2),
    "encode, escapes of 1.1": (ESCAPED, Version.V1_1),
    "encode, escapes in 1.0": (ESCAPED, Version.V1_0),
}
# These counts are exact on one version of Python, and differ a little between versions.
SLACK = 1.15
BOUNDS = {
    "decode": 16,
    "decode after a length of four digits": 17,
    "decode after a line with CR LF": 17,
    "decode other heads": 29,
    "decode other heads, escapes": 45,
    "decode receipts": 10,
    "receive": 21,
    "receive receipts": 1,
    "encode": 10,
    "encode, escapes": 17,
    "encode, escapes of 1.1": 17,
    "encode, escapes in 1.0": 17,
    "send": 16,
    "send plain": 15,
    "acknowledge": 11,
}


def message(number: int, body: bytes = BODY) -> bytes:
    return (
        b"MESSAGE\nsubscription:s-1\nmessage-id:m-%d\ndestination:/queue/a\nack:a-%d\ncontent-type:text/plain\n"
        b"priority:4\ncontent-length:%d\n\n%b\0" % (number, number, len(body), body)
    )


STREAM = b"".join(message(number) for number in range(FRAMES))
STREAMS = {
    "decode": STREAM,
    # No shortcut reads the first frame of the next two; those behind it are read by one again.
    "decode after a length of four digits": STREAM.replace(b"content-length:200", b"content-length:0200", 1),
    "decode after a line with CR LF": STREAM.replace(b"priority:4\n", b"priority:4\r\n", 1),
    # No frame has the header names of an earlier one.
    "decode other heads": b"".join(
        message(number).replace(b"priority", b"priority-%d" % number) for number in range(FRAMES)
    ),
    "decode other heads, escapes": b"".join(
        message(number).replace(b"priority:", b"priority-%d:\\c:" % number) for number in range(FRAMES)
    ),
    "decode receipts": b"".join(b"RECEIPT\nreceipt-id:r-%d\n\n\0" % number for number in range(FRAMES)),
}
RECEIVED = {"receive": STREAM, "receive receipts": STREAMS["decode receipts"]}


def decoder() -> Decoder:
    return Decoder(role=Role.CLIENT, version=Version.V1_2)


def connected() -> ClientProtocol:
    protocol = ClientProtocol()
    protocol.connect(host="h")
    protocol.receive_data(b"CONNECTED\nversion:1.2\n\n\0")
    protocol.subscribe("s-1", "/queue/a", AckMode.CLIENT_INDIVIDUAL)
    return protocol


def send_plain(protocol: ClientProtocol, body: bytes) -> None:
    head = plain_head("/queue/a", "text/plain", dict(HEADERS[2:]))
    assert head is not None
    protocol.send_plain(head, body)


def calls_of(name: str) -> float:
    protocol, reader = connected(), decoder()
    first = next(event for event in protocol.receive_data(message(0)) if isinstance(event, MessagesReceived))
    with count_calls() as calls:
        if name in STREAMS:
            reader.receive_data(STREAMS[name])
        elif name in RECEIVED:
            protocol.receive_data(RECEIVED[name])
        else:
            for _ in range(FRAMES):
                if name in ENCODED:
                    headers, version = ENCODED[name]
                    encode_frame(Command.SEND, headers, BODY, version=version, escape_in_1_0=True)
                elif name == "send":
                    protocol.send("/queue/a", BODY, headers=HEADERS[1:])
                elif name == "send plain":
                    send_plain(protocol, BODY)
                else:
                    protocol.acknowledge(Command.ACK, first.frames[0].headers, "s-1")
    return calls.count / FRAMES


def test_calls_when_a_frame_is_coded_then_are_no_more_than_they_were() -> None:
    calls = {name: calls_of(name) for name in BOUNDS}

    assert {name: count for name, count in calls.items() if count > BOUNDS[name] * SLACK} == {}


def test_calls_when_a_frame_comes_byte_by_byte_then_are_few_for_each_byte() -> None:
    reader = decoder()

    with count_calls() as calls:
        for byte in message(0):
            reader.receive_data(b"%c" % byte)

    assert calls.count / len(message(0)) < 3.1 * SLACK


@measures_memory
def test_memory_when_frames_are_decoded_then_each_keeps_no_more_blocks_than_it_did() -> None:
    reader = decoder()

    expect_below(blocks_kept(lambda: reader.receive_data(STREAM)) / FRAMES, 20)


@measures_memory
def test_body_when_it_lies_in_one_chunk_then_is_copied_once() -> None:
    data, reader = message(1, b"x" * MIB), decoder()

    expect_below(peak_bytes(lambda: reader.receive_data(data)), 1.1 * MIB)


@measures_memory
def test_body_when_it_comes_in_chunks_then_is_copied_once_more_than_they_hold() -> None:
    data, reader = message(1, b"x" * MIB), decoder()
    # Cut beforehand: what is measured is the decoder's own.
    chunks = [data[at : at + 65_536] for at in range(0, len(data), 65_536)]

    def read() -> None:
        for chunk in chunks:
            reader.receive_data(chunk)

    expect_below(peak_bytes(read), 1.1 * MIB)


@measures_memory
def test_body_when_it_is_sent_then_is_copied_once() -> None:
    body, protocol = b"x" * MIB, connected()

    expect_below(peak_bytes(lambda: send_plain(protocol, body)), 1.1 * MIB)
    expect_below(peak_bytes(lambda: protocol.send("/queue/a", body, headers=HEADERS[1:])), 1.1 * MIB)
    expect_below(peak_bytes(lambda: encode_frame(Command.SEND, HEADERS, body, version=Version.V1_2)), 1.1 * MIB)
