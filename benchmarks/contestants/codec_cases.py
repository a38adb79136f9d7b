"""The frames that codecs are given, and the loop that times them; the same for every contestant."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from benchmarks.payload import BODY, message, outgoing_headers
from trio_stomp.protocol import Decoder, Role
from trio_stomp.types import Version

__all__ = ["DECODED", "ENCODED", "Decode", "Encode", "Outgoing", "cut", "decode_rates", "encode_rates", "frames_of"]

# Headers and body of a SEND; what the body's length is, each contestant says in its own way.
Outgoing = tuple[dict[str, str], bytes]
Decode = Callable[[list[bytes]], int]
Encode = Callable[[list[Outgoing]], list[bytes]]

_KIB: Final = 1024
_MIB: Final = 1024 * _KIB
# What a socket hands out at a time when there is more than that.
_CHUNK_BYTES: Final = 64 * _KIB
_MORE: Final = 13
_HARD: Final = "a:b\\c\nd: 12:30"

DECODED: Final = ("small", "20 headers", "escapes", "64 KiB", "16 MiB", "small, byte by byte")
ENCODED: Final = ("small", "20 headers", "escapes", "64 KiB", "16 MiB")


def _noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)  # noqa: S311  # any bytes will do


def _headers_more(number: int) -> dict[str, str]:
    return {f"user-{index:02}": f"value {index * number % 97}" for index in range(_MORE)}


def frames_of(case: str) -> list[bytes]:
    """Whole MESSAGE frames of one case; no two are the same, but for the largest."""
    name, destination = b"s-1", b"/queue/benchmark"
    match case:
        case "20 headers":
            more = [_headers_more(number) for number in range(1000)]
            lines = ["".join(f"{key}:{value}\n" for key, value in headers.items()).encode() for headers in more]
            return [message(number, name, destination, BODY, line) for number, line in enumerate(lines)]
        case "escapes":
            line = b"path:C\\c\\\\data\\\\%04d\ntext:one\\ntwo\\nthree\nat:12\\c30\\c%02d\n"
            return [message(n, name, destination, BODY, line % (n, n % 60)) for n in range(1000)]
        case "64 KiB":
            return [message(number, name, destination, _noise(64 * _KIB)) for number in range(16)]
        case "16 MiB":
            return [message(0, name, destination, _noise(16 * _MIB))]
        case "small, byte by byte":
            return [message(number, name, destination) for number in range(100)]
        case _:
            return [message(number, name, destination) for number in range(1000)]


def cut(case: str, frames: list[bytes]) -> list[bytes]:
    """The chunks in which an incremental decoder gets the frames."""
    if case == "64 KiB":
        return frames
    size = 1 if case == "small, byte by byte" else _CHUNK_BYTES
    whole = b"".join(frames)
    return [whole[start : start + size] for start in range(0, len(whole), size)]


def _outgoing(case: str) -> list[Outgoing]:
    basic = {"destination": "/queue/benchmark", "content-type": "application/json"}
    numbers = range({"64 KiB": 16, "16 MiB": 1}.get(case, 1000))
    body = _noise({"64 KiB": 64 * _KIB, "16 MiB": 16 * _MIB}[case]) if case in {"64 KiB", "16 MiB"} else BODY
    messages: list[Outgoing] = []
    for number in numbers:
        headers = {**basic, **outgoing_headers(number)}
        if case == "20 headers":
            headers |= _headers_more(number)
        elif case == "escapes":
            headers |= {"path": f"C:\\data\\{number}", "text": _HARD, "at": "12:30"}
        messages.append((headers, body))
    return messages


def _rate(seconds: float, once: Callable[[], object], frames: int) -> float:
    """Frames a second, over as many rounds as fit; that it was checked before is the warm-up.

    By the time of the processor: a codec waits for nothing, and what else the machine does is not its business.
    """
    rounds, begun = 0, time.process_time()
    while True:
        once()
        rounds += 1
        took = time.process_time() - begun
        if took >= seconds:
            return rounds * frames / took


def _check_encoded(case: str, messages: list[Outgoing], frames: list[bytes]) -> None:
    """What was encoded must be what was meant: an encoder that leaves something out has no figure."""
    decoder = Decoder(role=Role.SERVER, version=Version.V1_2)
    decoded = decoder.receive_data(b"".join(frames))
    if decoder.error is not None or len(decoded) != len(messages):
        raise ValueError(f"{case}: {len(messages)} messages became {len(decoded)} frames: {decoder.error}")
    for frame, (headers, body) in zip(decoded, messages, strict=True):
        if frame.body != body or {**frame.headers, **headers} != dict(frame.headers):
            raise ValueError(f"{case}: {headers} became {frame}")


def decode_rates(
    seconds: float, decode: Decode, *, kind: str = "decode", whole_frames: bool = False
) -> dict[str, float]:
    """Time a decoder over all cases.

    Args:
        seconds: How long each case takes, at least.
        decode: Decodes chunks and returns how many frames there were.
        kind: What the figures are called.
        whole_frames: It takes frames without their NUL, already found for it, rather than chunks of a stream.

    Returns:
        Frames a second, by ``KIND/CASE``.
    """
    rates: dict[str, float] = {}
    for case in DECODED:
        if whole_frames and case == "small, byte by byte":
            continue
        frames = frames_of(case)
        chunks = [frame[:-1] for frame in frames] if whole_frames else cut(case, frames)
        if (found := decode(chunks)) != len(frames):
            raise ValueError(f"{case}: {len(frames)} frames were there, {found} were found")
        rates[f"{kind}/{case}"] = _rate(seconds, partial(decode, chunks), len(frames))
    return rates


def encode_rates(
    seconds: float, encode: Encode, *, kind: str = "encode", cases: Sequence[str] = ENCODED, checked: bool = True
) -> dict[str, float]:
    """Time an encoder.

    Args:
        seconds: How long each case takes, at least.
        encode: Encodes messages.
        kind: What the figures are called.
        cases: Which ones.
        checked: Whether what comes out has to be frames.

    Returns:
        Frames a second, by ``KIND/CASE``.
    """
    rates: dict[str, float] = {}
    for case in cases:
        messages = _outgoing(case)
        frames = encode(messages)
        if checked:
            _check_encoded(case, messages, frames)
        rates[f"{kind}/{case}"] = _rate(seconds, partial(encode, messages), len(messages))
    return rates
