"""The doctor's first two steps: from a name to addresses, and from an address to an open connection."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import trio

from trio_stomp.cli.doctor_findings import Finding, Status, Step, duration
from trio_stomp.cli.doctor_target import Target

__all__ = ["Internet", "Network", "Reached", "look_up", "reach"]

# Where STOMP is usually spoken: plain, and over TLS.
_USUAL_PORTS: Final = (61613, 61614)

# Seconds for a look at another port; it is asked out of courtesy alone.
_GLANCE: Final = 1.0


class Network(Protocol):
    """What the doctor needs of a network; tests bring another."""

    async def resolve(self, host: str, port: int) -> list[str]:
        """The addresses of a host, in the order in which to try them."""
        ...

    async def open(self, address: str, port: int) -> trio.abc.Stream:
        """Connect to one of them."""
        ...


class Internet:
    """The real network."""

    async def resolve(self, host: str, port: int) -> list[str]:
        """The addresses of a host, in the order in which to try them.

        Raises:
            OSError: It has none.

        Cancellation: nothing is left behind.
        """
        found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))

    async def open(self, address: str, port: int) -> trio.abc.Stream:
        """Connect to one of them.

        Raises:
            OSError: It does not answer, or says no.

        Cancellation: nothing is left behind.
        """
        return await trio.open_tcp_stream(address, port)


@dataclass(frozen=True, slots=True)
class Reached:
    """An open connection.

    Attributes:
        stream: The connection.
        address: What it leads to; a second look goes there, too.
    """

    stream: trio.abc.Stream
    address: str


async def look_up(target: Target, network: Network) -> tuple[Finding, list[str]]:
    """Find the addresses of a host.

    Cancellation: nothing is left behind.
    """
    if _is_address(target.host):
        await trio.lowlevel.checkpoint()
        what = f"{target.host} is an address; there is nothing to look up"
        return Finding(step=Step.DNS, status=Status.SKIPPED, what=what), [target.host]
    started = trio.current_time()
    try:
        with trio.fail_after(target.timeout):
            addresses = await network.resolve(target.host, target.port)
    except trio.TooSlowError:
        what = f"no answer about {target.host!r} within {duration(target.timeout)}"
        return _failed(Step.DNS, what, "the name servers do not answer: is this machine connected?"), []
    except UnicodeError:
        return _failed(Step.DNS, f"{target.host!r} is no host name", "check how it is written"), []
    except OSError as error:
        what = f"{target.host!r} cannot be looked up: {error.strerror or error}"
        return _failed(Step.DNS, what, *_dns_advice(error)), []
    took = duration(trio.current_time() - started)
    what = f"{target.host} is {', '.join(addresses)} ({took})"
    return Finding(step=Step.DNS, status=Status.OK, what=what), addresses


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _dns_advice(error: OSError) -> list[str]:
    if isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN:
        return ["the name servers do not answer: try again, and look at the network of this machine"]
    return [
        "check the spelling; a name from inside a container or a cluster is known only there",
        "an address in place of the name shows whether all else works",
    ]


async def reach(target: Target, addresses: Sequence[str], network: Network) -> tuple[Finding, Reached | None]:
    """Connect to the first address that answers.

    Cancellation: what was opened is closed.
    """
    refusals: list[tuple[str, OSError | None]] = []
    for address in addresses:
        started = trio.current_time()
        stream: trio.abc.Stream | None = None
        error: OSError | None = None
        with trio.move_on_after(target.timeout):
            try:
                stream = await network.open(address, target.port)
            except OSError as caught:
                error = _innermost(caught)
        if stream is None:
            refusals.append((address, error))
            continue
        took = duration(trio.current_time() - started)
        what = f"{address} port {target.port} accepts connections ({took})"
        if not refusals:
            return Finding(step=Step.TCP, status=Status.OK, what=what), Reached(stream, address)
        what += f"; but {_all(refusals, target)}"
        why = "the broker listens on one of its host's addresses only; each new connection tries the others first"
        return Finding(step=Step.TCP, status=Status.WARNING, what=what, advice=(why,)), Reached(stream, address)
    advice = [_tcp_advice(refusals[-1][1]), *await _neighbours(target, addresses[-1], network)]
    return _failed(Step.TCP, _all(refusals, target), *advice), None


def _innermost(error: OSError) -> OSError:
    # trio raises one error for all attempts, with each attempt's own in a group behind it.
    members: tuple[object, ...] = getattr(error.__cause__, "exceptions", ())
    return next((member for member in members if isinstance(member, OSError)), error)


def _all(refusals: Sequence[tuple[str, OSError | None]], target: Target) -> str:
    return ", ".join(
        f"{address} port {target.port}: "
        + (f"no answer within {duration(target.timeout)}" if error is None else _reason(error))
        for address, error in refusals
    )


def _reason(error: OSError) -> str:
    # trio's own text repeats the address.
    return str(error) if error.errno is None else os.strerror(error.errno)


def _tcp_advice(error: OSError | None) -> str:
    if error is None:
        return "a firewall drops what is sent there, or nothing has this address"
    if error.errno == errno.ECONNREFUSED:
        return "nothing listens on this port: does the broker run, with STOMP switched on (RabbitMQ: rabbitmq_stomp)?"
    if error.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH):
        return "there is no way from this machine to that address: VPN, route, IPv6?"
    return "look at the network between this machine and the broker"


async def _neighbours(target: Target, address: str, network: Network) -> list[str]:
    """Which of the usual ports answer in place of this one."""
    found: list[str] = []
    for port in _USUAL_PORTS:
        if port == target.port:
            continue
        stream: trio.abc.Stream | None = None
        with trio.move_on_after(min(_GLANCE, target.timeout)):
            try:
                stream = await network.open(address, port)
            except OSError:
                continue
        if stream is not None:
            await trio.aclose_forcefully(stream)
            found.append(f"port {port} of this host accepts connections, and is the usual one; is it meant?")
    return found


def _failed(step: Step, what: str, *advice: str) -> Finding:
    return Finding(step=step, status=Status.FAILED, what=what, advice=advice)
