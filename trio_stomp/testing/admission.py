"""Who may come in, and to which virtual host: what the broker decides on a CONNECT."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from trio_stomp.protocol import Headers
from trio_stomp.testing.broker_options import BrokerOptions
from trio_stomp.testing.memory import Memory
from trio_stomp.testing.namespace import Namespace
from trio_stomp.testing.refusals import Refusal
from trio_stomp.testing.schedule import Schedule

__all__ = ["Admission", "Door"]

# The name under which all destinations are kept when `vhosts` is None.
_ONLY = ""
# RabbitMQ's default, which a CONNECT without a host header gets.
_DEFAULT_VHOST = "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """A session that was let in.

    Attributes:
        login: Its user; empty where it named none.
        vhost: Its virtual host; None where there is but one for all.
        client_id: Its ``client-id`` header.
        namespace: The destinations it sees.
    """

    login: str
    vhost: str | None
    client_id: str | None
    namespace: Namespace


class Door:
    """Lets clients in.

    Args:
        options: The broker's settings.
        name: Begins the ids of messages.

    Attributes:
        memory: What the whole broker may hold.
        schedule: Messages of all virtual hosts that are to be delivered later.
    """

    def __init__(self, options: BrokerOptions, *, name: str = "m") -> None:
        self._options = options
        self.memory = Memory()
        self.memory.limit(
            stored=options.max_stored_bytes,
            output=options.max_output_bytes,
            unfinished=options.max_unfinished_bytes,
            names=options.max_names_bytes,
        )
        self.schedule = Schedule()
        numbers = itertools.count(1)
        new_message_id: Callable[[], str] = lambda: f"{name}-{next(numbers)}"  # noqa: E731 - a closure over the count
        vhosts = [_ONLY] if options.vhosts is None else sorted(options.vhosts)
        self._namespaces = {
            vhost: Namespace(options, new_message_id, memory=self.memory, schedule=self.schedule) for vhost in vhosts
        }

    def namespace(self, vhost: str | None = None) -> Namespace:
        """The destinations of a virtual host; None is the only one, or the first by name.

        Raises:
            KeyError: There is no such virtual host.
        """
        return self._namespaces[next(iter(self._namespaces)) if vhost is None else vhost]

    def dispatch(self) -> None:
        """Deliver what can be delivered, in all virtual hosts."""
        for namespace in self._namespaces.values():
            namespace.dirty.dispatch()

    def admit(self, headers: Headers, session_id: str) -> Admission:
        """Let a session in.

        Args:
            headers: Those of its CONNECT.
            session_id: Its id.

        Raises:
            Refusal: Login, virtual host or client-id are refused.
        """
        login = self._login(headers)
        vhost = self._vhost(headers)
        namespace = self._namespaces[_ONLY if vhost is None else vhost]
        client_id = headers.get("client-id") or None
        namespace.begin_session(session_id, client_id)
        return Admission(login=login, vhost=vhost, client_id=client_id, namespace=namespace)

    def _login(self, headers: Headers) -> str:
        login = headers.get("login", "") or ""
        logins = self._options.logins
        if logins is not None and (login not in logins or logins[login] != headers.get("passcode")):
            raise Refusal("access refused", f"user {login[:80]!r} is not known, or the passcode is wrong")
        return login

    def _vhost(self, headers: Headers) -> str | None:
        if self._options.vhosts is None:
            return None
        host = headers.get("host", _DEFAULT_VHOST) or _DEFAULT_VHOST
        if host not in self._namespaces:
            raise Refusal("no such virtual host", f"virtual host {host[:80]!r} is not known")
        return host
