"""Options as Spark hands them over, text under case-insensitive names, read as what they mean.

Every error names the option as the manual spells it, what was expected and what came; never the value of a secret.
"""

from __future__ import annotations

import difflib
import enum
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

__all__ = ["OptionError", "OptionReader", "UnknownOptionError"]

E = TypeVar("E", bound=enum.Enum)

# A table's options come among its properties, such as its owner, with this before their names.
_OF_TABLE: Final = "option."
# What Spark itself adds to the options of a query; it reads them, and we must not refuse them.
_SPARKS_OWN: Final = frozenset({"checkpointlocation", "queryname"})
_FLAGS: Final = {"true": True, "false": False}
_SIZES: Final = {"k": 1024, "m": 1024**2, "g": 1024**3}


class OptionError(ValueError):
    """An option cannot be meant; the text names it, what was expected and what came."""


class UnknownOptionError(OptionError):
    """There is no such option.

    Args:
        use: What the options are for, for people.
        unknown: The options that were given, of which none is known.
        known: The options that there are.
    """

    def __init__(self, use: str, unknown: Iterable[str], known: Iterable[str]) -> None:
        self.unknown = frozenset(unknown)
        self.known = frozenset(known)
        name = min(self.unknown)
        near = difflib.get_close_matches(name, (each.lower() for each in self.known), 1)
        spelled = [each for each in self.known if each.lower() in near]
        hint = f"did you mean {spelled[0]!r}?" if spelled else f"there are {', '.join(sorted(self.known))}"
        super().__init__(f"{use} has no option {name!r}; {hint}")

    @classmethod
    def to_all(cls, errors: Sequence[UnknownOptionError], use: str) -> UnknownOptionError:
        """One error for several uses, none of which takes the options.

        Args:
            errors: Theirs.
            use: What the options are for, for people.
        """
        nowhere = [name for name in errors[0].unknown if all(name in each.unknown for each in errors)]
        # Where each of the options has a use, but no use takes all of them, the last one's word stands.
        return cls(use, nowhere, [name for each in errors for name in each.known]) if nowhere else errors[-1]


class OptionReader:
    """Reads options one by one, and then refuses those that nobody has read.

    Args:
        options: What the user gave.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        lower = {name.lower(): value for name, value in options.items()}
        of_table = {name.removeprefix(_OF_TABLE): value for name, value in lower.items() if name.startswith(_OF_TABLE)}
        self._values = of_table or lower
        self._known: list[str] = []

    def _take(self, name: str) -> str | None:
        self._known.append(name)
        return self._values.get(name.lower())

    def has(self, name: str) -> bool:
        """Whether an option was given."""
        return name.lower() in self._values

    # --- kinds ----------------------------------------------------------------------------------------------------

    def text(self, name: str) -> str | None:
        """Text, not empty.

        Raises:
            OptionError: It is empty.
        """
        value = self._take(name)
        if value is not None and not value.strip():
            raise _wrong(name, "some text", repr(value))
        return value

    def required(self, name: str, example: str) -> str:
        """Text that must be there.

        Raises:
            OptionError: It is missing, or empty.
        """
        value = self.text(name)
        if value is None:
            msg = f"the option {name!r} is missing; for example .option({name!r}, {example!r})"
            raise OptionError(msg)
        return value

    def secret(self, name: str) -> str | None:
        """Text that no error may show."""
        return self._take(name)

    def flag(self, name: str, *, default: bool) -> bool:
        """True or false.

        Raises:
            OptionError: It is neither.
        """
        value = self._take(name)
        if value is None:
            return default
        if value.strip().lower() not in _FLAGS:
            raise _wrong(name, "true or false", repr(value))
        return _FLAGS[value.strip().lower()]

    def whole(self, name: str, default: int, *, least: int = 1) -> int:
        """A whole number.

        Raises:
            OptionError: It is none, or too small.
        """
        number = self.whole_or_none(name, least=least)
        return default if number is None else number

    def whole_or_none(self, name: str, *, least: int = 1) -> int | None:
        """A whole number, where one was given.

        Raises:
            OptionError: It is none, or too small.
        """
        value = self._take(name)
        if value is None:
            return None
        number = _whole(value)
        if number is None or number < least:
            raise _wrong(name, f"a whole number from {least}", repr(value))
        return number

    def octets(self, name: str, default: int) -> int:
        """A size: bytes, or with k, m or g for 1024, 1024² and 1024³.

        Raises:
            OptionError: It is none.
        """
        value = self._take(name)
        if value is None:
            return default
        plain = value.strip().lower().removesuffix("b")
        unit = _SIZES.get(plain[-1:], 1)
        number = _whole(plain[:-1] if unit > 1 else plain)
        if number is None or number < 1:
            raise _wrong(name, "a number of bytes such as 1048576, 64m or 1g", repr(value))
        return number * unit

    def seconds(self, name: str, default: float) -> float:
        """A duration, which options have in milliseconds as Spark's own do.

        Raises:
            OptionError: It is none.
        """
        value = self._take(name)
        if value is None:
            return default
        number = _whole(value)
        if number is None or number < 1:
            raise _wrong(name, "a whole number of milliseconds from 1", repr(value))
        return number / 1000

    def choice(self, name: str, kind: type[E], default: E) -> E:
        """One of the values of an enum, all of which are text.

        Raises:
            OptionError: It is none of them.
        """
        value = self._take(name)
        if value is None:
            return default
        for member in kind:
            if member.value == value.strip().lower():
                return member
        raise _wrong(name, " or ".join(str(member.value) for member in kind), repr(value))

    def headers(self, name: str, *, secret: bool = False) -> dict[str, str]:
        """Headers, as a JSON object of text: the names of options lose their case, and may hold no dots.

        Args:
            name: The option.
            secret: Whether no error may show its value.

        Raises:
            OptionError: It is no such object.
        """
        value = self._take(name)
        if value is None:
            return {}
        try:
            found: object = json.loads(value, object_pairs_hook=_JsonObject)
        except ValueError:
            found = None
        pairs = found.pairs if isinstance(found, _JsonObject) else [("", None)]
        headers = {key: text for key, text in pairs if isinstance(text, str)}
        if len(headers) < len(pairs):
            expected = 'a JSON object of text, such as {"x-expires": "60000"}'
            raise _wrong(name, expected, "something else, which is not shown" if secret else repr(value))
        return headers

    # --- the end --------------------------------------------------------------------------------------------------

    def refuse_unknown(self, use: str) -> None:
        """Refuse what was given and not read: a typing error must not pass for a default.

        Args:
            use: What the options are for, for people.

        Raises:
            UnknownOptionError: There is such an option; the text has the nearest name that there is.
        """
        unknown = self._values.keys() - {name.lower() for name in self._known} - _SPARKS_OWN
        if unknown:
            raise UnknownOptionError(use, unknown, self._known)


def _whole(text: str) -> int | None:
    plain = text.strip().replace("_", "")
    return int(plain) if plain.isascii() and plain.isdigit() else None


class _JsonObject:
    """An object of JSON as it was written: pairs, in order."""

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        self.pairs = pairs


def _wrong(name: str, expected: str, got: str) -> OptionError:
    return OptionError(f"the option {name!r} must be {expected}, got {got}")
