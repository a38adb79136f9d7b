"""The addresses of a host name, and the first of them that can be connected to.

As in RFC 8305, "Happy Eyeballs", but the addresses are looked up once and can be left out one by one: an address at
which something accepts connections and no STOMP broker answers must not hide the next one.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import anyio

from trio_stomp.runtime import ByteStream, connect, socket_stream
from trio_stomp.transport.diagnosis import StepFailed

__all__ = ["Address", "failure_of_all", "look_up", "open_tcp", "tcp_failure"]

# RFC 8305, "Happy Eyeballs", 5: how long one address may take before the next one is tried as well.
_NEXT_SECONDS: Final = 0.25


class Address(NamedTuple):
    """One address of a host.

    Attributes:
        family: Its family.
        sockaddr: What `socket.connect` takes.
    """

    family: socket.AddressFamily
    sockaddr: tuple[str | int | bytes, ...]

    def __str__(self) -> str:
        """The address itself, without the port."""
        return str(self.sockaddr[0])


async def look_up(host: str, port: int) -> list[Address]:
    """Return the addresses of a host, in the order in which to try them.

    Raises:
        StepFailed: The name cannot be looked up.
    """
    try:
        rows = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        why = (error.strerror or str(error)) if isinstance(error, OSError) else "it is not a valid name"
        raise StepFailed("dns", f"host name {host!r} cannot be looked up: {why}") from error
    found = list(dict.fromkeys(Address(family, tuple(sockaddr)) for family, _, _, _, sockaddr in rows))
    # RFC 8305, 4: the second one is of the other family, because a whole family may be unreachable.
    for number, address in enumerate(found):
        if address.family != found[0].family:
            found.insert(1, found.pop(number))
            break
    return found


async def open_tcp(
    addresses: Sequence[Address], failed: dict[Address, StepFailed]
) -> tuple[Address, ByteStream] | None:
    """Connect to the first address that accepts; the next one is tried too when one is slow.

    Args:
        addresses: Those to try.
        failed: Where the failures go.

    Returns:
        The address and the stream to it; None if all have failed.

    Cancellation: everything is closed.
    """
    left = addresses
    while (won := await _race(left, failed)) is not None:
        address, sock = won
        try:
            return address, await socket_stream(sock)
        except OSError as error:
            failed[address] = tcp_failure(error)
            left = [each for each in addresses if each not in failed]
    return None


async def _race(
    addresses: Sequence[Address], failed: dict[Address, StepFailed]
) -> tuple[Address, socket.socket] | None:
    """Return the first address that accepts, and the socket that is connected to it; see `open_tcp`.

    Cancellation: everything is closed.
    """
    won: list[tuple[Address, socket.socket]] = []

    async def attempt(address: Address, over: anyio.Event) -> None:
        try:
            sock = socket.socket(address.family, socket.SOCK_STREAM)
            try:
                sock.setblocking(False)  # noqa: FBT003  # its only form
                await connect(sock, address.sockaddr)
                # Two may be connected within one turn of the scheduler.
                if not won:
                    won.append((address, sock))
                    nursery.cancel_scope.cancel()
            finally:
                if not won or won[0][1] is not sock:
                    sock.close()
        except OSError as error:
            failed[address] = tcp_failure(error)
            over.set()

    is_over = False
    try:
        async with anyio.create_task_group() as nursery:
            for address in addresses:
                over = anyio.Event()
                nursery.start_soon(attempt, address, over)
                with anyio.move_on_after(_NEXT_SECONDS):
                    await over.wait()
        is_over = True
    finally:
        if won and not is_over:
            # The call was canceled just as it succeeded.
            won[0][1].close()
    return won[0] if won else None


def tcp_failure(error: OSError) -> StepFailed:
    """Explain an address that does not accept connections."""
    # The text of trio repeats the address.
    reason = str(error) if error.errno is None else os.strerror(error.errno)
    failed = StepFailed("tcp", reason, "is a broker listening there?")
    failed.__cause__ = error
    return failed


def failure_of_all(failed: Mapping[Address, StepFailed]) -> StepFailed:
    """The failure of a host, from those of its addresses.

    Of several, the text lists each. The step is that of an address at which something listens, if there is one.
    """
    if len(failed) == 1:
        return next(iter(failed.values()))
    told = min(failed.values(), key=lambda each: (not each.is_final, each.step == "tcp"))
    addresses: dict[tuple[str, str], list[str]] = {}
    for address, each in failed.items():
        addresses.setdefault((each.step, each.reason), []).append(str(address))
    reason = "; ".join(f"{', '.join(each)}: {step}: {why}" for (step, why), each in addresses.items())
    refused = told.refused if told.is_final else all(each.refused for each in failed.values())
    whole = StepFailed(told.step, reason, refused=refused, pending_step=told.pending_step)
    whole.hint, whole.is_final = told.hint, told.is_final
    whole.addresses = {str(address): each for address, each in failed.items()}
    whole.__cause__ = told.__cause__
    return whole
