"""Settings of the pipeline's job, for tests to replace what they need."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pipeline.settings import JobSettings

__all__ = ["SETTINGS"]

SETTINGS: Final = JobSettings(
    url="stomp://127.0.0.1:1",
    login="guest",
    passcode="s3cret",
    vhost="",
    queue="/queue/a",
    alerts="/queue/b",
    folder=Path("nowhere"),
    total=5,
    late_minutes=60,
    master="local[2]",
    rate=100,
)
