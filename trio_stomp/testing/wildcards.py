"""Wildcards in the names of topics to which clients subscribe, each kind as its broker has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Pattern", "Wildcards"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wildcards:
    """The wildcards of a broker. Words are separated by dots.

    Attributes:
        word: Stands for one word.
        words: Stands for any number of words, none included, wherever it is.
        rest: Stands for any number of words, none included, at the end of a name.
    """

    word: str = "*"
    words: str | None = None
    rest: str | None = None

    def pattern(self, name: str) -> Pattern | None:
        """The pattern that a subscription to `name` asks for; None where the name has no wildcards."""
        prefix, parts = _words(name)
        steps: list[str | int] = []
        for number, part in enumerate(parts, 1):
            if part == self.words or (part == self.rest and number == len(parts)):
                steps.append(_ANY)
            else:
                steps.append(_ONE if part == self.word else part)
        if all(isinstance(step, str) for step in steps):
            return None
        return Pattern(prefix=prefix, steps=tuple(steps))


_ONE = 1
_ANY = 2


def _words(name: str) -> tuple[str, list[str]]:
    """``/topic/a.b`` -> ``/topic/`` and its words."""
    end = name.find("/", 1) + 1
    return name[:end], name[end:].split(".")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A name with wildcards.

    Attributes:
        prefix: What the name begins with: ``/topic/``.
        steps: For each word the word itself, or which wildcard it is.
    """

    prefix: str
    steps: Sequence[str | int]

    def matches(self, name: str) -> bool:
        """Whether a topic has such a name."""
        prefix, words = _words(name)
        if prefix != self.prefix:
            return False
        # Greedy, and back to the last _ANY alone: an earlier one could do no better.
        steps, at, position, last, resume = self.steps, 0, 0, -1, 0
        while position < len(words):
            step = steps[at] if at < len(steps) else None
            if step == _ANY:
                last, resume = at, position
                at += 1
            elif step in (_ONE, words[position]):
                at += 1
                position += 1
            elif last >= 0:
                resume += 1
                at, position = last + 1, resume
            else:
                return False
        return all(step == _ANY for step in steps[at:])
