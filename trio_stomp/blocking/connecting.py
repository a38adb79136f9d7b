"""`connect` and `open`, for synchronous code."""

from __future__ import annotations

import functools
import inspect
import ssl
import sys
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractContextManager
from typing import Literal, ParamSpec

import trio

from trio_stomp.blocking.client import Client
from trio_stomp.blocking.opened import Opened
from trio_stomp.brokers import Profile, ProfileName
from trio_stomp.client import Client as AsyncClient
from trio_stomp.client import HeaderInput, Hooks, Reconnect, with_arguments_of
from trio_stomp.client import connect as async_connect
from trio_stomp.client import open as async_open
from trio_stomp.errors import LocalProtocolError
from trio_stomp.protocol import Limits
from trio_stomp.runtime import sync_context

__all__ = ["connect", "open"]

P = ParamSpec("P")

Credentials = Callable[[], tuple[str, str]]


# The options are listed once more, because a ParamSpec of `trio_stomp.connect` cannot say that `credentials` is a plain
# function here, nor add `after_fork`.
@with_arguments_of(async_connect)
def open(  # noqa: A001, D417  # it is used as trio_stomp.blocking.open(); see above
    urls: str | Sequence[str],
    *,
    login: str | None = None,
    passcode: str | None = None,
    credentials: Credentials | None = None,
    vhost: str | None = None,
    headers: HeaderInput | None = None,
    versions: Sequence[str] = ("1.0", "1.1", "1.2"),
    profile: Profile | ProfileName | None = None,
    heart_beat: tuple[float, float] = (10, 10),
    heart_beat_margin: float = 2.5,
    tls: ssl.SSLContext | bool = False,
    proxy: str | None = None,
    websocket_headers: HeaderInput | None = None,
    websocket_message_bytes: int | None = None,
    timeout: float | None = None,
    connect_timeout: float = 10,
    disconnect_timeout: float = 10,
    reconnect: Reconnect | bool | None = None,
    connect_attempt_delay: float | None = None,
    limits: Limits | None = None,
    outbox_bytes: int = 1024 * 1024,
    unconfirmed_messages: int = 100_000,
    unconfirmed_bytes: int = 64 * 1024 * 1024,
    hooks: Hooks | Sequence[Hooks] = (),
    after_fork: Literal["refuse", "reopen"] = "refuse",
) -> Client:
    """Connect to a broker until `Client.close`, where a program has no ``with`` block to put the client into.

    It is a context manager too: ``with trio_stomp.blocking.open(url) as client:``. A client that is still open when the
    interpreter exits is closed then, for at most two seconds. A process that ends without that, by ``os._exit`` or a
    signal, loses what was not written yet; so do the children that `multiprocessing` forks, if they do not call
    `Client.close`.

    Args:
        credentials: Function that returns user name and passcode, called in a thread for each attempt to connect. If it
            raises, the attempt fails.
        after_fork: What the client does in a process that ``os.fork()`` has made of this one: ``refuse`` raises
            ConnectionClosed, and ``reopen`` connects once more when the client is first used there. Subscriptions,
            publishers and transactions stay with the process that opened them. The process that opened the client goes
            on with it in any case.

    Returns:
        The connected Client.

    Raises:
        ConnectError: No host could be reached; it names the cause for each.
        AuthenticationError: A broker refused the credentials.
        LocalProtocolError: Invalid option.

    Warns:
        ResourceWarning: The client was dropped without `Client.close`; it names where it was opened.

    Spec: Connecting.
    """
    # As in `trio_stomp.connect`.
    options = dict(locals())
    del options["urls"], options["after_fork"]
    if callable(credentials):  # `connect` refuses anything else but None
        options["credentials"] = _in_thread(credentials)
    if after_fork not in ("refuse", "reopen"):
        raise LocalProtocolError(f"after_fork must be 'refuse' or 'reopen', got {after_fork!r}")

    def dial() -> Awaitable[AsyncClient]:
        return async_open(urls, **options)

    caller = sys._getframe(1)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # what calls this
    place = f"{caller.f_code.co_filename}:{caller.f_lineno}"
    opened = Opened(dial, place, has_hooks=bool(hooks), reopens_after_fork=after_fork == "reopen")
    client = Client(opened)
    opened.open()
    return client


def _in_thread(credentials: Credentials) -> Callable[[], Awaitable[tuple[str, str]]]:
    async def asked() -> tuple[str, str]:
        return await trio.to_thread.run_sync(credentials, abandon_on_cancel=True)

    return asked


def _for_a_block(opens: Callable[P, Client]) -> Callable[P, AbstractContextManager[Client]]:
    @functools.wraps(opens)
    @sync_context("connect()", "with trio_stomp.blocking.connect(...) as client:")
    def connect(*args: P.args, **kwargs: P.kwargs) -> Generator[Client]:
        with opens(*args, **kwargs) as client:
            yield client

    return connect


connect = _for_a_block(open)
connect.__name__ = connect.__qualname__ = "connect"
connect.__doc__ = """Connect to a broker for the length of a ``with`` block.

Leaving the block normally sends everything, awaits pending receipts and sends DISCONNECT. Leaving it with an
exception, Ctrl-C included, closes the connection at once. Heart-beats go on in a thread of their own meanwhile.

""" + (inspect.getdoc(open) or "").partition("\n\n")[2].partition("\n\n")[2]
