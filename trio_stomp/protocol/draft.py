"""The early draft of STOMP 1.0: commands and header names in any case, any padding, ``username`` for ``login``.

Everything about the draft is in this file. Only servers support it; our client never sends it.
"""

from __future__ import annotations

from typing import Final

from trio_stomp.protocol.decoder import Decoder
from trio_stomp.protocol.frames import Command, Frame, Role
from trio_stomp.protocol.grammar import Rules
from trio_stomp.protocol.handshake import settle
from trio_stomp.protocol.head_reader import HeadReader
from trio_stomp.protocol.headers import Headers
from trio_stomp.protocol.limits import Limits
from trio_stomp.protocol.server_protocol import ServerProtocol
from trio_stomp.protocol.versions import Version

__all__ = ["DraftDecoder", "DraftServerProtocol"]

_RULES: Final = Rules(cr_ends_line=True, trim_values=True, body_anywhere=True)
_PADDING: Final = b" \r"


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
    """Decodes frames of the draft, from the first frame on.

    Args:
        role: The side that receives.
        limits: Bounds on what is accepted.
    """

    __slots__ = ()

    def __init__(self, *, role: Role, limits: Limits | None = None) -> None:
        super().__init__(role=role, version=Version.V1_0, limits=limits)

    def _rules(self) -> Rules:
        return _RULES

    def _new_reader(self) -> HeadReader:
        return _DraftHeadReader(
            commands=self._commands(), limits=self._limits, tolerances=self._tolerances, rules=self._rules()
        )


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

    def _agree(self, frame: Frame) -> Frame:
        _, frame = settle(frame, (Version.V1_0,))
        # Row draft-CONN-15: the draft's ``username`` is the ``login`` of the later texts.
        pairs = [("login" if name == "username" else name, value) for name, value in frame.headers.pairs]
        return Frame(frame.command, Headers(pairs), frame.body)
