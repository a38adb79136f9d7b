"""A decoder whose looks at bytes are counted: cost measured without a clock."""

# The overrides only count; their types are narrower than bytes' own, whose slices are slices of anything.
# mypy: disable-error-code="explicit-any"
# pyright: reportIncompatibleMethodOverride=false, reportUnnecessaryTypeIgnoreComment=false

from __future__ import annotations

from dataclasses import dataclass
from typing import SupportsIndex, overload

from typing_extensions import Buffer

from trio_stomp.protocol import Decoder

__all__ = ["Watched"]


@dataclass(slots=True)
class Counter:
    """How many bytes have been looked at or copied."""

    octets: int = 0


class _Chunk(bytes):
    """Bytes that count what is searched and sliced of them."""

    counter: Counter

    def find(
        self,
        sub: Buffer | SupportsIndex,
        start: SupportsIndex | None = 0,
        end: SupportsIndex | None = None,
        /,
    ) -> int:
        first = int(start or 0)
        last = len(self) if end is None else int(end)
        found = super().find(sub, first, last)
        self.counter.octets += (found if found >= 0 else last) - first + 1
        return found

    @overload
    def __getitem__(self, key: SupportsIndex, /) -> int: ...
    @overload
    def __getitem__(self, key: slice[SupportsIndex | None], /) -> bytes: ...
    def __getitem__(self, key: SupportsIndex | slice[SupportsIndex | None], /) -> int | bytes:
        if isinstance(key, slice):
            part = super().__getitem__(key)
            self.counter.octets += len(part)
            return part
        self.counter.octets += 1
        return super().__getitem__(key)


class _Line(bytearray):
    """The unfinished line of a reader, counting likewise."""

    counter: Counter

    def find(
        self,
        sub: Buffer | SupportsIndex,
        start: SupportsIndex | None = 0,
        end: SupportsIndex | None = None,
        /,
    ) -> int:
        self.counter.octets += len(self) - int(start or 0)
        return super().find(sub, start, end)

    @overload
    def __getitem__(self, key: SupportsIndex, /) -> int: ...
    @overload
    def __getitem__(self, key: slice[SupportsIndex | None], /) -> bytearray: ...
    def __getitem__(self, key: SupportsIndex | slice[SupportsIndex | None], /) -> int | bytearray:
        if isinstance(key, slice):
            part = super().__getitem__(key)
            self.counter.octets += len(part)
            return part
        return super().__getitem__(key)

    def clear(self) -> None:
        # A finished line is copied whole once, and what becomes of it is of its own length.
        self.counter.octets += len(self)
        super().clear()


class Watched:
    """A decoder and the bytes that it looked at."""

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self.counter = Counter()
        line = _Line()
        line.counter = self.counter
        decoder._reader.line = line

    def feed(self, data: bytes, size: int) -> None:
        """Feed the bytes in chunks of one size."""
        for at in range(0, len(data), size):
            chunk = _Chunk(data[at : at + size])
            chunk.counter = self.counter
            self.decoder.receive_data(chunk)
