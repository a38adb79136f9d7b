"""Hooks that tell one function of all that is told."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager

from trio_stomp import DeliveryStatus, Hooks, Message, StompError
from trio_stomp.types import ConnectionInfo, SendCallback, Sending, Settlement

__all__ = ["EachHook"]


class EachHook(Hooks):
    """Calls a function with the name of each hook, and with "sent", "begin" and "end" for what hooks return.

    Args:
        at: The function.
    """

    def __init__(self, at: Callable[[str], object]) -> None:
        self._at = at

    def connected(self, peer: ConnectionInfo) -> None:
        self._at("connected")

    def disconnected(self, peer: ConnectionInfo, cause: StompError | None) -> None:
        self._at("disconnected")

    def sending(self, peer: ConnectionInfo, message: Sending) -> SendCallback | None:
        self._at("sending")
        return self._sent

    def _sent(self, delivery: DeliveryStatus | None, error: StompError | None) -> None:
        self._at("sent")

    def received(self, peer: ConnectionInfo, message: Message) -> None:
        self._at("received")

    def handling(self, peer: ConnectionInfo, message: Message) -> AbstractContextManager[object]:
        self._at("handling")
        return self._handling()

    @contextmanager
    def _handling(self) -> Generator[None]:
        self._at("begin")
        yield
        self._at("end")

    def settled(self, peer: ConnectionInfo, message: Message, how: Settlement, transaction: str | None) -> None:
        self._at("settled")
