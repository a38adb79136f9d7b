"""Whether this is the compiled package: the same modules, its busiest ones compiled by mypyc."""

from __future__ import annotations

from types import FunctionType
from typing import Final

from trio_stomp.protocol.encoder import encode_frame

__all__ = ["COMPILED"]

# Asked of a function rather than of file names: those say how it was installed, not what runs.
COMPILED: Final = not isinstance(encode_frame, FunctionType)
