"""The clients of a process, when it is forked or its interpreter exits."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from trio_stomp.bridge import EXIT_SECONDS, begin_exit
from trio_stomp.errors import ConnectionClosed, StompError

if TYPE_CHECKING:
    from trio_stomp.blocking.client import OpenClient

__all__ = ["process"]

logger: Final = logging.getLogger("trio_stomp")


class Process:
    """What all clients of this process share.

    Attributes:
        clients: Those that are open, and some that are closed.
        lock: Held while a client is opened again after a fork.
        abandoned: What leaves the connections of the process that this one was forked from. It is never called, and
            never garbage.
    """

    def __init__(self) -> None:
        self.clients: weakref.WeakSet[OpenClient] = weakref.WeakSet()
        self.lock = threading.Lock()
        self.abandoned: list[ExitStack] = []

    def forked(self) -> None:
        """Leave everything to the process that this one was forked from."""
        # Another thread of that process may hold the old one.
        self.lock = threading.Lock()
        for client in self.clients:
            client.abandon()

    def exit(self) -> None:
        """Close the clients that the program has not closed: the interpreter exits."""
        begin_exit()
        clients = list(self.clients)
        for client in clients:
            client.expire()
        for client in clients:
            try:
                client.close_at_exit()
            except ConnectionClosed:
                logger.warning(
                    "a client was still open when the interpreter exited, and did not close within %g s; what it had "
                    "not sent by then is lost; call close()",
                    EXIT_SECONDS,
                )
            except StompError as error:
                logger.warning("a client was still open when the interpreter exited, and closing it failed: %s", error)


process: Final = Process()
atexit.register(process.exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=process.forked)
