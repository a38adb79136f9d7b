"""Selectors of SUBSCRIBE: equalities joined by AND, as in ``kind = 'order' AND priority = 5``.

The whole of SQL92's conditions is the business of a real broker. What is not understood is refused, so that a test
does not pass because its selector was ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from trio_stomp.testing.refusals import Refusal

__all__ = ["Selector"]

# A name, an equals sign, a string with '' for a quote or a number; then AND or the end.
_TERM: Final = re.compile(
    r"\s*(?P<name>[A-Za-z_$][\w.$-]*)\s*=\s*(?:'(?P<text>(?:[^']|'')*)'|(?P<number>[+-]?\d+(?:\.\d+)?))\s*"
    r"(?P<more>\bAND\b|(?<=')AND\b)?",
    re.IGNORECASE | re.ASCII,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Equality:
    name: str
    text: str | None
    number: float

    def holds(self, value: str | None) -> bool:
        if value is None:
            return False
        if self.text is not None:
            return value == self.text
        try:
            return float(value) == self.number
        except ValueError:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """A condition on the headers of a message."""

    terms: Sequence[_Equality]

    @classmethod
    def parse(cls, text: str) -> Selector:
        """Read a ``selector`` header.

        Raises:
            Refusal: It is not made of equalities joined by AND.
        """
        terms: list[_Equality] = []
        position = 0
        more = True
        while more:
            found = _TERM.match(text, position)
            if found is None:
                break
            string = found["text"]
            terms.append(
                _Equality(
                    name=found["name"],
                    text=None if string is None else string.replace("''", "'"),
                    number=0.0 if string is not None else float(found["number"]),
                )
            )
            position = found.end()
            more = found["more"] is not None
        if more or position < len(text):
            raise Refusal(
                "selector not supported",
                f"this broker knows name = 'value' and name = 5, joined by AND; got {text[:80]!r}",
            )
        return cls(terms=tuple(terms))

    def matches(self, headers: Iterable[tuple[str, str]]) -> bool:
        """Whether a message with these headers is wanted; the first of repeated headers counts."""
        first: dict[str, str] = {}
        for name, value in headers:
            first.setdefault(name, value)
        return all(term.holds(first.get(term.name)) for term in self.terms)
