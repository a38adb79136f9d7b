"""A receiver in a process of its own, for sources with more than one of them: one Python has one core.

It reads its options from standard input, because other users of the machine cannot see a passcode there, and ends when
that is closed. So it never outlives the process that started it. It reports on standard output, one JSON object per
line.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import BinaryIO, Final

from trio_stomp.spark.receiver import ReceiverOptions, ReceiverThread, Report

__all__ = ["ReceiverFailed", "ReceiverProcess", "main"]

# Not with -m: the package also imports this module, and it would exist twice.
_MAIN: Final = "import sys; from trio_stomp.spark.receiver_process import main; sys.exit(main())"
_COMMAND: Final = (sys.executable, "-c", _MAIN)
_STOP_SECONDS: Final = 5.0


class ReceiverFailed(RuntimeError):
    """A receiver process has ended; the text is its error."""


class ReceiverProcess:
    """A receiver in another process, with the methods and arguments of `ReceiverThread`."""

    def __init__(self, options: ReceiverOptions, report: Report, failed: Callable[[Exception], None]) -> None:
        self._report = report
        self._failed = failed
        self._stopping = False
        self._process = subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603  # a constant
        self._thread = threading.Thread(target=self._listen, name="trio_stomp receiver process", daemon=True)
        self._thread.start()
        self._tell(base64.b64encode(pickle.dumps(options)) + b"\n")

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def _tell(self, line: bytes) -> None:
        if self._process.stdin is None:
            raise AssertionError  # it was started with a pipe
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except BrokenPipeError:
            # It has died; the thread that reads its output reports that.
            return

    def _listen(self) -> None:
        if self._process.stdout is None:
            raise AssertionError  # it was started with a pipe
        reason = ""
        with self._process.stdout as output:
            for line in output:
                try:
                    found: object = json.loads(line)
                except ValueError:
                    # It was killed as it wrote.
                    found = line
                match found:
                    case {"wrote": int(last), "shard": str(shard)}:
                        self._report.wrote(shard, last)
                    case {"idle": True}:
                        self._report.idle()
                    case {"failed": str(said)}:
                        reason = said
                    case _:
                        reason = f"it said {found!r}"
        status = self._process.wait()
        if not self._stopping:
            self._failed(ReceiverFailed(_end(status, reason)))

    def stop(self) -> None:
        """Begin to stop it; does not wait."""
        self._stopping = True
        if self._process.stdin is not None:
            try:
                self._process.stdin.close()
            except BrokenPipeError:
                return

    def join(self, timeout: float) -> bool:
        """Wait until it has ended; return whether it has."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            self._process.kill()
            self._thread.join(timeout)
        return not self._thread.is_alive()


def _end(status: int, reason: str) -> str:
    """Describe how a receiver process has ended: its status is negative for a signal, and its reason may be empty."""
    if status >= 0:
        said = reason or "it reported no reason; see the log of the driver"
        return f"a receiver process has ended with status {status}: {said}"
    name = next((each.name for each in signal.Signals if each == -status), "unknown")
    reason = reason or ("perhaps because memory ran out" if name == "SIGKILL" else "see the log of the driver")
    return f"a receiver process was killed by signal {-status} ({name}), {reason}"


class _Speaker:
    """Reports to the process that started this one."""

    def __init__(self, output: BinaryIO) -> None:
        self._output = output
        self._lock = threading.Lock()

    def say(self, **values: object) -> None:
        """Write a line."""
        with self._lock:
            self._output.write(json.dumps(values).encode() + b"\n")
            self._output.flush()

    def wrote(self, shard: str, last: int) -> None:
        """Rows of the shard up to this one are in the spool, and acknowledged."""
        self.say(wrote=last, shard=shard)

    def idle(self) -> None:
        """No message has arrived for a while."""
        self.say(idle=True)


def main() -> int:
    """Receive until standard input is closed; return the exit status."""
    # Nothing else may write there, such as a print() in a library.
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    speaker = _Speaker(output)
    options: object = pickle.loads(base64.b64decode(sys.stdin.buffer.readline()))  # noqa: S301  # from our own parent
    if not isinstance(options, ReceiverOptions):
        speaker.say(failed="it was not told what to do")
        return 1
    failures: list[Exception] = []

    def failed(failure: Exception) -> None:
        failures.append(failure)
        # The parent waits for the end of this process, and this process for the end of its input.
        speaker.say(failed=f"{type(failure).__name__}: {failure}")
        output.close()
        os._exit(1)

    receiver = ReceiverThread(options, speaker, failed)
    sys.stdin.buffer.read()
    receiver.stop()
    receiver.join(_STOP_SECONDS)
    return 0
