"""Headers of a frame: an ordered multi-map in which the first of repeated entries counts.

Spec: "Repeated Header Entries" (1.1 and 1.2): "only the first header entry SHOULD be used as the value of header
entry". Later ones are kept, so that a relay or a test can see them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from typing_extensions import TypeIs

__all__ = ["HeaderPairs", "Headers"]

HeaderPairs = Iterable[tuple[str, str]]

# The headers that are never shown in a log, a repr or an error.
SECRET_NAMES: Final = frozenset({"passcode", "password", "authorization", "ssl-key-password"})
REDACTED: Final = "[redacted]"


def _is_mapping(entries: Mapping[str, str] | HeaderPairs) -> TypeIs[Mapping[str, str]]:
    return isinstance(entries, Mapping)


class Headers(Mapping[str, str]):
    """Headers in the order of the wire; a lookup gives the first of repeated entries.

    Args:
        entries: Pairs in order, repeats allowed, or a mapping.
        unique: In place of entries, a dict that does not change any more: it is wrapped, not copied.
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
        """All entries in the order of the wire, repeats included."""
        return tuple(self._first.items()) if self._pairs is None else self._pairs

    def get_all(self, name: str) -> tuple[str, ...]:
        """All values of one name in the order of the wire: the first is the one in force."""
        return tuple(value for key, value in self.pairs if key == name)

    def has_all(self, names: frozenset[str]) -> bool:
        """Whether all of `names` are there."""
        return self._first.keys() >= names

    def first(self) -> dict[str, str]:
        """The entries in force, as a new dict."""
        return dict(self._first)

    def __getitem__(self, name: str) -> str:
        return self._first[name]

    # Mapping's own get() and __contains__ go through an exception; these are on the path of each message.
    def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]  # narrower default, by intent: header values are text
        """Return the value in force, or `default`."""
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

    def __repr__(self) -> str:
        shown = [(name, REDACTED if name.lower() in SECRET_NAMES else value) for name, value in self.pairs]
        return f"Headers({shown!r})"
