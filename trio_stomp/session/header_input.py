"""Headers as users give them, made pairs in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from trio_stomp.errors import LocalProtocolError

__all__ = ["HeaderInput", "header_pairs"]

HeaderInput = Mapping[str, str] | Sequence[tuple[str, str]]

_SET_BY_CALLS: Final = {
    "receipt": "use receipt=True",
    "transaction": "use the methods of client.transaction()",
}


def header_pairs(headers: HeaderInput | None) -> list[tuple[str, str]]:
    """What users give as headers, as pairs in order; names and values must be text.

    Raises:
        LocalProtocolError: A name or value is not a str (numbers are not converted: 1 and True would be guesses), or a
            header is one that the calls themselves set: a receipt of the user's own would be waited for in vain.
    """
    if not headers:
        return []
    # dict is named for speed: to ask an abstract class takes as long as all the rest.
    pairs = list(headers.items()) if isinstance(headers, (dict, Mapping)) else list(headers)
    for name, value in pairs:
        if type(name) is not str or type(value) is not str or name in _SET_BY_CALLS:
            _require_sendable(name, value)
    return pairs


def _require_sendable(name: object, value: object) -> None:
    if not isinstance(name, str) or not isinstance(value, str):
        msg = f"header {name!r} must be text on both sides, got a {type(value).__name__}; use str()"
        raise LocalProtocolError(msg)
    if name in _SET_BY_CALLS:
        msg = f"header {name!r} is set by the call itself: {_SET_BY_CALLS[name]}"
        raise LocalProtocolError(msg)
