"""The values of options that click does not know: headers, heart-beats, durations.

They are functions and not subclasses of `click.ParamType`, which is a generic class in some versions of click only.
"""

from __future__ import annotations

from typing import Final

import click

__all__ = ["SECONDS", "header_of", "heart_beat_of", "match_of"]

SECONDS: Final = click.FloatRange(min=0, min_open=True)


def header_of(value: str | tuple[str, str]) -> tuple[str, str]:
    """A header, as ``name:value``; spaces around both are not part of them."""
    return _split(value, ":", "NAME:VALUE")


def match_of(value: str | tuple[str, str]) -> tuple[str, str]:
    """What a header must be, as ``name=value``."""
    return _split(value, "=", "NAME=VALUE")


def heart_beat_of(value: str | tuple[float, float]) -> tuple[float, float]:
    """Heart-beats in seconds, as ``send,receive``."""
    if isinstance(value, tuple):
        return value
    try:
        send, receive = map(float, value.split(","))
    except ValueError:
        msg = f"expected two numbers of seconds, as in 10,10 (0 switches one off), got {value!r}"
        raise click.BadParameter(msg) from None
    return send, receive


def _split(value: str | tuple[str, str], separator: str, expected: str) -> tuple[str, str]:
    # click converts a default, too, and what it has converted already.
    if isinstance(value, tuple):
        return value
    name, found, rest = value.partition(separator)
    if not found or not name.strip():
        raise click.BadParameter(f"expected {expected}, got {value!r}")
    return name.strip(), rest.strip()
