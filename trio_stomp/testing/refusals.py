"""The exception that the broker answers with an ERROR frame."""

from __future__ import annotations

__all__ = ["Refusal"]


class Refusal(Exception):
    """The broker refuses a frame; the client gets an ERROR. As text, it is its message and its details.

    Args:
        message: The ``message`` header of the ERROR.
        details: Its body: what was expected, and what came.
        headers: More headers of the ERROR.
    """

    def __init__(self, message: str, details: str = "", *, headers: tuple[tuple[str, str], ...] = ()) -> None:
        self.message = message
        self.details = details or message
        self.headers = headers
        super().__init__(f"{message}: {details}" if details else message)
