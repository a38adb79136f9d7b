"""How the cost of a frame of trio_stomp grows with its size, its headers, and the chunks in which it comes.

Each series doubles something several times. What is answered is the exponent of the growth over the upper half of the
series, where the constant part of the cost no longer hides it: 1 is linear, 2 is quadratic, 0 is none.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

from benchmarks.order import Order, answer
from benchmarks.payload import BODY, message
from trio_stomp import Limits
from trio_stomp.protocol import Decoder, Role, encode_frame
from trio_stomp.types import Command, Version

__all__ = ["SERIES", "exponent", "main"]

_KIB: Final = 1024
_NAME: Final = b"s-1"
_DESTINATION: Final = b"/queue/benchmark"
_FRAME_BYTES: Final = 64 * _KIB
_LIMITS: Final = Limits(header_count=4096, header_line_bytes=1024 * _KIB)


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """The slope of the upper half of the points, both axes logarithmic."""
    upper = points[len(points) // 2 :]
    return statistics.linear_regression(
        [math.log(size) for size, _ in upper], [math.log(cost) for _, cost in upper]
    ).slope


def _decode(chunks: Sequence[bytes], frames: int) -> None:
    decoder = Decoder(role=Role.CLIENT, version=Version.V1_2, limits=_LIMITS)
    found = 0
    for chunk in chunks:
        found += len(decoder.receive_data(chunk))
    if found != frames:
        raise AssertionError(decoder.error)


def _pieces(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def _doubled(first: int, times: int) -> list[int]:
    return [first << shift for shift in range(times)]


def _frame(size: int) -> bytes:
    return message(0, _NAME, _DESTINATION, bytes(size))


def _many_headers(count: int) -> list[tuple[str, str]]:
    return [(f"user-{index:04}", f"value {index}") for index in range(count)]


def _headers_frame(count: int) -> bytes:
    more = "".join(f"{name}:{value}\n" for name, value in _many_headers(count)).encode()
    return message(0, _NAME, _DESTINATION, BODY, more)


def _work(series: str, size: int) -> Callable[[], object]:
    """What is timed for one point."""
    match series:
        case "decode: bytes of the body":
            chunks, frames = _pieces(_frame(size), _FRAME_BYTES), 1
        case "decode: bytes of the body, byte by byte":
            chunks, frames = _pieces(_frame(size), 1), 1
        case "decode: number of headers":
            chunks, frames = [_headers_frame(size)], 1
        case "decode: number of headers, byte by byte":
            chunks, frames = _pieces(_headers_frame(size), 1), 1
        case "decode: bytes of one header":
            chunks, frames = [message(0, _NAME, _DESTINATION, BODY, b"long:" + b"x" * size + b"\n")], 1
        case "decode: pieces that a frame comes in":
            chunks, frames = _pieces(_frame(_FRAME_BYTES), _FRAME_BYTES // size), 1
        case "decode: frames in one chunk":
            chunks, frames = [message(0, _NAME, _DESTINATION) * size], size
        case "encode: bytes of the body":
            body = bytes(size)
            return lambda: encode_frame(Command.SEND, [("destination", "/queue/a")], body, version=Version.V1_2)
        case _:
            headers = [("destination", "/queue/a"), *_many_headers(size)]
            return lambda: encode_frame(Command.SEND, headers, BODY, version=Version.V1_2)
    return lambda: _decode(chunks, frames)


SERIES: Final = {
    "decode: bytes of the body": _doubled(128 * _KIB, 8),
    "decode: bytes of the body, byte by byte": _doubled(2 * _KIB, 7),
    "decode: number of headers": _doubled(8, 7),
    "decode: number of headers, byte by byte": _doubled(8, 6),
    "decode: bytes of one header": _doubled(4 * _KIB, 8),
    "decode: pieces that a frame comes in": _doubled(64, 10),
    "decode: frames in one chunk": _doubled(64, 7),
    "encode: bytes of the body": _doubled(128 * _KIB, 8),
    "encode: number of headers": _doubled(8, 7),
}


def _cost(work: Callable[[], object], seconds: float, repeats: int) -> float:
    """Seconds of the processor for one call: the best of some measurements, each of as many calls as fit."""
    work()
    best = math.inf
    for _ in range(repeats):
        calls, begun = 0, time.process_time()
        while (took := time.process_time() - begun) < seconds or not calls:
            work()
            calls += 1
        best = min(best, took / calls)
    return best


def main() -> NoReturn:
    """Go through all series."""
    order = Order.from_argument()
    answer(
        {
            series: exponent([(size, _cost(_work(series, size), order.seconds, order.count)) for size in sizes])
            for series, sizes in SERIES.items()
        }
    )


if __name__ == "__main__":
    main()
