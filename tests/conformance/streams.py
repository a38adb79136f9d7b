"""Random streams for the property tests: legal frames, and bytes that look like frames and may be anything."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

from trio_stomp import Limits
from trio_stomp.errors import RemoteProtocolError
from trio_stomp.protocol import Decoder, DraftDecoder, Role, Tolerances
from trio_stomp.types import Command, Frame, Headers, Version

__all__ = [
    "Read",
    "chunks_of",
    "chunks_with",
    "decoders",
    "frame_like_bytes",
    "frames_of",
    "header_text",
    "read_all",
    "sender_of",
]

SERVER_COMMANDS = frozenset({Command.CONNECTED, Command.MESSAGE, Command.RECEIPT, Command.ERROR})
HANDSHAKE = frozenset({Command.CONNECT, Command.STOMP, Command.CONNECTED})
BODIED = frozenset({Command.SEND, Command.MESSAGE, Command.ERROR})

# What the grammar is made of, and what breaks it, in pieces that random choice puts together into near-frames.
_PIECES = [
    *(command.encode() for command in Command),
    *(b"message", b"content-length:", b"version:", b"accept-version:", b"heart-beat:", b"receipt-id:"),
    *(b"destination:/q", b"subscription:1", b"message-id:1", b"host:h", b"1.2", b"1.1", b"1.0", b"0", b"3", b"12"),
    *(b"\n", b"\n", b"\n", b"\n\n", b"\n\n", b"\r\n", b"\r", b"\0", b"\0", b"\0\n", b":", b":", b" ", b"a", b"bc"),
    *(b"\\c", b"\\n", b"\\r", b"\\\\", b"\\t", b"\\", b"\xff", b"\xc3", b"\xa9", "€".encode(), b"-", b"+", b"x" * 20),
]
_WHOLE = [
    b"CONNECTED\nversion:1.2\n\n\0\n",
    b"CONNECTED\nversion:1.1\nheart-beat:1,1\n\n\0",
    b"CONNECT\naccept-version:1.1,1.2\nhost:h\n\n\0",
    b"MESSAGE\nsubscription:1\nmessage-id:a\\c1\ndestination:/q\ncontent-length:3\n\na\0b\0\n",
    b"MESSAGE\nsubscription:1\nmessage-id:1\ndestination:/q\nk\0:\\r\n:v\ncontent-length:1\n\na\0",
    b"MESSAGE\r\nsubscription:1\r\nmessage-id:1\r\ndestination:/q\r\n\r\nbody\0\r\n",
    b"SEND\ndestination:/q\n\n\n\nbody\n\n\0",
    b"RECEIPT\nreceipt-id:1\nreceipt-id:2\n\n\0",
    b"ERROR\nmessage:no\n\nwhy\0",
    b"DISCONNECT\n\n\0",
]


@dataclass(slots=True, kw_only=True)
class Read:
    """What a decoder made of a stream."""

    frames: list[Frame] = field(default_factory=list[Frame])
    kind: type[RemoteProtocolError] | None = None
    pending: bool = False
    heartbeats: int = 0


def read_all(decoder: Decoder, chunks: list[bytes]) -> Read:
    """Feed the chunks; a handshake is ended by 1.2, whatever it says."""
    frames: list[Frame] = []
    for chunk in chunks:
        came = decoder.receive_data(chunk)
        while came:
            frames += came
            if came[-1].command in HANDSHAKE and decoder._waiting:
                decoder.set_version(Version.V1_2)
            came = decoder.receive_data(b"")
    return Read(
        frames=frames,
        kind=None if decoder.error is None else type(decoder.error),
        pending=decoder.pending,
        heartbeats=decoder.heartbeats,
    )


def chunks_of(data: bytes, size: int) -> list[bytes]:
    """The bytes in chunks of one size."""
    return [data[at : at + size] for at in range(0, len(data), size)]


@st.composite
def chunks_with(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """The bytes cut at random places, empty chunks included."""
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=12)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def frame_like_bytes() -> st.SearchStrategy[bytes]:
    """Bytes between noise and a legal stream."""
    near = st.lists(st.sampled_from(_PIECES + _WHOLE), max_size=30).map(b"".join)
    return st.one_of(near, st.lists(st.sampled_from(_WHOLE), max_size=5).map(b"".join), _spoiled(), st.binary())


@st.composite
def _spoiled(draw: st.DrawFn) -> bytes:
    """A legal stream with a few bytes changed, taken out or put in."""
    data = bytearray(b"".join(draw(st.lists(st.sampled_from(_WHOLE), min_size=1, max_size=4))))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        data[at : at + draw(st.integers(0, 2))] = draw(st.sampled_from(_PIECES) | st.binary(max_size=2))
    return bytes(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to make a decoder; the same one can be made any number of times."""

    role: Role
    version: Version | None
    limits: Limits
    tolerances: Tolerances
    draft: bool

    def decoder(self, *, accelerate: bool = True) -> Decoder:
        """A new decoder, with or without its accelerator."""
        if self.draft:
            return DraftDecoder(role=self.role, limits=self.limits)
        return Decoder(
            role=self.role,
            version=self.version,
            limits=self.limits,
            tolerances=self.tolerances,
            accelerate=accelerate,
        )


def decoders() -> st.SearchStrategy[Settings]:
    """Every kind of decoder: roles, versions, small and large limits, tolerances, the draft."""
    limits = st.builds(
        Limits,
        command_bytes=st.sampled_from([4, 7, 64]),
        header_line_bytes=st.sampled_from([5, 12, 20, 65536]),
        header_count=st.sampled_from([0, 1, 3, 512]),
        body_bytes=st.sampled_from([0, 3, 10, 1 << 20]),
    )
    tolerances = st.builds(
        Tolerances,
        undefined_escapes=st.booleans(),
        lines_without_colon=st.booleans(),
        nul_in_error_headers=st.booleans(),
        nul_in_message_headers=st.booleans(),
        empty_header_names=st.booleans(),
        invalid_utf8=st.booleans(),
        cr_escape_in_1_1=st.booleans(),
        escapes_in_1_0=st.booleans(),
    )
    fixed = st.builds(
        Settings,
        role=st.sampled_from(Role),
        version=st.sampled_from(Version) | st.none(),
        limits=st.just(Limits()) | limits,
        tolerances=st.just(Tolerances()) | tolerances,
        draft=st.just(value=False),
    )
    draft = st.builds(
        Settings,
        role=st.sampled_from(Role),
        version=st.just(Version.V1_0),
        limits=st.just(Limits()) | limits,
        tolerances=st.just(Tolerances()),
        draft=st.just(value=True),
    )
    return st.one_of(fixed, fixed, fixed, draft)


def header_text() -> st.SearchStrategy[str]:
    """Any text, with much of what means something to STOMP."""
    special = st.sampled_from([*"\n\r\0:\\ nrct", "content-length", "a", "\n\n", "\0\n", "\ud800", "€"])
    return st.lists(special | st.characters(), max_size=8).map("".join)


def sender_of(command: Command) -> Role:
    """Which side sends frames of that command."""
    return Role.SERVER if command in SERVER_COMMANDS else Role.CLIENT


@st.composite
def frames_of(draw: st.DrawFn, version: Version, role: Role) -> Frame:
    """A frame that `version` can carry, for the side `role` to receive."""
    lacking = {Command.NACK, Command.STOMP} if version is Version.V1_0 else set[Command]()
    command = draw(st.sampled_from([one for one in Command if sender_of(one) is role.peer and one not in lacking]))
    literal = command in HANDSHAKE or version is Version.V1_0
    barred = "\0" + ("\r" if version is not Version.V1_2 or literal else "") + ("\n" if literal else "")
    letters = st.characters(exclude_characters=barred, exclude_categories=["Cs"])
    names = st.text(letters.filter(lambda letter: not (literal and letter == ":")), min_size=1, max_size=6)
    values = st.text(letters, max_size=10)
    pairs = draw(st.lists(st.tuples(names.filter(lambda name: name != "content-length"), values), max_size=6))
    if version is Version.V1_0:
        # 1.0 pads values with spaces, so those that have some of their own cannot come back.
        pairs = [(name, value.strip(" ")) for name, value in pairs]
    body = draw(st.binary(max_size=40)) if command in BODIED else b""
    if body:
        pairs.append(("content-length", str(len(body))))
    return Frame(command=command, headers=Headers(pairs), body=body)
