"""Delimiters and the escaping of headers, by version and command. Spec: "Value Encoding", "Augmented BNF"."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from trio_stomp.errors import RemoteProtocolError
from trio_stomp.protocol.frames import UNESCAPED_COMMANDS, Command
from trio_stomp.protocol.tolerances import Tolerances
from trio_stomp.protocol.versions import Version

__all__ = ["HANDSHAKE_RULES", "LF", "NUL", "Rules", "escapes_of", "rules_of", "unescape"]

LF: Final = 0x0A
CR: Final = 0x0D
NUL: Final = 0x00

# STOMP 1.2, Value Encoding: \r \n \c \\ ; 1.1 has no \r; 1.0 has none.
_ESCAPES_1_1: Final = {"\\n": "\n", "\\c": ":", "\\\\": "\\"}
_ESCAPES_1_2: Final = {"\\r": "\r", **_ESCAPES_1_1}
_NO_ESCAPES: Final[dict[str, str]] = {}
# A backslash and what follows it, which is nothing at the end of a line.
_ESCAPE: Final = re.compile(r"\\.?", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How the lines of a session are read.

    Attributes:
        cr_ends_line: One CR right before the LF belongs to the end of the line.
        bare_cr_is_error: A CR anywhere else in a line breaks the grammar.
        trim_values: Spaces around values are padding.
        escapes: Escape -> character, for frames that are escaped.
        literal_escapes: An undefined escape is kept as it is.
        body_anywhere: Any frame may carry a body.
    """

    cr_ends_line: bool = False
    bare_cr_is_error: bool = False
    trim_values: bool = False
    escapes: dict[str, str] = field(default_factory=dict[str, str])
    literal_escapes: bool = False
    body_anywhere: bool = False


# Before CONNECTED the version is unknown, so these rules read all of them: row 1x-CONN-6. Only ERROR, CONNECT and
# CONNECTED can come; the last two are never escaped, and an ERROR has to be read whatever is in it.
HANDSHAKE_RULES: Final = Rules(cr_ends_line=True, escapes=_ESCAPES_1_2, literal_escapes=True, body_anywhere=True)


def rules_of(version: Version, tolerances: Tolerances) -> Rules:
    """The rules of a version after the handshake, with the tolerances of a profile."""
    if version is Version.V1_0:
        return Rules(
            # The grammar of 1.0 has LF alone, yet telnet users and the draft end lines with CR LF: row 10-FRM-EOL-3.
            cr_ends_line=True,
            # "destination: /queue/foo": the examples of 1.0 pad after the colon.
            trim_values=True,
            escapes=_ESCAPES_1_2 if tolerances.escapes_in_1_0 else _NO_ESCAPES,
            literal_escapes=tolerances.undefined_escapes,
            body_anywhere=True,
        )
    if version is Version.V1_1:
        # CRLF came with 1.2: in 1.1 a CR is an ordinary byte of the line.
        return Rules(
            escapes=_ESCAPES_1_2 if tolerances.cr_escape_in_1_1 else _ESCAPES_1_1,
            literal_escapes=tolerances.undefined_escapes,
        )
    return Rules(
        cr_ends_line=True,
        bare_cr_is_error=True,
        escapes=_ESCAPES_1_2,
        literal_escapes=tolerances.undefined_escapes,
    )


def escapes_of(command: Command, rules: Rules) -> dict[str, str]:
    """The escapes that are decoded in frames of `command`; CONNECT, STOMP and CONNECTED have none."""
    return _NO_ESCAPES if command in UNESCAPED_COMMANDS else rules.escapes


def _replaced(text: str, escapes: dict[str, str]) -> str:
    for escape, character in escapes.items():
        text = text.replace(escape, character)
    return text


def unescape(text: str, escapes: dict[str, str], *, keep_undefined: bool) -> str:
    """Decode a header name or value.

    Raises:
        RemoteProtocolError: An escape is not defined. STOMP 1.2, Value Encoding: undefined escapes are fatal.
    """
    if not escapes or "\\" not in text:
        return text
    # Between escaped backslashes each backslash begins an escape, so that one kind can be replaced after the other. A
    # value takes a quarter of the time of one escape after the other: 10 % of "decode, escapes" in `make bench`.
    if "\\\\" not in text:
        decoded = _replaced(text, escapes)
        if "\\" not in decoded:
            return decoded
    else:
        parts = [_replaced(part, escapes) for part in text.split("\\\\")]
        if not any("\\" in part for part in parts):
            return "\\".join(parts)

    def replace(found: re.Match[str]) -> str:
        if found[0] in escapes:
            return escapes[found[0]]
        if keep_undefined:
            return found[0]
        known = " ".join(escapes)
        raise RemoteProtocolError(
            f"undefined escape {found[0]!r} in header text {text[:80]!r}; this version of STOMP defines {known}"
        )

    return _ESCAPE.sub(replace, text)
