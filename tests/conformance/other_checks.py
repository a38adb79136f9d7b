"""Vectors of all kinds but ``decode``: encoding, required headers, versions, heart-beats, text, the server header."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

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
    asked = replace(vector, fields={"version": "negotiate", **vector.fields})

    def agreed(chunks: list[bytes], *, accelerate: bool) -> dict[str, Json]:
        outcome = decode_chunks(asked, chunks, accelerate=accelerate)
        if outcome.error is not None:
            raise outcome.error
        if outcome.version is None:
            raise RemoteProtocolError("the first frame agrees on no version")
        return {"version": outcome.version.value}

    problems: list[str] = []
    for chunks in ([data], [data[at : at + 1] for at in range(len(data))]):
        for accelerate in (True, False):
            problems += _compare(vector, partial(agreed, chunks, accelerate=accelerate))
    return problems


def _optional_text(vector: Vector, name: str) -> str | None:
    value = vector.fields.get(name)
    return None if value is None else text(value)


def _check_heart_beat(vector: Vector) -> list[str]:
    def agreed() -> dict[str, Json]:
        client, server = (HeartBeatOffer.parse(_optional_text(vector, name)) for name in ("connect", "connected"))
        terms = client.agree(server=server)
        return {"client_sends_ms": terms.client_sends_ms, "server_sends_ms": terms.server_sends_ms}

    return _compare(vector, agreed)


def _check_content_type(vector: Vector) -> list[str]:
    def read() -> dict[str, Json]:
        content = text_of(vector.octets("body_hex"), _optional_text(vector, "content_type"))
        return {"binary": True} if content is None else {"text": content}

    return _compare(vector, read)


def _check_server_header(vector: Vector) -> list[str]:
    def parsed() -> dict[str, Json]:
        info = ServerInfo.parse(text(vector.fields["value"]))
        return {"name": info.name, "version": info.version, "comments": list(info.comments)}

    return _compare(vector, parsed)


def _compare(vector: Vector, find: Callable[[], dict[str, Json]]) -> list[str]:
    """What differs between an expectation and what is found: an error where one is expected, else the same values."""
    expected = vector.expected
    is_refused = expected.get("error") is not None
    try:
        found = find()
    except (RemoteProtocolError, UnicodeError) as error:
        return [] if is_refused else [f"error: {error}, expected {expected}"]
    if is_refused:
        return [f"{found}, expected an error"]
    wanted = {name: value for name, value in expected.items() if name != "error"}
    return [] if wanted == {name: found.get(name) for name in wanted} else [f"{found}, expected {wanted}"]


_CHECKS: dict[str, Callable[[Vector], list[str]]] = {
    "decode": check_decode,
    "encode": _check_encode,
    "validate": _check_validate,
    "negotiate": _check_negotiate,
    "heartbeat": _check_heart_beat,
    "content-type": _check_content_type,
    "server-header": _check_server_header,
}
