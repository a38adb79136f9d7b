"""Headers of a frame: an ordered multi-dict in which the first of repeated entries counts.

Spec: "Repeated Header Entries" (1.1 and 1.2): "only the first header entry SHOULD be used as the value of header
entry". Later ones are kept, so that a relay or a test can see them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from typing_extensions import TypeIs

from trio_stomp.protocol.redaction import REDACTED, is_secret_header

__all__ = ["HeaderPairs", "Headers"]

HeaderPairs = Iterable[tuple[str, str]]


def _is_mapping(entries: Mapping[str, str] | HeaderPairs) -> TypeIs[Mapping[str, str]]:
    return isinstance(entries, Mapping)


class Headers(Mapping[str, str]):
    """The headers of a frame: a mapping, in the order of the frame. A lookup returns the first of repeated headers.

    Args:
        entries: Pairs in order, repeats allowed, or a mapping.
        unique: Instead of entries, a dict that no longer changes; it is wrapped, not copied.
    """

    __slots__ = ("_first", "_pairs")

    def __init__(self, entries: Mapping[str, str] | HeaderPairs = (), unique: dict[str, str] | None = None) -> None:
        # Without repeats, as in most frames, the dict alone will do.
        self._pairs: tuple[tuple[str, str], ...] | None = None
        if unique is not None:
            self._first = unique
            return
        pairs = tuple(entries.items()) if _is_mapping(entries) else tuple(entries)
        self._first = dict(pairs)
        if len(self._first) != len(pairs):
            self._first = dict(reversed(pairs))
            self._pairs = pairs

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """All headers as pairs, in order, including repeated ones."""
        return tuple(self._first.items()) if self._pairs is None else self._pairs

    def get_all(self, name: str) -> tuple[str, ...]:
        """Return all values of one name, in order. The first one counts."""
        return tuple(value for key, value in self.pairs if key == name)

    def has_all(self, names: frozenset[str]) -> bool:
        """Return whether all of `names` are present."""
        return self._first.keys() >= names

    def first(self) -> dict[str, str]:
        """Return a new dict with the first value of each name."""
        return dict(self._first)

    def __getitem__(self, name: str) -> str:
        return self._first[name]

    # Mapping's own get() and __contains__ go through an exception; these are on the path of each message.
    def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]  # narrower default, by intent: header values are text
        """Return the first value of a name, or `default`."""
        return self._first.get(name, default)

    def __contains__(self, name: object) -> bool:
        return name in self._first

    def __iter__(self) -> Iterator[str]:
        return iter(self._first)

    def __len__(self) -> int:
        return len(self._first)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Headers):
            return self.pairs == other.pairs
        return self._first == other if isinstance(other, Mapping) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.pairs)

    def shown(self, *, of_connect: bool = False) -> list[tuple[str, str]]:
        """All headers as pairs for a log, an error or a repr; secrets are masked."""
        return [
            (name, REDACTED if is_secret_header(name, of_connect=of_connect) else value) for name, value in self.pairs
        ]

    def __repr__(self) -> str:
        return f"Headers({self.shown()!r})"
