"""The list of statements and how they are checked and printed."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from brokers_lib.probe import raw

# Most statements wait rather than compute. More at once would disturb those that measure time.
AT_ONCE = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a check saw, and whether that agrees with what was expected."""

    agrees: bool
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The running broker, as `scripts/brokers env` tells it."""

    host: str
    ports: Mapping[str, int]
    ca: Path

    def dial(self, port: str = "stomp") -> raw.Link:
        """Open a connection and say nothing."""
        return raw.dial(self.host, self.ports[port])

    def connect(self, version: str | None = "1.2", port: str = "stomp", **headers: str) -> raw.Link:
        """Open a connection and log in."""
        return raw.connect(self.host, self.ports[port], version, **headers)


Check = Callable[[Target], Seen]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """Something said of a broker: where, what, and the conversation that shows it."""

    section: str
    topic: str
    expected: str
    check: Check

    @property
    def name(self) -> str:
        """What `--only` matches, beside the topic."""
        return getattr(self.check, "__name__", "")


class Chapter:
    """Statements that belong together; used as a decorator that adds to it."""

    def __init__(self, section: str) -> None:
        self.section = section
        self.statements: list[Statement] = []

    def __call__(self, topic: str, expected: str) -> Callable[[Check], Check]:
        """Add the decorated check."""

        def add(check: Check) -> Check:
            self.statements.append(Statement(section=self.section, topic=topic, expected=expected, check=check))
            return check

        return add


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A statement and what came of it."""

    statement: Statement
    seen: Seen
    seconds: float

    def __str__(self) -> str:
        """One line: the statement, what was seen, agrees or differs."""
        statement, seen = self.statement, self.seen
        word = "agrees " if seen.agrees else "DIFFERS"
        return f"{word} [{statement.section}] {statement.topic}: expected {statement.expected}; seen: {seen.what}"


def _check(statement: Statement, target: Target) -> Verdict:
    started = time.monotonic()
    try:
        seen = statement.check(target)
    except OSError as problem:  # refused or broken off where the check did not expect it
        seen = Seen(agrees=False, what=f"{type(problem).__name__}: {problem}")
    return Verdict(statement=statement, seen=seen, seconds=time.monotonic() - started)


def run(statements: Iterable[Statement], target: Target, only: str = "") -> Iterator[Verdict]:
    """Check the statements whose topic or name matches, and yield the verdicts in order."""
    pattern = re.compile(only, re.IGNORECASE)
    wanted = [one for one in statements if pattern.search(f"{one.section} {one.topic} {one.name}")]
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        for future in [pool.submit(_check, statement, target) for statement in wanted]:
            yield future.result()
