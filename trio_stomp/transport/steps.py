"""The steps of an attempt to connect: where it stands, and why it failed there."""

from __future__ import annotations

from typing import Final

from trio_stomp.transport.urls import Endpoint, Transport

__all__ = ["IF_PLAIN", "StepFailed", "Steps", "reasons_of"]

# A server that does not speak TLS often closes the connection, or says nothing.
IF_PLAIN: Final = "is this its plain STOMP port? Then try stomp://, or its port for TLS, usually 61614"

# What a silence means, at each step; the text for "connect" depends on what was asked.
_SILENCE: Final = {
    "tcp": "; are host and port right, and does a firewall drop the packets?",
    "credentials": "; the function given as credentials= has not returned",
    "proxy": "; is it a proxy of that kind, and can it reach the broker?",
    "tls": f"; {IF_PLAIN}. A plain port waits silently for a frame",
    "websocket": "; is this the broker's plain STOMP port? It waits silently for a frame",
}


class StepFailed(Exception):
    """One attempt failed; carried to where the attempts are counted.

    Attributes:
        step: The step, as in `ConnectFailure`.
        reason: What was seen and what to do, for people.
        refused: The credentials were refused: another attempt with the same ones will not help.
    """

    def __init__(self, step: str, reason: str, *, refused: bool = False) -> None:
        super().__init__(reason)
        self.step = step
        self.reason = reason
        self.refused = refused


class Steps:
    """How far an attempt has come.

    Args:
        endpoint: The host.
        tls: Whether TLS is asked for.

    Attributes:
        current: The step that it is at.
    """

    def __init__(self, endpoint: Endpoint, *, tls: bool) -> None:
        self._endpoint = endpoint
        self._tls = tls
        self.current = "unix" if endpoint.transport is Transport.UNIX else "tcp"

    def timed_out(self, timeout: float) -> StepFailed:
        """The failure of an attempt that still stands at this step after so many seconds."""
        hint = _SILENCE.get(self.current) or _silent_broker(self._endpoint, tls=self._tls)
        reason = f"no answer within {timeout:g} s (connect_timeout) at this step: {self.current}{hint}"
        return StepFailed("timeout", reason)


def _silent_broker(endpoint: Endpoint, *, tls: bool) -> str:
    if endpoint.transport is Transport.WEBSOCKET:
        return "; is a STOMP broker behind that WebSocket?"
    if endpoint.transport is Transport.UNIX:
        return "; is the socket that of a STOMP broker?"
    if tls:
        return "; is the port a STOMP port?"
    return "; is the port a STOMP port without TLS? A TLS port waits silently for TLS"


def reasons_of(error: OSError) -> str:
    """Why no address of a host answered; trio puts one error for each address into a group behind the one it raises."""
    members: tuple[object, ...] = getattr(error.__cause__, "exceptions", ())
    errors = [member for member in members if isinstance(member, OSError)] or [error]
    return ", ".join(sorted({each.strerror or str(each) for each in errors}))
