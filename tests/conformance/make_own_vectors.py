"""Write ``vectors_own.jsonl``: ``python -m tests.conformance.make_own_vectors``.

The expectations are written by hand, in the modules ``own_*``; nothing here asks the library what it does.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.conformance.own_form import Vectors
from tests.conformance.own_frames import FRAMES
from tests.conformance.own_headers import HEADERS
from tests.conformance.own_others import OTHERS

__all__ = ["TARGET", "own_vectors"]

TARGET = Path(__file__).with_name("vectors_own.jsonl")
_GROUPS: tuple[Vectors, ...] = (FRAMES, HEADERS, OTHERS)


def own_vectors() -> str:
    """All of our own vectors as the text of a vector file."""
    return "".join(json.dumps(item) + "\n" for group in _GROUPS for item in group.items)


if __name__ == "__main__":
    TARGET.write_text(own_vectors(), encoding="utf-8")
