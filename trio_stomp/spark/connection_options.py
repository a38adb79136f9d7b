"""How to reach the broker: the options that source and sink share."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol
from urllib.parse import urlsplit

import trio_stomp.blocking
from trio_stomp.client import Client, CommonOptions, Reconnect, connect
from trio_stomp.errors import StompError
from trio_stomp.protocol import is_secret_header
from trio_stomp.spark.option_reader import OptionError, OptionReader
from trio_stomp.transport import for_spark

__all__ = ["Connection", "ConnectionOptions"]

# A task waits this long during an outage before it fails: restarting a broker takes some seconds.
_RECONNECT_SECONDS: Final = 60.0
_CONNECT_SECONDS: Final = 10.0
_HEART_BEAT_SECONDS: Final = 10.0
_LARGEST_DELAY_SECONDS: Final = 5.0
# Headers of CONNECT that have an option of their own, or that the client sets.
_RESERVED: Final = {
    "accept-version": "the client sets it itself",
    "heart-beat": "use the option 'heartBeatMs'",
    "host": "use the option 'host'",
}


class Connection(Protocol):
    """How a receiver reaches its broker."""

    @property
    def reconnect_timeout(self) -> float:
        """Seconds without a connection, or without a spool that can be written to, after which the receiver fails."""
        ...

    def dial(self) -> AbstractAsyncContextManager[Client]:
        """Connect, and reconnect for up to `reconnect_timeout` when the connection is lost."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """How to reach the broker: the options of the manual, with durations in seconds.

    It travels to the tasks, so it holds nothing but data. Passcode and headers are never shown; they may be secret.
    """

    urls: tuple[str, ...]
    login: str | None
    passcode: str | None = field(repr=False)
    vhost: str | None
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    connect_timeout: float
    reconnect_timeout: float
    heart_beat: float
    tls_ca_file: str | None
    tls_cert_file: str | None
    tls_key_file: str | None

    @classmethod
    def read(cls, reader: OptionReader) -> ConnectionOptions:
        """Read them.

        Raises:
            OptionError: An option is missing or invalid.
        """
        brokers = reader.required("brokers", "stomp://broker-1:61613,stomp://broker-2:61613")
        if reader.has("passcode"):
            msg = (
                "the option 'passcode' is not supported, because Spark would print it in explain() and in its event "
                "log; use .option('password', ...), which Spark hides"
            )
            raise OptionError(msg)
        options = cls(
            urls=tuple(_url(each, has_passcode="@" in brokers) for each in brokers.split(",")),
            login=reader.text("login"),
            passcode=reader.secret("password"),
            vhost=reader.text("host"),
            headers=tuple(_connect_headers(reader).items()),
            connect_timeout=reader.seconds("connectTimeoutMs", _CONNECT_SECONDS),
            reconnect_timeout=reader.seconds("reconnectTimeoutMs", _RECONNECT_SECONDS),
            heart_beat=reader.seconds("heartBeatMs", _HEART_BEAT_SECONDS, least=0),
            tls_ca_file=reader.text("tlsCaFile"),
            tls_cert_file=reader.text("tlsCertFile"),
            tls_key_file=reader.text("tlsKeyFile"),
        )
        options._check_tls()
        return options

    def _check_tls(self) -> None:
        files = (self.tls_ca_file, self.tls_cert_file, self.tls_key_file)
        if any(files) and not all(url.startswith("stomps:") for url in self.urls):
            msg = "the options 'tls...' need brokers of the form stomps://host:port"
            raise OptionError(msg)
        if self.tls_key_file is not None and self.tls_cert_file is None:
            msg = "the option 'tlsKeyFile' needs 'tlsCertFile', the certificate that the key is for"
            raise OptionError(msg)

    @asynccontextmanager
    async def dial(self) -> AsyncGenerator[Client]:
        """Connect, and reconnect for up to `reconnect_timeout` when the connection is lost.

        Raises:
            OSError: A file for TLS cannot be read.
        """
        with _naming_options():
            async with connect(self.urls, **self._options()) as client:
                yield client

    @contextmanager
    def dial_blocking(self) -> Generator[trio_stomp.blocking.Client]:
        """`dial` for synchronous code: heart-beats go on in a thread while Spark computes the next rows.

        Raises:
            OSError: A file for TLS cannot be read.
        """
        with _naming_options(), trio_stomp.blocking.connect(self.urls, **self._options()) as client:
            yield client

    def _options(self) -> CommonOptions:
        policy = Reconnect(
            max_delay=min(_LARGEST_DELAY_SECONDS, self.reconnect_timeout),
            deadline=self.reconnect_timeout,
            retry_first=True,
        )
        return CommonOptions(
            login=self.login,
            passcode=self.passcode,
            vhost=self.vhost,
            connect_timeout=self.connect_timeout,
            heart_beat=(self.heart_beat, self.heart_beat),
            headers=self.headers,
            reconnect=policy,
            tls=self._tls() if self.tls_ca_file is not None or self.tls_cert_file is not None else False,
        )

    def _tls(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.tls_ca_file)
            if self.tls_cert_file is not None:
                context.load_cert_chain(self.tls_cert_file, self.tls_key_file)
        except OSError as error:
            # Python names neither the file nor the option.
            named = {"tlsCaFile": self.tls_ca_file, "tlsCertFile": self.tls_cert_file, "tlsKeyFile": self.tls_key_file}
            files = ", ".join(f"{option}={file}" for option, file in named.items() if file is not None)
            msg = f"cannot load the TLS files on {socket.gethostname()} ({files}): {error}; expected PEM"
            raise OSError(msg) from error
        return context


@contextmanager
def _naming_options() -> Generator[None]:
    """Have errors name options of Spark in place of arguments of `connect`."""
    try:
        yield
    except StompError as error:
        error.args = (for_spark(str(error)),)
        raise


def _connect_headers(reader: OptionReader) -> dict[str, str]:
    """The headers of CONNECT, from an option that Spark shows and from one that it hides."""
    shown, hidden = (
        reader.headers(name, secret=True, reserved=_RESERVED) for name in ("connectHeaders", "secretConnectHeaders")
    )
    # Spark 4 hides an option if its name or value matches spark.redaction.regex, by default
    # (?i)secret|password|token|access[.]?key, or spark.sql.redaction.options.regex, (?i)url. Nothing else is hidden in
    # the plan of a stream.
    for name in shown:
        if is_secret_header(name):
            msg = (
                f"the option 'connectHeaders' has the header {name!r}, and Spark prints this option in explain() and "
                "in its event log; put the header into the option 'secretConnectHeaders', which Spark hides"
            )
            raise OptionError(msg)
    if both := sorted(shown.keys() & hidden.keys()):
        msg = f"the options 'connectHeaders' and 'secretConnectHeaders' both have the header {both[0]!r}; give it once"
        raise OptionError(msg)
    return shown | hidden


def _url(text: str, *, has_passcode: bool) -> str:
    """Return one broker of the list, as a URL. A passcode may have a colon or a comma, and look like a port."""
    expected = "expected a list such as stomp://broker-1:61613,stomps://broker-2:61614, or host:port"
    plain = text.strip()
    url = plain if "://" in plain else f"stomp://{plain}"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        what = "cannot be read" if has_passcode else f"has an invalid host or port in {plain!r}"
        msg = f"the option 'brokers' {what}; {expected}"
        raise OptionError(msg) from None
    if parts.username is not None or parts.password is not None:
        msg = "the option 'brokers' holds a user or passcode; give them as the options 'login' and 'password'"
        raise OptionError(msg)
    if parts.scheme not in {"stomp", "stomps"} or not parts.hostname or port == 0 or parts.query or parts.fragment:
        msg = f"the option 'brokers' has the entry {plain!r}; {expected}"
        raise OptionError(msg)
    if parts.path not in {"", "/"}:
        msg = f"the option 'brokers' has the entry {plain!r} with a path; the virtual host is the option 'host'"
        raise OptionError(msg)
    return url
