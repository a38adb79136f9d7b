"""STOMP over WebSocket: which octets go into which message.

ActiveMQ Classic takes one STOMP frame out of each message and throws the rest away, and Artemis ends a connection that
sends it more than 64 KiB in one WebSocket frame. So each STOMP frame becomes one message, and a long one goes in
several fragments. Text where it is UTF-8, because ActiveMQ Classic ignores messages of octets altogether.

Fragments do not help with a server that buffers whole messages: Tomcat closes the connection at 8 KiB, Jetty at
64 KiB. Spring, which runs on them, puts a STOMP frame together from several messages, so there a long frame goes in
several messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import trio

__all__ = ["SMALLEST_MESSAGE_OCTETS", "MessageStream", "fragments", "pieces", "stomp_frames"]

# The longest UTF-8 character, so that each piece of text is text.
SMALLEST_MESSAGE_OCTETS: Final = 4

# A character takes at most four octets: below Artemis' 65 536 with either.
_TEXT_CHARACTERS: Final = 16_000
_BINARY_OCTETS: Final = 64_000

# Spec: Repeated Header Entries: the first one counts.
_CONTENT_LENGTH: Final = re.compile(rb"^content-length:(\d+)\r?$", re.MULTILINE)


def stomp_frames(octets: bytes) -> Iterator[bytes]:
    """Take apart what was joined for writing: whole frames and heart-beats, as this library encodes them.

    Raises:
        ValueError: A frame is not whole.
    """
    start = 0
    while start < len(octets):
        if octets[start] == ord("\n"):
            yield b"\n"
            start += 1
            continue
        body = octets.index(b"\n\n", start) + 2
        length = _CONTENT_LENGTH.search(octets, start, body)
        end = octets.index(b"\0", body) if length is None else body + int(length[1])
        if octets[end : end + 1] != b"\0":
            raise ValueError(f"a frame of {end - start} octets does not end with NUL")
        yield octets[start : end + 1]
        start = end + 1


class MessageStream(trio.abc.Stream):
    """A stream that goes through messages.

    Attributes:
        message_octets: The longest message to send, with as many messages for a STOMP frame as it takes; None: each
            STOMP frame is one message.
    """

    message_octets: int | None = None


def pieces(frame: bytes, message_octets: int | None) -> list[bytes]:
    """One frame as the payloads of messages of at most that many octets, each UTF-8 if the frame is."""
    if message_octets is None or len(frame) <= message_octets:
        return [frame]
    found: list[bytes] = []
    start = 0
    while start < len(frame):
        end = min(start + message_octets, len(frame))
        # A character has at most four octets, so that one begins at one of these.
        cut = next((at for at in range(end, end - 4, -1) if at == len(frame) or not _goes_on(frame[at])), end)
        found.append(frame[start:cut])
        start = cut
    return found


def _goes_on(octet: int) -> bool:
    """Whether an octet of UTF-8 is not the first of its character."""
    return 0x80 <= octet < 0xC0  # noqa: PLR2004  # the bits 10xxxxxx, as UTF-8 has them


def fragments(frame: bytes) -> list[str] | list[bytes]:
    """One frame as the fragments of one message: text if it is UTF-8, else octets."""
    try:
        text = frame.decode()
    except UnicodeDecodeError:
        return [frame[start : start + _BINARY_OCTETS] for start in range(0, len(frame), _BINARY_OCTETS)]
    return [text[start : start + _TEXT_CHARACTERS] for start in range(0, len(text), _TEXT_CHARACTERS)]
