"""Choosing among messages on this side, by headers and by what is in the body."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trio_stomp.cli.exit_codes import CommandFailed, ExitCode
from trio_stomp.client import Message

__all__ = ["MessageFilter"]


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """Which messages are meant.

    Attributes:
        match: Headers with the value that each must have.
        grep: What must be found in the body.
    """

    match: tuple[tuple[str, str], ...] = ()
    grep: re.Pattern[bytes] | None = None

    @classmethod
    def of(cls, match: tuple[tuple[str, str], ...], grep: str | None) -> MessageFilter:
        """The filter that the arguments ask for.

        Raises:
            CommandFailed: `grep` is no regular expression.
        """
        try:
            return cls(match, None if grep is None else re.compile(grep.encode()))
        except re.error as error:
            raise CommandFailed(f"--grep is no regular expression: {error}", ExitCode.USAGE) from error

    def __bool__(self) -> bool:
        return bool(self.match) or self.grep is not None

    def chooses(self, message: Message) -> bool:
        """Whether that message is meant."""
        return all(message.headers.get(name) == value for name, value in self.match) and (
            self.grep is None or self.grep.search(message.body) is not None
        )
