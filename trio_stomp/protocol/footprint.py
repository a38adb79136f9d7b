"""How much memory a decoded frame takes, from numbers that the decoder has at hand anyway.

A bound on octets of the wire is no bound on memory: a header line of four octets becomes two strings and an entry of a
dict, and one emoji makes Python keep a whole value at four octets for each character. So a frame counts for the octets
it came as, and for the objects it became. It counts as if it shared nothing with other frames; most share the
names and values that repeat, and take less.

Measured with tracemalloc on CPython 3.11, of which later versions need less; octets of memory beyond those of the wire,
for each MESSAGE that waits in a deque:

| frame | measured | counted |
|---|---|---|
| 3 headers, no body | 253 to 486 | 1,016 |
| 4 headers, no body | 570 | 1,184 |
| 22 headers: the dict has just grown | 2,946 | 4,208 |
| 403 headers with names of 4 letters | 51,954 | 68,216 |
| 403 headers with the same name | 64,973 | 68,216 |
| a value of 1,000 letters and a euro sign | 2,000 | 4,349 |
| a value of 1,000 letters and an emoji | 4,004 | 4,352 |

`tests/protocol/test_footprint.py` measures them again.
"""

from __future__ import annotations

from typing import Final

__all__ = ["HEADER_OCTETS", "MESSAGE_OCTETS", "WIDEST", "head_footprint"]

# The Frame, its Headers, the objects of its body and of this very number, a place in a deque.
MESSAGE_OCTETS: Final = 512
# Two strings, an entry of a dict that may just have grown, and, where names repeat, a pair in a tuple.
HEADER_OCTETS: Final = 168
# Octets of memory for one of the wire, in text that is not all ASCII.
WIDEST: Final = 4


def head_footprint(head: bytes, header_count: int) -> int:
    """What a frame takes but for its body.

    Args:
        head: The octets of its head, of which any may be left out that are counted elsewhere.
        header_count: How many headers they hold, repeats included.
    """
    octets = len(head) if head.isascii() else WIDEST * len(head)
    return MESSAGE_OCTETS + HEADER_OCTETS * header_count + octets
