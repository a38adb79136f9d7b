"""The early draft of STOMP 1.0: commands and header names in any case, any padding, ``username`` for ``login``.

Where the draft is silent, 1.0 applies, so both sides of a session of the draft have version 1.0. Everything that
differs is in this file. What is read is read as leniently as the draft asks; what is sent keeps its rules for senders.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from trio_stomp.errors import LocalProtocolError, NotInVersionError
from trio_stomp.protocol.client_protocol import ClientProtocol
from trio_stomp.protocol.decoder import Decoder
from trio_stomp.protocol.frames import Command, Frame, Role
from trio_stomp.protocol.grammar import Rules
from trio_stomp.protocol.handshake import settle
from trio_stomp.protocol.head_reader import HeadReader
from trio_stomp.protocol.headers import Headers
from trio_stomp.protocol.heartbeat_terms import NO_HEART_BEAT, HeartBeatOffer
from trio_stomp.protocol.limits import Limits
from trio_stomp.protocol.redaction import Secrets
from trio_stomp.protocol.server_protocol import ServerProtocol
from trio_stomp.protocol.tolerances import STRICT, Tolerances
from trio_stomp.protocol.versions import Version

__all__ = ["DraftClientProtocol", "DraftDecoder", "DraftServerProtocol"]

_TITLE: Final = "the early draft of STOMP"
_RULES: Final = Rules(cr_ends_line=True, trim_values=True, body_anywhere=True)
_PADDING: Final = b" \r"
Pairs = Sequence[tuple[str, str]]


class _DraftHeadReader(HeadReader):
    """Reads heads as the draft allows them to be written: rows draft-LEN-1 to 5."""

    __slots__ = ()

    def _without_end(self, line: bytes) -> bytes:
        return line.rstrip(_PADDING)

    def _has_content(self, held: int) -> bool:
        del held
        return bool(self.line[self._scanned :].strip(_PADDING))

    def _command_named(self, text: str) -> Command | None:
        return self.commands.get(text.upper())

    def _header(self, line: bytes, command: Command) -> tuple[str, str]:
        name, value = super()._header(line, command)
        return name.lower(), value


class DraftDecoder(Decoder):
    """Decodes frames of the draft.

    Args:
        role: The side that receives.
        limits: Bounds on what is accepted.
        handshake: Whether the session starts with its handshake, as in `Decoder` without a version; by default any
            frame may come first.
    """

    __slots__ = ()

    def __init__(self, *, role: Role, limits: Limits | None = None, handshake: bool = False) -> None:
        super().__init__(role=role, version=None if handshake else Version.V1_0, limits=limits)

    def _rules(self) -> Rules:
        return _RULES

    def _new_reader(self) -> HeadReader:
        return _DraftHeadReader(
            commands=self._commands(), limits=self._limits, tolerances=self._tolerances, rules=self._rules()
        )


# --- what senders may write: rows draft-LEN-5, draft-LEN-6 and draft-LEN-8 ------------------------------------------

_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


def _require_carried(command: Command, headers: Pairs) -> None:
    """Raise for a header that the draft cannot carry, or that its readers would change."""
    for name, value in headers:
        if not _NAME.fullmatch(name):
            raise LocalProtocolError(
                f"the name of a header of {command.value} must be lower-case letters and digits in {_TITLE}, with "
                f"single hyphens between them, got {name[:80]!r}"
            )
        # The value is not shown: it may be a passcode.
        if (control := _CONTROL.search(value)) is not None:
            raise LocalProtocolError(
                f"the value of header {name!r} of {command.value} holds {control[0]!r}, and {_TITLE} allows no control "
                "characters: encode the value, or send it in the body"
            )
        if value != value.strip(" "):
            raise LocalProtocolError(
                f"the value of header {name!r} of {command.value} begins or ends with a space, which is lost in "
                f"{_TITLE}: remove the space, or send the value in the body"
            )


def _with_length(headers: Pairs, body: bytes) -> Pairs:
    """Add ``content-length``, which the draft wants for an empty body too."""
    if any(name == "content-length" for name, _ in headers):
        return headers
    return [*headers, ("content-length", str(len(body)))]


class DraftClientProtocol(ClientProtocol):
    """`ClientProtocol` for servers of the draft.

    CONNECT has ``username`` and ``passcode``, and neither ``accept-version`` nor ``host`` nor ``heart-beat``: the draft
    negotiates nothing.

    Args:
        limits: Bounds on what the server may send.
        tolerances_for: As for `ClientProtocol`.
    """

    def __init__(
        self, *, limits: Limits | None = None, tolerances_for: Callable[[str | None], Tolerances] = lambda _: STRICT
    ) -> None:
        super().__init__(versions=(Version.V1_0,), limits=limits, tolerances_for=tolerances_for)
        # Their headers are not checked one by one.
        self.takes_plain_heads = False

    def _new_decoder(self, limits: Limits | None, *, accelerate: bool) -> Decoder:
        del accelerate  # there is no shortcut for padded frames
        return DraftDecoder(role=Role.CLIENT, limits=limits, handshake=True)

    @property
    def title(self) -> str:
        """What is spoken, for error messages."""
        return _TITLE

    def connect(self, *, host: str, offer: HeartBeatOffer = NO_HEART_BEAT, headers: Pairs = ()) -> bytes:
        """Encode CONNECT.

        Args:
            host: Not sent: the draft has no virtual hosts.
            offer: Not sent: the draft has no heart-beats.
            headers: Its headers. ``login`` is sent as ``username``. Without ``username`` or ``passcode``, which the
                draft requires, an empty one is added.

        Raises:
            LocalProtocolError: CONNECT was sent already, or a header is invalid.
        """
        del host, offer
        own = _as_draft(headers)
        own += [(name, "") for name in ("username", "passcode") if all(name != given for given, _ in own)]
        self.secrets = Secrets(headers)
        return self._step(Command.CONNECT, own, ())

    def send(
        self,
        destination: str,
        body: bytes,
        *,
        headers: Pairs = (),
        content_length: bool = True,
        transaction: str | None = None,
    ) -> bytes:
        """Encode SEND, with a ``content-length`` in any case."""
        del content_length
        return super().send(destination, body, headers=headers, transaction=transaction)

    def _encode(
        self,
        command: Command,
        own: list[tuple[str, str]],
        headers: Pairs,
        body: bytes = b"",
        *,
        count_body: bool = True,
    ) -> bytes:
        if command is Command.NACK:
            raise NotInVersionError(f"{_TITLE} has no NACK; leave the message unsettled, and it is redelivered")
        _require_carried(command, (*own, *headers))
        # Otherwise `send_head` adds the header.
        if count_body:
            headers = _with_length(headers, body)
        return super()._encode(command, own, headers, body, count_body=count_body)


class DraftServerProtocol(ServerProtocol):
    """`ServerProtocol` for clients of the draft.

    Args:
        limits: Bounds on what the client may send.
        individual_acks_in_1_0: As for `ServerProtocol`.
    """

    def __init__(self, *, limits: Limits | None = None, individual_acks_in_1_0: bool = False) -> None:
        super().__init__(versions=(Version.V1_0,), limits=limits, individual_acks_in_1_0=individual_acks_in_1_0)

    def _new_decoder(self, limits: Limits | None) -> Decoder:
        return DraftDecoder(role=Role.SERVER, limits=limits)

    def encode(self, command: Command, headers: Pairs, body: bytes = b"", *, content_length: bool = True) -> bytes:
        """Encode a frame, with a ``content-length`` in any case.

        Raises:
            LocalProtocolError: The draft cannot carry a header.
        """
        del content_length
        _require_carried(command, headers)
        return super().encode(command, _with_length(headers, body), body)

    def _agree(self, frame: Frame) -> Frame:
        _, frame = settle(frame, (Version.V1_0,))
        # Row draft-CONN-15: the draft's ``username`` is the ``login`` of the later texts.
        pairs = [("login" if name == "username" else name, value) for name, value in frame.headers.pairs]
        return Frame(frame.command, Headers(pairs), frame.body)


def _as_draft(headers: Pairs) -> list[tuple[str, str]]:
    return [("username" if name == "login" else name, value) for name, value in headers]
