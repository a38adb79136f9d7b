"""`connect` and `open`, for synchronous code."""

from __future__ import annotations

import functools
import inspect
import re
import ssl
import sys
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Literal, ParamSpec

import trio

from trio_stomp.blocking.client import Client
from trio_stomp.blocking.opened import Opened
from trio_stomp.brokers import Profile, ProfileName
from trio_stomp.client import Client as AsyncClient
from trio_stomp.client import HeaderInput, Hooks, Reconnect
from trio_stomp.client import connect as async_connect
from trio_stomp.client import open as async_open
from trio_stomp.errors import LocalProtocolError
from trio_stomp.protocol import Limits

__all__ = ["connect", "open"]

P = ParamSpec("P")

Credentials = Callable[[], tuple[str, str]]


# The options are listed once more, because a ParamSpec of `trio_stomp.connect` cannot say that `credentials` is a plain
# function here, nor add `after_fork`.
def open(  # noqa: A001, D417  # it is used as trio_stomp.blocking.open(); the other arguments are added below
    urls: str | Sequence[str],
    *,
    login: str | None = None,
    passcode: str | None = None,
    credentials: Credentials | None = None,
    vhost: str | None = None,
    versions: Sequence[str] = ("1.0", "1.1", "1.2"),
    heart_beat: tuple[float, float] = (10, 10),
    heart_beat_margin: float = 2.5,
    tls: ssl.SSLContext | bool = False,
    limits: Limits | None = None,
    profile: Profile | ProfileName | None = None,
    connect_timeout: float = 10,
    disconnect_timeout: float = 10,
    timeout: float | None = None,
    outbox_bytes: int = 1024 * 1024,
    reconnect: Reconnect | bool | None = None,
    stagger: float | None = None,
    unconfirmed_messages: int = 100_000,
    unconfirmed_bytes: int = 64 * 1024 * 1024,
    headers: HeaderInput | None = None,
    hooks: Hooks | Sequence[Hooks] = (),
    proxy: str | None = None,
    websocket_headers: HeaderInput | None = None,
    websocket_message_bytes: int | None = None,
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
    if after_fork not in ("refuse", "reopen"):
        raise LocalProtocolError(f"after_fork must be 'refuse' or 'reopen', got {after_fork!r}")

    def dial() -> Awaitable[AsyncClient]:
        return async_open(
            urls,
            login=login,
            passcode=passcode,
            credentials=None if credentials is None else _in_thread(credentials),
            vhost=vhost,
            versions=versions,
            heart_beat=heart_beat,
            heart_beat_margin=heart_beat_margin,
            tls=tls,
            limits=limits,
            profile=profile,
            connect_timeout=connect_timeout,
            disconnect_timeout=disconnect_timeout,
            timeout=timeout,
            outbox_bytes=outbox_bytes,
            reconnect=reconnect,
            stagger=stagger,
            unconfirmed_messages=unconfirmed_messages,
            unconfirmed_bytes=unconfirmed_bytes,
            headers=headers,
            hooks=hooks,
            proxy=proxy,
            websocket_headers=websocket_headers,
            websocket_message_bytes=websocket_message_bytes,
        )

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
    @contextmanager
    def connect(*args: P.args, **kwargs: P.kwargs) -> Generator[Client]:
        with opens(*args, **kwargs) as client:
            yield client

    return connect


def _arguments() -> str:
    """The arguments that mean what they mean for `trio_stomp.connect`."""
    _, _, rest = (inspect.getdoc(async_connect) or "").partition("Args:\n")
    listed, _, _ = rest.partition("\n\n")
    return re.sub(r"^    credentials:.*\n(?:        .*\n)*", "", listed, flags=re.MULTILINE)


open.__doc__ = (inspect.getdoc(open) or "").replace("Args:\n", f"Args:\n{_arguments()}\n")

connect = _for_a_block(open)
connect.__name__ = connect.__qualname__ = "connect"
connect.__doc__ = """Connect to a broker for the length of a ``with`` block.

Leaving the block normally sends everything, awaits pending receipts and sends DISCONNECT. Leaving it with an
exception, Ctrl-C included, closes the connection at once. Heart-beats go on in a thread of their own meanwhile.

""" + (inspect.getdoc(open) or "").partition("\n\n")[2].partition("\n\n")[2]
