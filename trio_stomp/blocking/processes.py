"""What the blocking clients of one process share: the loop's thread, and what happens at a fork and at exit."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from typing import Final, Protocol

from trio_stomp.blocking.thread import Call, LoopThread
from trio_stomp.errors import ConnectionClosed, StompError

__all__ = ["EXIT_SECONDS", "process"]

logger: Final = logging.getLogger("trio_stomp")

# A client that is still open when the interpreter exits has this many seconds to send the rest and to disconnect.
EXIT_SECONDS: Final = 2.0


class _Open(Protocol):
    """A client that is open, as far as this module is concerned."""

    def abandon(self) -> None:
        """Leave the connection to the process that this one was forked from."""

    def begin_exit(self) -> Call[None] | None:
        """Begin to close it, within `EXIT_SECONDS`."""


class _Process:
    """The blocking clients of this process.

    Attributes:
        abandoned: What belongs to the process that this one was forked from. Its sockets are that process's too:
            nothing may close them in an orderly way here, not even the garbage collector.
    """

    def __init__(self) -> None:
        # Not a WeakSet: Python calls its functions when a client is freed, and drops a Ctrl-C that comes in them.
        self._clients: set[weakref.ref[_Open]] = set()
        self.abandoned: list[object] = []
        self._thread = LoopThread()
        self._exits = False

    @property
    def thread(self) -> LoopThread:
        """The thread of this process."""
        if self._thread.is_over:
            self._thread = LoopThread()
        return self._thread

    def remember(self, client: _Open) -> None:
        """Add a client, which is about to be opened."""
        self._clients.add(weakref.ref(client, self._clients.discard))

    def _known(self) -> list[_Open]:
        return [client for each in list(self._clients) if (client := each()) is not None]

    def forked(self) -> None:
        """Leave everything to the process that this one was forked from."""
        self._thread.forked = True
        self.abandoned.append(self._thread)
        self._thread = LoopThread()
        for client in self._known():
            client.abandon()

    def exit(self) -> None:
        """Close the clients that the program has not closed: the interpreter exits."""
        self._exits = True
        calls = [call for each in self._known() if (call := each.begin_exit()) is not None]
        for call in calls:
            # A moment more than the call itself takes.
            call.wait(self._thread, EXIT_SECONDS + 1)
            try:
                call.result()
            except ConnectionClosed:
                logger.warning(
                    "a client was still open when the interpreter exited, and did not close within %g s; what it had "
                    "not sent by then is lost; call close()",
                    EXIT_SECONDS,
                )
            except StompError as error:
                logger.warning("a client was still open when the interpreter exited, and closing it failed: %s", error)

    def halt_daemon(self) -> None:
        """Stop this thread for good if it is a daemon thread and the interpreter exits.

        A daemon thread that waits for a message is not to print a traceback because the client is closed at exit.
        """
        if self._exits and threading.current_thread().daemon and not self._thread.is_current:
            threading.Event().wait()


process: Final = _Process()
atexit.register(process.exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=process.forked)
