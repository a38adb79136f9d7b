"""A bridge into the trio thread."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.kit.ctrl_c import ctrl_c
from trio_stomp.bridge import Bridge

__all__ = ["bridge", "ctrl_c"]


@pytest.fixture
def bridge() -> Generator[Bridge]:
    opened = Bridge(grace=0.05)
    try:
        opened.start()
        yield opened
    finally:
        opened.close()
