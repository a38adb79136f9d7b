"""A disk that is full, as far as this process can tell."""

from __future__ import annotations

import resource
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["file_size_limit"]


@contextmanager
def file_size_limit(size: int) -> Generator[None]:
    """Let no file grow beyond a size, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
