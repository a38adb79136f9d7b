"""The doctor's look at the heart-beat: what was agreed upon, and whether it comes."""

from __future__ import annotations

from typing import Final

import trio

from trio_stomp.cli.doctor_findings import Finding, Status, Step, duration
from trio_stomp.protocol import ClientProtocol, HeartBeatTerms, Version

__all__ = ["feel_pulse"]

_CHUNK_OCTETS: Final = 4096

# `connect` gives a broker up after so many intervals; the first gap of ActiveMQ is two of them.
_INTERVALS: Final = 2.5

# Send after this part of the interval: ActiveMQ drops a client that is 40 % late.
_EARLY: Final = 2 / 3

# Nobody waits longer than this for a heart-beat that may well come.
_PATIENCE: Final = 15.0


async def feel_pulse(stream: trio.abc.Stream, protocol: ClientProtocol, terms: HeartBeatTerms) -> Finding:
    """Wait for the first heart-beat of the broker, and send our own meanwhile.

    Args:
        stream: The connection, on which nothing else is under way.
        protocol: Its session.
        terms: What was agreed upon.

    Cancellation: nothing but heart-beats was sent.
    """
    theirs, ours = terms.server_sends_seconds, terms.client_sends_seconds
    agreed = f"the broker {_every(theirs)}, this side {_every(ours)}"
    if not theirs:
        await trio.lowlevel.checkpoint()
        if protocol.version is Version.V1_0:
            why = "STOMP 1.0 has no heart-beats"
        else:
            why = "the broker, or --heart-beat, has switched them off"
        advice = (f"{why}; a connection that dies without a word is not noticed",)
        return Finding(step=Step.HEART_BEAT, status=Status.WARNING, what=agreed, advice=advice)
    patience = _INTERVALS * theirs
    if patience > _PATIENCE:
        await trio.lowlevel.checkpoint()
        return Finding(step=Step.HEART_BEAT, status=Status.OK, what=f"{agreed}; too rare to wait for one")
    started = trio.current_time()
    seen: bool | None = None
    with trio.move_on_after(patience):
        seen = await _first_octet(stream, protocol, ours)
    waited = duration(trio.current_time() - started)
    if seen:
        return Finding(step=Step.HEART_BEAT, status=Status.OK, what=f"{agreed}; the first came after {waited}")
    what = f"{agreed}; but none came within {waited}" if seen is None else f"{agreed}; but the connection ended"
    advice = ("a client gives such a connection up again and again: does a proxy hold small pieces back?",)
    return Finding(step=Step.HEART_BEAT, status=Status.FAILED, what=what, advice=advice)


def _every(seconds: float) -> str:
    return f"beats every {seconds:g} s" if seconds else "does not beat"


async def _first_octet(stream: trio.abc.Stream, protocol: ClientProtocol, interval: float) -> bool:
    """Wait until something comes; False where the connection ended before."""
    async with trio.open_nursery() as nursery:
        if interval:
            nursery.start_soon(_beat, stream, protocol, interval * _EARLY)
        try:
            seen = bool(await stream.receive_some(_CHUNK_OCTETS))
        except trio.BrokenResourceError:
            seen = False
        nursery.cancel_scope.cancel()
    return seen


async def _beat(stream: trio.abc.Stream, protocol: ClientProtocol, interval: float) -> None:
    while True:
        try:
            await stream.send_all(protocol.heart_beat())
        except trio.BrokenResourceError:
            # Whoever reads sees it, too.
            return
        await trio.sleep(interval)
