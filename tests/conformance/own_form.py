"""How the vectors of our own are written down: short forms for frames and the vectors of each kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.conformance.vectors import Json

__all__ = ["ALL", "LIMIT_EXCEEDED", "PROTOCOL_ERROR", "Expected", "Vectors", "frame", "with_bodies"]

ALL = ("1.0", "1.1", "1.2")
_VERSIONS_OF = {"10": ("1.0",), "11": ("1.1",), "12": ("1.2",), "1x": ("1.1", "1.2"), "draft": ("1.0",), "all": ALL}
Pairs = Sequence[tuple[str, str]]
PROTOCOL_ERROR = "protocol-error"
LIMIT_EXCEEDED = "limit-exceeded"


def frame(command: str, headers: Pairs = (), body: bytes = b"") -> dict[str, Json]:
    """A frame that is expected; the first of repeated headers is in force."""
    effective: dict[str, Json] = {}
    for name, value in headers:
        effective.setdefault(name, value)
    return {
        "command": command,
        "headers": [[name, value] for name, value in headers],
        "effective": effective,
        "body_hex": body.hex(),
    }


def with_bodies(expected: dict[str, Json], *bodies: bytes) -> dict[str, Json]:
    """A frame of which any of these bodies may be shown."""
    return {**expected, "body_any_of_hex": [body.hex() for body in bodies]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a decode vector expects besides its frames.

    Attributes:
        error: The kind of error that ends it.
        pending: Whether the input ends inside a frame.
        heartbeats: Ends of line outside of frames, where they are counted.
        session_version: The version in force at the end.
    """

    error: str | None = None
    pending: bool = False
    heartbeats: int | None = None
    session_version: str | None = None


def _is_of(row: str, version: str) -> bool:
    """Whether a row of the matrix speaks of a version, so that a vector may list siblings for all of them."""
    return version == "negotiate" or version in _VERSIONS_OF[row.partition("-")[0]]


class Vectors:
    """Gathers vectors in order."""

    def __init__(self) -> None:
        self.items: list[dict[str, Json]] = []

    def _add(self, id_: str, kind: str, title: str, rows: str, fields: dict[str, Json]) -> None:
        version = fields.get("version")
        touched: list[Json] = [row for row in rows.split() if not isinstance(version, str) or _is_of(row, version)]
        item: dict[str, Json] = {"id": id_, "kind": kind, "title": title, "rows": touched}
        self.items.append(item | fields)

    def decode(
        self,
        id_: str,
        title: str,
        rows: str,
        peer: str,
        data: bytes,
        frames: Sequence[dict[str, Json]] = (),
        expected: Expected = Expected(),
        **more: Json,
    ) -> None:
        """Bytes and what they come to. `peer` is the version and the role of the receiver, as in ``1.2 client``."""
        version, role = peer.split()
        wanted: dict[str, Json] = {
            "frames": list[Json](frames),
            "heartbeats": expected.heartbeats,
            "error": None if expected.error is None else {"kind": expected.error, "after_frame": len(frames)},
            "pending": expected.pending,
        }
        if expected.session_version is not None:
            wanted["session_version"] = expected.session_version
        if version == "negotiate":
            more.setdefault("offered" if role == "client" else "supported", list[Json](ALL))
        fields: dict[str, Json] = {"version": version, "role": role, "input_hex": data.hex(), "expected": wanted}
        self._add(id_, "decode", title, rows, fields | more)

    def encode(
        self,
        id_: str,
        title: str,
        rows: str,
        asked: str,
        headers: Pairs,
        octets: Sequence[bytes],
        **more: Json,
    ) -> None:
        """A frame and the bytes that may stand for it; none where it must be refused.

        `asked` is the version and the command, as in ``1.2 SEND``; without a command a heart-beat is asked for.
        """
        version, _, command = asked.partition(" ")
        wanted: dict[str, Json] = (
            {"any_of_hex": [one.hex() for one in octets]} if octets else {"error": {"kind": "encode-error"}}
        )
        fields: dict[str, Json] = {
            "version": version,
            "command": command or None,
            "headers": [[name, value] for name, value in headers],
            "body_hex": "",
            "expected": wanted,
        }
        self._add(id_, "encode", title, rows, fields | more)

    def validate(
        self, id_: str, title: str, rows: str, peer: str, data: bytes, missing: str | None, **more: Json
    ) -> None:
        """A frame, and the first header that it lacks."""
        version, role = peer.split()
        wanted: dict[str, Json] = {"valid": True} if missing is None else {"valid": False, "missing": missing}
        fields: dict[str, Json] = {"version": version, "role": role, "input_hex": data.hex(), "expected": wanted}
        self._add(id_, "validate", title, rows, fields | more)

    def negotiate(
        self, id_: str, title: str, rows: str, role: str, data: bytes, versions: Sequence[str], agreed: str | None
    ) -> None:
        """A first frame, what this side speaks, and the version that is agreed upon."""
        wanted: dict[str, Json] = {"error": PROTOCOL_ERROR} if agreed is None else {"version": agreed}
        key = "offered" if role == "client" else "supported"
        fields: dict[str, Json] = {"role": role, "input_hex": data.hex(), key: list[Json](versions), "expected": wanted}
        self._add(id_, "negotiate", title, rows, fields)

    def heartbeat(
        self, id_: str, title: str, rows: str, connect: str | None, connected: str | None, terms: tuple[int, int] | None
    ) -> None:
        """Two header values and the intervals of the client and of the server."""
        wanted: dict[str, Json] = (
            {"error": PROTOCOL_ERROR} if terms is None else {"client_sends_ms": terms[0], "server_sends_ms": terms[1]}
        )
        fields: dict[str, Json] = {"connect": connect, "connected": connected, "expected": wanted}
        self._add(id_, "heartbeat", title, rows, fields)

    def content_type(
        self, id_: str, title: str, rows: str, content_type: str | None, body: bytes, text: str | None
    ) -> None:
        """A content-type, a body, and its text where it is one."""
        wanted: dict[str, Json] = {"binary": True} if text is None else {"text": text}
        fields: dict[str, Json] = {"content_type": content_type, "body_hex": body.hex(), "expected": wanted}
        self._add(id_, "content-type", title, rows, fields)

    def server_header(
        self, id_: str, title: str, rows: str, value: str, parsed: tuple[str, str | None, list[str]] | None
    ) -> None:
        """A server header, and its name, version and comments."""
        wanted: dict[str, Json] = {"error": PROTOCOL_ERROR}
        if parsed is not None:
            wanted = {"name": parsed[0], "version": parsed[1], "comments": list[Json](parsed[2])}
        self._add(id_, "server-header", title, rows, {"value": value, "expected": wanted})
