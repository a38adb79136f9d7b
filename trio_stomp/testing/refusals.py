"""What the broker answers with an ERROR frame."""

from __future__ import annotations

__all__ = ["Refusal"]


class Refusal(Exception):
    """A frame asks for something that this broker does not do; the client gets an ERROR.

    Args:
        message: A few words for the ``message`` header of the ERROR.
        details: What was expected and what came, for its body.
        headers: Further headers of the ERROR.
    """

    def __init__(self, message: str, details: str = "", *, headers: tuple[tuple[str, str], ...] = ()) -> None:
        self.message = message
        self.details = details or message
        self.headers = headers
        super().__init__(message)
