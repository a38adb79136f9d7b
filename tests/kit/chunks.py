"""Input in pieces of one size, for decoders and for both sides of the protocol."""

from __future__ import annotations

from typing import Protocol, TypeVar

__all__ = ["Reader", "fed"]

T = TypeVar("T")


class Reader(Protocol[T]):
    """What takes bytes, and gives frames or events."""

    def receive_data(self, data: bytes, /) -> list[T]: ...


def fed(reader: Reader[T], data: bytes, size: int) -> list[T]:
    """All that a reader gives for the bytes, fed in pieces of `size`."""
    return [each for start in range(0, len(data), size) for each in reader.receive_data(data[start : start + size])]
