"""What all sessions of a broker share: its virtual hosts, its memory accounts, its counters, and who may come in."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from trio_stomp.protocol import Command, Headers
from trio_stomp.testing.broker_options import BrokerOptions
from trio_stomp.testing.memory import Memory
from trio_stomp.testing.namespace import Namespace
from trio_stomp.testing.refusals import Refusal
from trio_stomp.testing.schedule import Schedule

__all__ = ["Admission", "BrokerState", "BrokerStatistics"]

# The name of the one virtual host where `vhosts` is None.
_ONLY = ""
# RabbitMQ's default for a CONNECT without a host header.
_DEFAULT_VHOST = "/"


class Sender(Protocol):
    """A conversation, as far as its unfinished frame is concerned."""

    def send_error(self, message: str, details: str = "") -> None:
        """Send ERROR, which ends it."""

    def forget_input(self) -> None:
        """Drop what was received of a frame."""


@dataclass(slots=True, kw_only=True)
class BrokerStatistics:
    """The broker's counters.

    Attributes:
        connections: Connections accepted since the start.
        open_connections: Connections that are open.
        received: Frames from clients, by command.
        sent: Frames to clients, by command.
        received_bytes: Bytes from clients.
        sent_bytes: Bytes to clients.
    """

    connections: int = 0
    open_connections: int = 0
    received: Counter[Command] = field(default_factory=Counter[Command])
    sent: Counter[Command] = field(default_factory=Counter[Command])
    received_bytes: int = 0
    sent_bytes: int = 0

    def snapshot(self) -> BrokerStatistics:
        """Return a copy that no longer changes."""
        return replace(self, received=Counter(self.received), sent=Counter(self.sent))


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """An admitted session.

    Attributes:
        login: The user, or an empty string.
        vhost: The virtual host; None where the broker has only one.
        client_id: The ``client-id`` header.
        namespace: The destinations of the virtual host.
    """

    login: str
    vhost: str | None
    client_id: str | None
    namespace: Namespace


class BrokerState:
    """The state that all sessions of a broker share.

    Args:
        options: The broker's settings.
        output_full: Called when the unread output of all sessions reaches its limit.
        more_to_do: Called when `dispatch` should be called again soon.

    Attributes:
        options: The broker's settings.
        memory: The memory accounts, with their limits.
        schedule: Delayed messages of all virtual hosts.
        statistics: The counters.
        output_full: See above.
        unfinished: Sessions that have received part of a frame, and how many bytes of it.
    """

    def __init__(
        self, options: BrokerOptions, *, output_full: Callable[[], None], more_to_do: Callable[[], None]
    ) -> None:
        self.options = options
        self.memory = Memory(
            stored=options.max_stored_bytes,
            output=options.max_output_bytes,
            unfinished=options.max_unfinished_bytes,
            names=options.max_names_bytes,
        )
        self.schedule = Schedule()
        self.statistics = BrokerStatistics()
        self.output_full = output_full
        self.unfinished: dict[Sender, int] = {}
        numbers = itertools.count(1)
        new_message_id: Callable[[], str] = lambda: f"m-{next(numbers)}"  # noqa: E731 - a closure over the count
        vhosts = [_ONLY] if options.vhosts is None else sorted(options.vhosts)
        self._namespaces = {
            vhost: Namespace(options, new_message_id, memory=self.memory, schedule=self.schedule, more_to_do=more_to_do)
            for vhost in vhosts
        }

    def namespace(self, vhost: str | None = None) -> Namespace:
        """Return the destinations of a virtual host. None is the only one, or the first by name.

        Raises:
            KeyError: There is no such virtual host.
        """
        if vhost is None:
            return next(iter(self._namespaces.values()))
        if vhost not in self._namespaces:
            there_are = ", ".join(map(repr, filter(None, self._namespaces))) or "none: leave out vhost="
            raise KeyError(f"no virtual host {vhost!r}; in BrokerOptions(vhosts=...) there are {there_are}")
        return self._namespaces[vhost]

    def dispatch(self) -> None:
        """Deliver what can be delivered in a turn, in all virtual hosts."""
        for namespace in self._namespaces.values():
            namespace.dirty.dispatch()

    def bound_unfinished(self) -> None:
        """End the session with the largest unfinished frame while all of them together exceed the limit.

        The largest, not the one that sent last: a few clients that send halves of frames must not stop the others.
        The limits of the protocol bound a single frame.
        """
        account = self.memory.unfinished
        while account.used > account.limit and len(self.unfinished) > 1:
            largest = max(self.unfinished, key=self.unfinished.__getitem__)
            largest.send_error(
                "memory limit reached",
                f"{account.what} take {account.used} bytes, the limit is {account.limit} ({account.option}); this "
                f"connection's frame is the largest with {self.unfinished[largest]} bytes",
            )
            # Needed where the session had ended before.
            largest.forget_input()

    # --- admission --------------------------------------------------------------------------------------------------

    def admit(self, headers: Headers, session_id: str) -> Admission:
        """Admit a session.

        Args:
            headers: The headers of its CONNECT.
            session_id: Its id.

        Raises:
            Refusal: The login, virtual host or client-id is refused.
        """
        login = self._login(headers)
        vhost = self._vhost(headers)
        namespace = self._namespaces[_ONLY if vhost is None else vhost]
        client_id = headers.get("client-id") or None
        namespace.begin_session(session_id, client_id)
        return Admission(login=login, vhost=vhost, client_id=client_id, namespace=namespace)

    def _login(self, headers: Headers) -> str:
        login = headers.get("login", "") or ""
        logins = self.options.logins
        if logins is not None and (login not in logins or logins[login] != headers.get("passcode")):
            raise Refusal("access refused", f"unknown user {login[:80]!r} or wrong passcode")
        return login

    def _vhost(self, headers: Headers) -> str | None:
        if self.options.vhosts is None:
            return None
        host = headers.get("host", _DEFAULT_VHOST) or _DEFAULT_VHOST
        if host not in self._namespaces:
            raise Refusal("no such virtual host", f"unknown virtual host {host[:80]!r}")
        return host
