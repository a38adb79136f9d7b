"""RECEIPTs in a row, as a broker sends them to a publisher: read at once, in a fraction of the time of single ones."""

from __future__ import annotations

import re
from typing import Final

from trio_stomp.protocol.frames import Command, Frame
from trio_stomp.protocol.header_rules import require_headers
from trio_stomp.protocol.headers import Headers
from trio_stomp.protocol.limits import Limits
from trio_stomp.protocol.versions import Version

__all__ = ["ReceiptRun", "fits", "receipt_ids_of", "receipt_run"]

# Ids of visible ASCII without what separates or escapes: all that this library makes, and more. The ends of line that
# brokers put behind a NUL are part of the run. Nothing is tried twice: what does not match is left to the decoder.
_RUN: Final = re.compile(rb"(?:RECEIPT\nreceipt-id:[!-9;-\[\]-~]{1,200}+\n\n\0\n*+)++")
_ID: Final = re.compile(r":([^\n]*)")
_LINES_OF_ONE: Final = 3
_LINE_OCTETS: Final = len("receipt-id:") + 200


class ReceiptRun(Frame):
    """RECEIPT frames that hold nothing but their id, as one: its headers are those of the first.

    Attributes:
        receipt_ids: The ids of all, in order.
    """

    __slots__ = ("receipt_ids",)

    def __init__(self, receipt_ids: list[str]) -> None:
        super().__init__(Command.RECEIPT, Headers({"receipt-id": receipt_ids[0]}))
        self.receipt_ids: Final = receipt_ids


def fits(limits: Limits) -> bool:
    """Whether no run can pass these limits."""
    return (
        limits.command_octets >= len(Command.RECEIPT)
        and limits.header_line_octets >= _LINE_OCTETS
        and limits.header_count > 0
    )


def receipt_ids_of(frame: Frame, version: Version) -> list[str]:
    """The ids of a RECEIPT, or of a run of them.

    Raises:
        RemoteProtocolError: It has none.

    Spec: RECEIPT.
    """
    if isinstance(frame, ReceiptRun):
        return frame.receipt_ids
    require_headers(frame, version)
    return [frame.headers["receipt-id"]]


def receipt_run(data: bytes, position: int) -> tuple[ReceiptRun, int, int] | None:
    """Read the RECEIPTs that begin at a position, as long as each is whole and plain.

    Returns:
        The run, where it ends, and how many ends of line were behind its frames; None where there is none.

    Spec: RECEIPT; Augmented BNF.
    """
    found = _RUN.match(data, position)
    if found is None:
        return None
    receipt_ids: list[str] = _ID.findall(found[0].decode("ascii"))
    ends = found[0].count(b"\n") - _LINES_OF_ONE * len(receipt_ids)
    return ReceiptRun(receipt_ids), found.end(), ends
