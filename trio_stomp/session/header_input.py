"""Headers as users pass them, converted to a list of pairs."""

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
    """Convert headers to a list of pairs, in order.

    Raises:
        LocalProtocolError: A name or value is not a str (numbers are not converted, because the text of True would be a
            guess), or the client sets this header itself.
    """
    if not headers:
        return []
    # `dict` is for speed: a check against an abstract class takes as long as everything else here.
    pairs = list(headers.items()) if isinstance(headers, (dict, Mapping)) else list(headers)
    for name, value in pairs:
        if type(name) is not str or type(value) is not str or name in _SET_BY_CALLS:
            _require_sendable(name, value)
    return pairs


def _require_sendable(name: object, value: object) -> None:
    if not isinstance(name, str) or not isinstance(value, str):
        msg = f"header {name!r}: name and value must be str, got a value of type {type(value).__name__}; use str()"
        raise LocalProtocolError(msg)
    if name in _SET_BY_CALLS:
        msg = f"header {name!r} is set by the call itself: {_SET_BY_CALLS[name]}"
        raise LocalProtocolError(msg)
