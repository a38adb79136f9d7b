"""Options from Spark: text under case-insensitive names, converted to their types.

Every error names the option as the manual spells it, the expected value and the actual one, but never a secret.
"""

from __future__ import annotations

import difflib
import enum
import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, TypeVar

__all__ = ["OptionError", "OptionReader", "UnknownOptionError"]

E = TypeVar("E", bound=enum.Enum)

# The options of a table are among its properties, such as its owner, with this prefix.
_OF_TABLE: Final = "option."
# Options that Spark itself adds to a query and reads. They must not be refused.
_SPARKS_OWN: Final = frozenset({"checkpointlocation", "queryname"})
_FLAGS: Final = {"true": True, "false": False}
_SIZES: Final = {"k": 1024, "m": 1024**2, "g": 1024**3}
# How similar a name must be to that of a missing option: more than 'subscribeHeaders' is to 'subscribe', or
# 'spoolOptions' to 'spoolLocation'.
_MISSPELLED: Final = 0.85
# Options of other sources, above all of Kafka's, and other words for some, in lower case.
_ELSEWHERE: Final = {
    "kafka.bootstrap.servers": "name the brokers with 'brokers'",
    "assign": "name the destinations with 'subscribe'",
    "subscribepattern": "STOMP cannot list destinations: name them with 'subscribe', several as a JSON array",
    "topic": "the sink is told with 'destination', and the source with 'subscribe'",
    "startingoffsets": "a batch has no offsets: it takes what the destination has, from its oldest message on",
    "endingoffsets": "a destination does not tell its end: a read ends when nothing has come for 'idleTimeoutMs'",
    "startingtimestamp": "a destination cannot be read from a time on: its oldest message comes first",
    "groupidprefix": "there are no groups: whoever subscribes to a queue shares its messages",
    "kafka.group.id": "there are no groups: whoever subscribes to a queue shares its messages",
    "maxrowspertrigger": "did you mean 'maxOffsetsPerTrigger'?",
    "minrowspertrigger": "did you mean 'minOffsetsPerTrigger'?",
    "url": "name the brokers with 'brokers'",
    "port": "name the brokers with 'brokers', such as stomp://host:61613",
    "user": "did you mean 'login'?",
    "username": "did you mean 'login'?",
    "queue": "the source is told with 'subscribe', and the sink with 'destination'",
}


class OptionError(ValueError):
    """An option is invalid. The text has its name, the expected value and the actual one."""


class UnknownOptionError(OptionError):
    """There is no such option.

    Args:
        use: The purpose of the options, for the error.
        unknown: The unknown options that were given.
        known: All options that exist.
    """

    def __init__(self, use: str, unknown: Iterable[str], known: Iterable[str]) -> None:
        self.unknown = frozenset(unknown)
        self.known = frozenset(known)
        name = min(self.unknown)
        near = difflib.get_close_matches(name, (each.lower() for each in self.known), 1)
        spelled = [each for each in self.known if each.lower() in near]
        hint = f"did you mean {spelled[0]!r}?" if spelled else f"there are {', '.join(sorted(self.known))}"
        hint = _ELSEWHERE.get(name, hint)
        super().__init__(f"{use} has no option {name!r}; {hint}")

    @classmethod
    def to_both(cls, batch: UnknownOptionError, stream: UnknownOptionError, use: str) -> OptionError:
        """Return one error for the two of batch reads and streams, if neither accepts the options."""
        nowhere = batch.unknown & stream.unknown
        if nowhere:
            return cls(use, nowhere, batch.known | stream.known)
        only_batch = _spelled(stream.unknown, batch.known)
        only_stream = _spelled(batch.unknown, stream.known)
        return OptionError(
            f"the options {only_batch} (batch reads only) and {only_stream} (streams only) cannot be used together"
        )


class OptionReader:
    """Reads options one by one, and then refuses those that were not read.

    Each method that reads an option raises `OptionError` if its value is invalid.
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
        """Read text that is not empty."""
        value = self._take(name)
        if value is not None and not value.strip():
            raise _wrong(name, "some text", repr(value))
        return value

    def required(self, name: str, example: str) -> str:
        """Read text that is required."""
        value = self.text(name)
        if value is None:
            given = self._given_for(name)
            hint = f"did you mean it by {given!r}?" if given else f"for example .option({name!r}, {example!r})"
            msg = f"the option {name!r} is missing; {hint}"
            raise OptionError(msg)
        return value

    def _given_for(self, missing: str) -> str | None:
        """Return the given option that may be a missing one, misspelled or as other sources call it."""
        others = [given for given in self._values if repr(missing) in _ELSEWHERE.get(given, "")]
        near = difflib.get_close_matches(missing.lower(), self._values, 1, _MISSPELLED)
        return next(iter([*near, *others]), None)

    def secret(self, name: str) -> str | None:
        """Read text that no error may show."""
        return self._take(name)

    def flag(self, name: str, *, default: bool) -> bool:
        """Read true or false."""
        value = self._take(name)
        if value is None:
            return default
        if value.strip().lower() not in _FLAGS:
            raise _wrong(name, "true or false", repr(value))
        return _FLAGS[value.strip().lower()]

    def whole(self, name: str, default: int, *, least: int = 1) -> int:
        """Read an integer."""
        number = self.whole_or_none(name, least=least)
        return default if number is None else number

    def whole_or_none(self, name: str, *, least: int = 1) -> int | None:
        """Read an integer if one was given."""
        value = self._take(name)
        if value is None:
            return None
        number = _whole(value)
        if number is None or number < least:
            raise _wrong(name, f"a whole number from {least}", repr(value))
        return number

    def size(self, name: str, default: int) -> int:
        """Read a size in bytes, or with k, m or g for 1024, 1024² and 1024³."""
        number = self.size_or_none(name)
        return default if number is None else number

    def size_or_none(self, name: str) -> int | None:
        """Read a size if one was given; see `size`."""
        value = self._take(name)
        if value is None:
            return None
        plain = value.strip().lower().removesuffix("b")
        unit = _SIZES.get(plain[-1:], 1)
        number = _whole(plain[:-1] if unit > 1 else plain)
        if number is None or number < 1:
            raise _wrong(name, "a number of bytes such as 1048576, 64m or 1g", repr(value))
        return number * unit

    def seconds(self, name: str, default: float, *, least: int = 1) -> float:
        """Read a duration. Options have milliseconds, as those of Spark do."""
        value = self._take(name)
        if value is None:
            return default
        number = _whole(value)
        if number is None or number < least:
            raise _wrong(name, f"a whole number of milliseconds from {least}", repr(value))
        return number / 1000

    def choice(self, name: str, kind: type[E], default: E) -> E:
        """Read one of the values of an enum of strings."""
        value = self._take(name)
        if value is None:
            return default
        for member in kind:
            if member.value == value.strip().lower():
                return member
        raise _wrong(name, " or ".join(str(member.value) for member in kind), repr(value))

    def headers(
        self, name: str, *, secret: bool = False, reserved: Mapping[str, str] = MappingProxyType({})
    ) -> dict[str, str]:
        """Read headers from a JSON object of strings. Names of options lose their case, so they could not hold headers.

        Args:
            name: The option.
            secret: Whether no error may show its value.
            reserved: The headers that must not be among them, and for each what to do instead.

        Raises:
            OptionError: It is not such an object, or has a header that is reserved.
        """
        headers = self.pairs(name, '{"x-expires": "60000"}', secret=secret)
        for header in sorted(headers.keys() & reserved.keys()):
            raise OptionError(f"the option {name!r} has the header {header!r}; {reserved[header]}")
        return headers

    def pairs(self, name: str, example: str, *, secret: bool = False) -> dict[str, str]:
        """Read a JSON object of strings.

        Args:
            name: The option.
            example: What it may be.
            secret: Whether no error may show its value.

        Raises:
            OptionError: It is not such an object.
        """
        value = self._take(name)
        if value is None:
            return {}
        try:
            found: object = json.loads(value, object_pairs_hook=_JsonObject)
        except ValueError:
            found = None
        pairs = found.pairs if isinstance(found, _JsonObject) else [("", None)]
        texts = {key: text for key, text in pairs if isinstance(text, str)}
        if len(texts) < len(pairs):
            expected = f"a JSON object of text, such as {example}"
            raise _wrong(name, expected, "something else, which is not shown" if secret else repr(value))
        return texts

    # --- the end --------------------------------------------------------------------------------------------------

    def refuse_unknown(self, use: str) -> None:
        """Refuse options that were not read: with a typing error, a default must not be used silently.

        Raises:
            UnknownOptionError: There are such options; the text suggests the most similar names.
        """
        unknown = self._values.keys() - {name.lower() for name in self._known} - _SPARKS_OWN
        if unknown:
            raise UnknownOptionError(use, unknown, self._known)


def _spelled(names: Iterable[str], known: Iterable[str]) -> str:
    """Return names that are in lower case as the manual spells them, for an error."""
    lower = frozenset(names)
    return ", ".join(repr(each) for each in sorted(known) if each.lower() in lower)


def _whole(text: str) -> int | None:
    plain = text.strip().replace("_", "")
    return int(plain) if plain.isascii() and plain.isdigit() else None


class _JsonObject:
    """A JSON object as it was written: pairs, in order."""

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        self.pairs = pairs


def _wrong(name: str, expected: str, got: str) -> OptionError:
    return OptionError(f"the option {name!r} must be {expected}, got {got}")
