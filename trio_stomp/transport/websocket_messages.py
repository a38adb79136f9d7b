"""STOMP over WebSocket: how frames are split into messages. Needs no extra.

ActiveMQ Classic reads one STOMP frame from each message and drops the rest, and Artemis closes a connection that sends
more than 64 KiB in one WebSocket frame. So each STOMP frame becomes one message, a long one in several fragments. It
is a text message if it is valid UTF-8, because ActiveMQ Classic ignores binary messages.

Fragments do not help with a server that buffers whole messages: Tomcat closes the connection at 8 KiB, Jetty at
64 KiB. Spring, which runs on both, assembles a STOMP frame from several messages, so a long frame is sent in several.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from trio_stomp.protocol import Secrets
from trio_stomp.runtime import ByteStream

__all__ = ["SMALLEST_MESSAGE_BYTES", "MessageStream", "fragments", "pieces", "stomp_frames"]

# The longest UTF-8 character, so that no piece of a text splits one.
SMALLEST_MESSAGE_BYTES: Final = 4

# A character has at most four bytes: both stay below the 65,536 of Artemis.
_TEXT_CHARACTERS: Final = 16_000
_BINARY_BYTES: Final = 64_000

# Spec: Repeated Header Entries: the first one counts.
_CONTENT_LENGTH: Final = re.compile(rb"^content-length:(\d+)\r?$", re.MULTILINE)


def stomp_frames(data: bytes) -> Iterator[bytes]:
    """Split what was joined for writing into frames and heart-beats, as this library encodes them.

    Raises:
        ValueError: A frame is not whole.
    """
    start = 0
    while start < len(data):
        if data[start] == ord("\n"):
            yield b"\n"
            start += 1
            continue
        body = data.index(b"\n\n", start) + 2
        length = _CONTENT_LENGTH.search(data, start, body)
        end = data.index(b"\0", body) if length is None else body + int(length[1])
        if data[end : end + 1] != b"\0":
            raise ValueError(f"a frame of {end - start} bytes does not end with NUL")
        yield data[start : end + 1]
        start = end + 1


class MessageStream(ByteStream):
    """A stream that consists of messages.

    Attributes:
        message_bytes: The longest message to send; a longer STOMP frame takes several. None: one message per frame.
        secrets: What was sent through it and no error may show.
    """

    message_bytes: int | None = None
    secrets: Secrets = Secrets()


def pieces(frame: bytes, message_bytes: int | None) -> list[bytes]:
    """One frame as the payloads of messages of at most that many bytes, each UTF-8 if the frame is."""
    if message_bytes is None or len(frame) <= message_bytes:
        return [frame]
    found: list[bytes] = []
    start = 0
    while start < len(frame):
        end = min(start + message_bytes, len(frame))
        # A character has at most four bytes, so one begins at one of these.
        cut = next((at for at in range(end, end - 4, -1) if at == len(frame) or not _goes_on(frame[at])), end)
        found.append(frame[start:cut])
        start = cut
    return found


def _goes_on(byte: int) -> bool:
    """Whether a byte of UTF-8 is not the first of its character."""
    return 0x80 <= byte < 0xC0  # noqa: PLR2004  # the bits 10xxxxxx, as UTF-8 has them


def fragments(frame: bytes) -> list[str] | list[bytes]:
    """One frame as the fragments of one message: text if it is valid UTF-8, else binary."""
    try:
        text = frame.decode()
    except UnicodeDecodeError:
        return [frame[start : start + _BINARY_BYTES] for start in range(0, len(frame), _BINARY_BYTES)]
    return [text[start : start + _TEXT_CHARACTERS] for start in range(0, len(text), _TEXT_CHARACTERS)]
