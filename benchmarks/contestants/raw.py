"""The floor under every client on trio: a bare loop over the stream that decodes nothing, and one copy of memory."""

from __future__ import annotations

from typing import Final, NoReturn

import trio

from benchmarks.contestants.codec_cases import Outgoing, decode_rates, encode_rates
from benchmarks.order import Meter, Order, allow_files, answer
from benchmarks.payload import BODY, prefetch_headers

__all__ = ["connected", "main", "send_bytes"]

_CHUNK_BYTES: Final = 64 * 1024
_BATCH: Final = 100
# Brokers deliver what is there within milliseconds, and sometimes pause to write to a disk.
_NOTHING_MORE: Final = 0.7
_ACK: Final = b"ACK\nid:T_s-1@@session-qYn7@@0000000000\n\n\0"


def send_bytes(destination: str, more: bytes = b"") -> bytes:
    """A SEND, with more lines of its head."""
    return (
        b"SEND\ndestination:%b\ncontent-type:application/json\nsource:benchmark\nkind:tick\nunit:mm\nnumber:000000\n"
        b"%bcontent-length:%d\n\n%b\0" % (destination.encode(), more, len(BODY), BODY)
    )


async def connected(order: Order, ack: str = "") -> trio.SocketStream:
    """A connection after its handshake, and a subscription if there is an ack mode."""
    stream = await trio.open_tcp_stream(order.host, order.port)
    await stream.send_all(
        f"CONNECT\naccept-version:1.2\nhost:{order.vhost}\nlogin:{order.login}\npasscode:{order.passcode}\n\n\0".encode()
    )
    text = b""
    while b"\0" not in text:
        text += await stream.receive_some()
    if ack:
        more = "".join(f"{name}:{value}\n" for name, value in prefetch_headers(order.window, ack).items())
        head = f"SUBSCRIBE\nid:s-1\ndestination:{order.destination}\nack:{ack}\n{more}"
        await stream.send_all(head.encode() + b"\n\0")
    return stream


async def receive(order: Order) -> NoReturn:
    """Count NULs."""
    meter, stream = Meter(order), await connected(order, "auto")
    while True:
        meter.count += (await stream.receive_some(_CHUNK_BYTES)).count(b"\0")
        if meter.count >= meter.goal and meter.lap():
            answer(meter.result)


async def crowd(order: Order) -> NoReturn:
    """Count NULs on many connections at once, a task for each."""
    meter = Meter(order)

    async def consume(stream: trio.SocketStream) -> None:
        while True:
            data = await stream.receive_some(_CHUNK_BYTES)
            # Not before the await: the other tasks count meanwhile.
            meter.count += data.count(b"\0")
            if meter.count >= meter.goal and meter.lap():
                answer(meter.result)

    allow_files()
    streams = [await connected(order, "auto") for _ in range(order.count)]
    async with trio.open_nursery() as nursery:
        for stream in streams:
            nursery.start_soon(consume, stream)
    raise AssertionError


async def acknowledge(order: Order) -> NoReturn:
    """Count NULs, and send as many ACKs, always the same."""
    meter, stream = Meter(order), await connected(order, "client-individual")
    while True:
        count = (await stream.receive_some(_CHUNK_BYTES)).count(b"\0")
        await stream.send_all(_ACK * count)
        meter.count += count
        if meter.count >= meter.goal and meter.lap():
            answer(meter.result)


async def send(order: Order) -> NoReturn:
    """Send the same frames again and again, as many at a time as fill a chunk."""
    meter, stream = Meter(order), await connected(order)
    frame = send_bytes(order.destination)
    count = _CHUNK_BYTES // len(frame)
    while True:
        await stream.send_all(frame * count)
        meter.count += count
        if meter.count >= meter.goal and meter.lap():
            answer(meter.result)


async def receipts(order: Order) -> NoReturn:
    """Send a frame, and wait for a NUL."""
    meter, stream = Meter(order, step=8), await connected(order)
    frame = send_bytes(order.destination, b"receipt:r-00000000\n")
    while True:
        await stream.send_all(frame)
        while b"\0" not in await stream.receive_some(_CHUNK_BYTES):
            pass
        meter.count += 1
        if meter.count >= meter.goal and meter.lap():
            answer(meter.result)


async def publisher(order: Order) -> NoReturn:
    """Send as many frames as the window has room for, and count NULs."""
    meter, stream = Meter(order), await connected(order)
    frame = send_bytes(order.destination, b"receipt:r-00000000\n")
    free = order.window
    while True:
        await stream.send_all(frame * free)
        meter.count += free
        free = (await stream.receive_some(_CHUNK_BYTES)).count(b"\0")
        if meter.count >= meter.goal and meter.lap():
            answer(meter.result)


async def echo(order: Order) -> NoReturn:
    """Send back the last bytes of what comes, after a head that is always the same."""
    stream = await connected(order, "auto")
    head = send_bytes(order.destination)[: -len(BODY) - 1]
    while True:
        data = await stream.receive_some(_CHUNK_BYTES)
        if data.endswith(b"\n\nend\0"):
            answer({})
        for frame in data.split(b"\0")[:-1]:
            await stream.send_all(head + frame[-len(BODY) :] + b"\0")


async def fill(order: Order) -> NoReturn:
    """Put so many messages into a queue, and wait until the broker has the last."""
    stream = await connected(order)
    frame = send_bytes(order.destination)
    for begin in range(0, order.limit - 1, _BATCH):
        await stream.send_all(frame * min(_BATCH, order.limit - 1 - begin))
    await stream.send_all(send_bytes(order.destination, b"receipt:last\n"))
    text = b""
    while b"receipt-id:last\n" not in text:
        text += await stream.receive_some(_CHUNK_BYTES)
    answer({})


async def drain(order: Order) -> NoReturn:
    """Take so many messages out of a queue; what has not come after a moment is not there."""
    count, stream = 0, await connected(order, "auto")
    while not order.limit or count < order.limit:
        data = b""
        with trio.move_on_after(_NOTHING_MORE):
            data = await stream.receive_some(_CHUNK_BYTES)
        if not data:
            break
        count += data.count(b"\0")
    await stream.send_all(b"DISCONNECT\n\n\0")
    answer({"total": float(count)})


def codec(order: Order) -> NoReturn:
    """Copy each frame once."""

    def copy(chunks: list[bytes]) -> int:
        for chunk in chunks:
            bytes(memoryview(chunk))
        return len(chunks)

    def join(messages: list[Outgoing]) -> list[bytes]:
        return [b"".join((body, b"\0")) for _headers, body in messages]

    copied = decode_rates(order.seconds, copy, whole_frames=True)
    answer({**copied, **encode_rates(order.seconds, join, checked=False)})


SCENARIOS = {
    each.__name__: each for each in (receive, crowd, acknowledge, send, receipts, publisher, echo, fill, drain)
}


def main() -> NoReturn:
    """Do what the order says."""
    order = Order.from_argument()
    if order.scenario == "codec":
        codec(order)
    trio.run(SCENARIOS[order.scenario], order)
    raise AssertionError


if __name__ == "__main__":
    main()
