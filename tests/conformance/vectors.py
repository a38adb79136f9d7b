"""Vectors: what one line of a vector file says, read with care and without guessing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

__all__ = ["Json", "Vector", "integer", "mapping", "pairs", "read_vectors", "sequence", "text"]

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """One expectation about bytes.

    Attributes:
        id: Its name in the file.
        kind: What is to be done with it, as in ``decode``.
        title: What it shows, for people.
        rows: The rows of the matrix that it touches.
        ambiguous: The texts leave it open; the expectation is the recommended decision.
        lenient: It holds when the early draft of 1.0 is read.
        fields: All of it.
        expected: Its expectation.
    """

    id: str
    kind: str
    title: str
    rows: tuple[str, ...]
    ambiguous: bool
    lenient: bool
    fields: dict[str, Json] = field(repr=False)
    expected: dict[str, Json] = field(repr=False)

    @classmethod
    def parse(cls, line: str) -> Vector:
        """Read one line of a vector file."""
        parsed: Json = json.loads(line)
        fields = mapping(parsed)
        return cls(
            id=text(fields["id"]),
            kind=text(fields["kind"]),
            title=text(fields.get("title", "")),
            rows=tuple(text(row) for row in sequence(fields.get("rows", []))),
            ambiguous=fields.get("ambiguous") is True,
            lenient=fields.get("lenient") is True,
            fields=fields,
            expected=mapping(fields["expected"]),
        )

    def octets(self, name: str) -> bytes:
        """A field written in hexadecimal; a missing one is empty."""
        return bytes.fromhex(text(self.fields.get(name, "")))


def read_vectors(path: Path) -> Iterator[Vector]:
    """The vectors of a file in its order."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip():
            yield Vector.parse(line)


def mapping(value: Json) -> dict[str, Json]:
    """The value, which must be an object."""
    if not isinstance(value, dict):
        raise TypeError(f"a vector has {value!r} where an object should be")
    return value


def sequence(value: Json) -> list[Json]:
    """The value, which must be a list."""
    if not isinstance(value, list):
        raise TypeError(f"a vector has {value!r} where a list should be")
    return value


def text(value: Json) -> str:
    """The value, which must be text."""
    if not isinstance(value, str):
        raise TypeError(f"a vector has {value!r} where text should be")
    return value


def integer(value: Json) -> int:
    """The value, which must be a whole number."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"a vector has {value!r} where a whole number should be")
    return value


def pairs(value: Json) -> list[tuple[str, str]]:
    """Header entries in order: a list of lists of two texts."""
    found: list[tuple[str, str]] = []
    for item in sequence(value):
        name, content = sequence(item)
        found.append((text(name), text(content)))
    return found
