"""The client of this process, for views."""

import threading

from django.conf import settings

import trio_stomp.blocking

_lock = threading.Lock()
_clients: dict[str, trio_stomp.blocking.Client] = {}


def client() -> trio_stomp.blocking.Client:
    """Return the client that all threads of this process share; the first call connects."""
    url: str = settings.STOMP_URL
    with _lock:
        if url not in _clients:
            # A server that forks after the first use gets a connection in each process.
            _clients[url] = trio_stomp.blocking.open(url, reconnect=True, after_fork="reopen")
        return _clients[url]
