"""Docstrings that explain an argument once, for several functions that have it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

__all__ = ["with_arguments_of"]

P = ParamSpec("P")
T = TypeVar("T")


def with_arguments_of(source: object) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function whose docstring explains only what differs: the other arguments are explained as in `source`.

    They come in the order of the signature.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        before, own, after = _parted(inspect.getdoc(function) or "")
        explained = {**_parted(inspect.getdoc(source) or "")[1], **own}
        listed = [explained[name] for name in inspect.signature(function).parameters if name in explained]
        function.__doc__ = f"{before}{_ARGS}{''.join(listed)}{after}"
        return function

    return decorate


_ARGS: Final = "Args:\n"


def _parted(doc: str) -> tuple[str, dict[str, str], str]:
    """A docstring as what comes before its arguments, the explanations of these by name, and what comes after."""
    before, _, rest = doc.partition(_ARGS)
    listed, blank, after = rest.partition("\n\n")
    entries = {
        found[1]: found[0] for found in re.finditer(r"^    (\w+):.*\n(?: {8}.*\n)*", f"{listed}\n", re.MULTILINE)
    }
    return before, entries, blank[1:] + after
