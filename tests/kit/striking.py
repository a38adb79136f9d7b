"""Ctrl-C before any instruction of the library."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Self

import trio_stomp
from trio_stomp.runtime.interrupts import awaited, called, iterated

if TYPE_CHECKING:
    from _typeshed import TraceFunction

__all__ = ["LIBRARY", "CtrlCAt"]

LIBRARY = f"{Path(trio_stomp.__file__).parent}/"
# The other side of a test, which runs in the same process.
_TESTING = f"{LIBRARY}testing/"
# What stands for the program; by identity, as the hash of code is made of all that it consists of.
_PROGRAM = {id(function.__code__) for function in (awaited, called, iterated)}


class CtrlCAt:
    """Presses Ctrl-C before the n-th instruction that the library executes during a block, in whatever task.

    Args:
        at: That number.
        where: Only in files that begin like this.

    Attributes:
        count: How many instructions were executed before it, or in all.
        struck: Whether it was pressed.
    """

    def __init__(self, at: int, where: str = LIBRARY) -> None:
        self._at = at
        self._where = where
        self._before: TraceFunction | None = None
        # Whether the instructions of a file count. This is asked at each call of any function.
        self._counts: dict[str, bool] = {}
        self.count = 0
        self.struck = False

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.settrace(self._before)

    def _call(self, frame: FrameType, _event: str, _arg: object) -> TraceFunction | None:
        file = frame.f_code.co_filename
        counts = self._counts.get(file)
        if counts is None:
            counts = self._counts[file] = file.startswith(self._where) and not file.startswith(_TESTING)
        if not counts or self.struck or id(frame.f_code) in _PROGRAM:
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self._step

    def _step(self, _frame: FrameType, event: str, _arg: object) -> TraceFunction | None:
        if event == "opcode" and not self.struck:
            self.count += 1
            if self.count >= self._at:
                self.struck = True
                sys.settrace(self._before)
                signal.raise_signal(signal.SIGINT)
        return self._step
