"""Vectors of all kinds but ``decode``: encoding, required headers, versions, heart-beats, text, the server header."""

from __future__ import annotations

from collections.abc import Callable

from tests.conformance.decode_checks import check_decode, decode_chunks, frame_decoder
from tests.conformance.vectors import Json, Vector, pairs, sequence, text
from trio_stomp.errors import LocalProtocolError, RemoteProtocolError
from trio_stomp.protocol import HeartBeatOffer, ServerInfo, encode_frame, encode_heart_beat, missing_header, text_of
from trio_stomp.types import Command, Version

__all__ = ["check"]


def check(vector: Vector) -> list[str]:
    """What is wrong with a vector: nothing, where it holds."""
    if vector.kind not in _CHECKS:
        return [f"unknown kind {vector.kind!r}; known: {', '.join(sorted(_CHECKS))}"]
    return _CHECKS[vector.kind](vector)


def _encoded(vector: Vector, *, accelerate: bool) -> bytes:
    fields = vector.fields
    version = Version(text(fields["version"]))
    if fields["command"] is None:
        return encode_heart_beat(version)
    name = text(fields["command"])
    if name not in {command.value for command in Command}:
        # Such a frame cannot even be asked for: Command is an enumeration.
        raise LocalProtocolError(f"there is no command {name!r}")
    return encode_frame(
        Command(name),
        pairs(fields["headers"]),
        vector.octets("body_hex"),
        version=version,
        add_content_length=fields.get("auto_content_length") is True,
        accelerate=accelerate,
    )


def _check_encode(vector: Vector) -> list[str]:
    return [problem for accelerate in (True, False) for problem in _encode_problems(vector, accelerate=accelerate)]


def _encode_problems(vector: Vector, *, accelerate: bool) -> list[str]:
    expected = vector.expected
    try:
        octets = _encoded(vector, accelerate=accelerate)
    except LocalProtocolError as error:
        refused_rightly = expected.get("error") is not None or expected.get("error_ok") is True
        return [] if refused_rightly else [f"refused: {error}"]
    allowed = sequence(expected.get("any_of_hex") or [])
    if not allowed:
        return [f"{octets!r}, expected {expected.get('error')}"]
    return [] if octets.hex() in allowed else [f"{octets.hex()}, expected one of {allowed}"]


def _check_validate(vector: Vector) -> list[str]:
    expected = vector.expected
    mode = vector.fields.get("ack_mode")
    decoder = frame_decoder(vector)
    frames = decoder.receive_data(vector.octets("input_hex"))
    missing: str | None = None
    if decoder.error is None:
        version = Version(text(vector.fields["version"]))
        missing = missing_header(frames[0], version, ack_mode=None if mode is None else text(mode))
    valid = decoder.error is None and missing is None
    if valid is not expected["valid"]:
        return [f"valid is {valid} (missing {missing}, error {decoder.error}), expected {expected}"]
    wanted = expected.get("missing")
    return [] if wanted is None or wanted == missing else [f"missing {missing!r}, expected {wanted!r}"]


def _check_negotiate(vector: Vector) -> list[str]:
    data = vector.octets("input_hex")
    fields = {"version": "negotiate", **vector.fields}
    asked = Vector(
        id=vector.id,
        kind=vector.kind,
        title=vector.title,
        rows=vector.rows,
        ambiguous=vector.ambiguous,
        lenient=vector.lenient,
        fields=fields,
        expected=vector.expected,
    )
    problems: list[str] = []
    in_bytes = [data[at : at + 1] for at in range(len(data))]
    for chunks, accelerate in (([data], True), ([data], False), (in_bytes, True), (in_bytes, False)):
        outcome = decode_chunks(asked, chunks, accelerate=accelerate)
        found: Json = None if outcome.version is None else outcome.version.value
        failure = outcome.error
        if found is None and failure is None:
            failure = RemoteProtocolError("the first frame agrees on no version")
        problem = _compare(vector.expected, {"version": found}, failure)
        problems += [] if problem is None else [problem]
    return problems


def _check_heart_beat(vector: Vector) -> list[str]:
    def offer(name: str) -> HeartBeatOffer:
        value = vector.fields.get(name)
        return HeartBeatOffer.parse(None if value is None else text(value))

    found: dict[str, Json] = {}
    failure: Exception | None = None
    try:
        terms = offer("connect").agree(server=offer("connected"))
        found = {"client_sends_ms": terms.client_sends_ms, "server_sends_ms": terms.server_sends_ms}
    except RemoteProtocolError as error:
        failure = error
    problem = _compare(vector.expected, found, failure)
    return [] if problem is None else [problem]


def _check_content_type(vector: Vector) -> list[str]:
    value = vector.fields.get("content_type")
    found: dict[str, Json] = {}
    failure: Exception | None = None
    try:
        content = text_of(vector.octets("body_hex"), None if value is None else text(value))
        found = {"binary": True} if content is None else {"text": content}
    except UnicodeError as error:
        failure = error
    problem = _compare(vector.expected, found, failure)
    return [] if problem is None else [problem]


def _check_server_header(vector: Vector) -> list[str]:
    found: dict[str, Json] = {}
    failure: Exception | None = None
    try:
        info = ServerInfo.parse(text(vector.fields["value"]))
        found = {"name": info.name, "version": info.version, "comments": list(info.comments)}
    except RemoteProtocolError as error:
        failure = error
    problem = _compare(vector.expected, found, failure)
    return [] if problem is None else [problem]


def _compare(expected: dict[str, Json], found: dict[str, Json], failure: Exception | None) -> str | None:
    """What differs between an expectation and what came: an error where one is expected, the same values otherwise."""
    if expected.get("error") is not None:
        return None if failure is not None else f"{found}, expected an error"
    if failure is not None:
        return f"error: {failure}, expected {expected}"
    wanted = {name: value for name, value in expected.items() if name != "error"}
    return None if wanted == {name: found.get(name) for name in wanted} else f"{found}, expected {wanted}"


_CHECKS: dict[str, Callable[[Vector], list[str]]] = {
    "decode": check_decode,
    "encode": _check_encode,
    "validate": _check_validate,
    "negotiate": _check_negotiate,
    "heartbeat": _check_heart_beat,
    "content-type": _check_content_type,
    "server-header": _check_server_header,
}
