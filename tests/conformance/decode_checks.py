"""Vectors of kind ``decode``: bytes, cut in several ways, and the frames and the error that they must give."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from tests.conformance.vectors import Json, Vector, integer, mapping, pairs, sequence, text
from trio_stomp import Limits
from trio_stomp.errors import LimitExceeded, RemoteProtocolError
from trio_stomp.protocol import ALL_VERSIONS, Decoder, DraftDecoder, Role, settle
from trio_stomp.types import Frame, Version

__all__ = [
    "Outcome",
    "check_decode",
    "cuts_of",
    "decode_chunks",
    "frame_decoder",
    "kind_of",
    "limits_of",
    "versions_of",
]

# A vector names the limits that it is about; no other may get in its way.
_UNLIMITED = 1 << 40
_LIMIT_NAMES = {
    "max_command": "command_bytes",
    "max_header_line": "header_line_bytes",
    "max_headers": "header_count",
    "max_body": "body_bytes",
}


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What decoding came to.

    Attributes:
        frames: The frames delivered.
        error: What ended it.
        pending: Whether the input ended inside a frame.
        heartbeats: Ends of line outside of frames.
        version: The version in force at the end.
    """

    frames: list[Frame] = field(default_factory=list[Frame])
    error: RemoteProtocolError | None = None
    pending: bool = False
    heartbeats: int = 0
    version: Version | None = None


def kind_of(error: RemoteProtocolError | None) -> str | None:
    """How the vectors call an error."""
    if error is None:
        return None
    return "limit-exceeded" if isinstance(error, LimitExceeded) else "protocol-error"


def limits_of(vector: Vector) -> Limits:
    """The limits that a vector sets, and no others."""
    given = {_LIMIT_NAMES[name]: integer(value) for name, value in mapping(vector.fields.get("limits") or {}).items()}
    octets = {name: given.get(name, _UNLIMITED) for name in _LIMIT_NAMES.values()}
    return Limits(**octets)


def versions_of(value: Json) -> tuple[Version, ...]:
    """The versions of a list; those that this library does not know are left out."""
    known = {version.value: version for version in ALL_VERSIONS}
    return tuple(known[name] for item in sequence(value) if (name := text(item)) in known)


def frame_decoder(vector: Vector, *, accelerate: bool = True) -> Decoder:
    """A decoder for the vector's role, version, limits and mode."""
    version = text(vector.fields["version"])
    role = Role(text(vector.fields["role"]))
    if vector.lenient:
        return DraftDecoder(role=role, limits=limits_of(vector))
    return Decoder(
        role=role,
        version=None if version == "negotiate" else Version(version),
        limits=limits_of(vector),
        accelerate=accelerate,
    )


def decode_chunks(vector: Vector, chunks: list[bytes], *, accelerate: bool = True) -> Outcome:
    """Decode the chunks one after the other, settling the version after the first frame where it is open."""
    decoder = frame_decoder(vector, accelerate=accelerate)
    negotiating = vector.fields["version"] == "negotiate"
    key = "offered" if vector.fields["role"] == "client" else "supported"
    versions = versions_of(vector.fields.get(key) or list(ALL_VERSIONS)) if negotiating else ()
    outcome = Outcome(version=None if negotiating else Version(text(vector.fields["version"])))
    for chunk in chunks:
        frames = decoder.receive_data(chunk)
        while negotiating and outcome.version is None and frames and frames[-1].command.value != "ERROR":
            try:
                outcome.version, frames[-1] = settle(frames[-1], versions)
            except RemoteProtocolError as error:
                outcome.frames += frames[:-1]
                outcome.error = error
                return outcome
            decoder.set_version(outcome.version)
            frames += decoder.receive_data(b"")
        outcome.frames += frames
    outcome.error = decoder.error
    outcome.pending = decoder.pending
    outcome.heartbeats = decoder.heartbeats
    return outcome


def cuts_of(vector: Vector, size: int) -> Iterator[tuple[str, list[int]]]:
    """The ways in which the input is cut: always whole and byte by byte, and those that the vector lists."""
    yield "whole", []
    yield "each-byte", list(range(1, size))
    for cuts in sequence(vector.fields.get("chunks") or []):
        if cuts != "each-byte":
            offsets = sorted({integer(cut) for cut in sequence(cuts)})
            yield str(offsets), [offset for offset in offsets if 0 < offset < size]


def check_decode(vector: Vector) -> list[str]:
    """What is wrong with the decoding of a vector: a line for each way of cutting, with and without the accelerator."""
    data = vector.octets("input_hex")
    problems: list[str] = []
    for name, offsets in cuts_of(vector, len(data)):
        edges = [0, *offsets, len(data)]
        chunks = [data[start:end] for start, end in pairwise(edges)]
        for accelerate in (True, False):
            outcome = decode_chunks(vector, chunks, accelerate=accelerate)
            way = name if accelerate else f"{name}, not accelerated"
            problems += [f"({way}) {problem}" for problem in _differences(vector, outcome)]
    return problems


def _differences(vector: Vector, outcome: Outcome) -> Iterator[str]:
    expected = vector.expected
    wanted = [mapping(item) for item in sequence(expected["frames"])]
    if len(wanted) != len(outcome.frames):
        yield f"{len(outcome.frames)} frames, expected {len(wanted)}: {outcome.frames}; error: {outcome.error!r}"
    for want, frame in zip(wanted, outcome.frames, strict=False):
        yield from _frame_differences(want, frame)
    yield from _error_differences(expected.get("error"), outcome)
    heartbeats = expected.get("heartbeats")
    if heartbeats is not None and outcome.heartbeats != heartbeats:
        yield f"{outcome.heartbeats} heart-beats, expected {heartbeats}"
    if "pending" in expected and outcome.pending is not expected["pending"]:
        yield f"pending is {outcome.pending}, expected {expected['pending']}"
    version = expected.get("session_version")
    if version is not None and outcome.version != version:
        yield f"session version {outcome.version}, expected {version}"


def _frame_differences(want: dict[str, Json], frame: Frame) -> Iterator[str]:
    if frame.command.value != want["command"]:
        yield f"command {frame.command.value}, expected {want['command']}"
    entries = pairs(want["headers"])
    if list(frame.headers.pairs) != entries:
        yield f"headers {list(frame.headers.pairs)}, expected {entries}"
    if "effective" in want and frame.headers.first() != want["effective"]:
        yield f"headers in force {frame.headers.first()}, expected {want['effective']}"
    bodies = sequence(want["body_any_of_hex"]) if "body_any_of_hex" in want else [want["body_hex"]]
    if frame.body.hex() not in bodies:
        yield f"body {frame.body.hex()}, expected {bodies}"


def _error_differences(want: Json, outcome: Outcome) -> Iterator[str]:
    kind = kind_of(outcome.error)
    if want is None:
        if kind is not None:
            yield f"{kind}, expected none: {outcome.error}"
        return
    expected = {"kind": want} if isinstance(want, str) else mapping(want)
    if kind != expected["kind"]:
        yield f"error {kind}, expected {expected['kind']}: {outcome.error}"
    after = expected.get("after_frame")
    if after is not None and after != len(outcome.frames):
        yield f"error after {len(outcome.frames)} frames, expected after {after}"
