"""What goes wrong when connecting, and what to do about it.

`connect` and the command ``trio-stomp doctor`` both take their explanations from here: what the first bytes of a port
reveal, what an error of OpenSSL means, and why a step got no answer. Each explanation is a statement of what was seen
and, where one is known, a hint what to try next.
"""

from __future__ import annotations

import ssl
from typing import Final, NamedTuple

from trio_stomp.brokers import is_authentication_refusal, is_final_refusal, is_vhost_refusal
from trio_stomp.errors import BrokerError
from trio_stomp.printable import one_line
from trio_stomp.transport.urls import URL_LIST, Endpoint, Transport

__all__ = [
    "HINT_BYTES",
    "StepFailed",
    "Steps",
    "closed_before_connected",
    "connect_refused",
    "for_command_line",
    "for_spark",
    "hint_at",
    "is_tls",
    "tls_failure",
]

# --- steps ------------------------------------------------------------------------------------------------------------


class StepFailed(Exception):
    """One attempt to connect failed. `ConnectFailure` is its public form.

    Attributes:
        step: The step that failed, as in `ConnectFailure`.
        reason: What was seen, and the hint.
        hint: What to try next; empty where nothing is known.
        refused: The credentials were refused: another attempt with the same ones will not help.
        pending_step: For the step ``timeout``: the step that did not finish.
        is_final: A broker refused, in words that mean that it will refuse the same CONNECT again.
        addresses: The failure at each address of the host, if it has several.
    """

    def __init__(
        self, step: str, what: str, hint: str = "", *, refused: bool = False, pending_step: str | None = None
    ) -> None:
        self.step = step
        self.reason = "; ".join((what.removesuffix("."), hint)) if hint else what
        self.hint = hint
        self.refused = refused
        self.pending_step = pending_step
        self.is_final = False
        self.addresses: dict[str, StepFailed] = {}
        super().__init__(self.reason)


class Steps:
    """How far an attempt has come.

    Args:
        endpoint: The host.
        tls: Whether TLS is requested.

    Attributes:
        current: The step under way.
    """

    def __init__(self, endpoint: Endpoint, *, tls: bool) -> None:
        self._endpoint = endpoint
        self._tls = tls
        self.current = "unix" if endpoint.transport is Transport.UNIX else "tcp"

    def timed_out(self, timeout: float) -> StepFailed:
        """The failure of an attempt whose current step took longer than `timeout` seconds."""
        hint = _SILENCE.get(self.current) or _silent_broker(self._endpoint, tls=self._tls)
        what = f"no answer within {timeout:g} s (connect_timeout) at this step: {self.current}"
        return StepFailed("timeout", what, hint, pending_step=self.current)


_IF_PLAIN: Final = "is this its plain STOMP port? Then try stomp://, or its port for TLS, usually 61614"

# No answer, by step; `_silent_broker` has the hint for the step "connect".
_SILENCE: Final = {
    "tcp": "are host and port right, and does a firewall drop the packets?",
    "credentials": "the function given as credentials= has not returned",
    "proxy": "is it a proxy of that kind, and can it reach the broker?",
    "tls": f"{_IF_PLAIN}. A plain port waits silently for a frame",
    "websocket": "is this the broker's plain STOMP port? It waits silently for a frame",
}


def _silent_broker(endpoint: Endpoint, *, tls: bool) -> str:
    if endpoint.transport is Transport.WEBSOCKET:
        return "is a STOMP broker behind that WebSocket?"
    if endpoint.transport is Transport.UNIX:
        return "is the socket that of a STOMP broker?"
    if endpoint.transport is Transport.STREAM:
        return "is a STOMP broker at the other end of the stream?"
    if tls:
        return "is the port a STOMP port?"
    return "is the port a STOMP port without TLS? A TLS port waits silently for TLS"


# --- first bytes ------------------------------------------------------------------------------------------------------

# How many bytes to look at: OpenWire gives its name after a length and a type.
HINT_BYTES: Final = 24

# Each seen on the wire.
_BEGINNINGS: Final = (
    (b"AMQP", "AMQP"),
    (b"HTTP/", "HTTP"),
    (b"SSH-", "SSH"),
    (b"220", "SMTP or FTP"),
    (b"-ERR", "Redis or POP3"),
    (b"+OK", "POP3"),
    (b"* OK", "IMAP"),
    (b"ERROR\n", "STOMP"),
    (b"ERROR\r\n", "STOMP"),
    (b"CONNECTED\n", "STOMP"),
)


def _spoken(data: bytes) -> str | None:
    """The protocol whose server begins with these bytes."""
    if data[:2] == b"\x15\x03":
        # An alert, content type 21, version 3.x: RabbitMQ, ActiveMQ and Artemis all answer cleartext with one.
        return "TLS"
    if b"ActiveMQ" in data[4:]:
        # OpenWire begins with the length of its first frame.
        return "OpenWire"
    # A broker may send heart-beats before its first frame.
    data = data.lstrip(b"\r\n")
    return next((protocol for beginning, protocol in _BEGINNINGS if data.startswith(beginning)), None)


def is_tls(data: bytes) -> bool:
    """Whether a TLS server can begin with these bytes. Spec: RFC 8446, 5.1, content types 20 to 23."""
    return 0x14 <= data[0] <= 0x17 and data[1:2] in (b"", b"\x03") if data else True  # noqa: PLR2004  # see above


def hint_at(seen: bytes, endpoint: Endpoint, *, tls: bool) -> str:
    """What kind of port this is and which URL it needs; empty where that is not known.

    Args:
        seen: The first bytes that the port sent.
        endpoint: The URL that was tried.
        tls: Whether the client spoke TLS.
    """
    protocol = _spoken(seen)
    websocket = endpoint.transport is Transport.WEBSOCKET
    if protocol == "TLS":
        return "" if tls else f"this is a TLS port: use {'wss' if websocket else 'stomps'}:// or tls="
    if protocol == "STOMP":
        secured = ", or the broker's port for TLS, usually 61614" if tls else ""
        return f"this is a plain STOMP port: use stomp://{secured}" if tls or websocket else ""
    if protocol == "HTTP":
        if not websocket:
            return "this port speaks HTTP: STOMP over WebSocket needs a URL like ws://host:port/ws"
        return "this port speaks HTTP without TLS: use ws://, or the port for HTTPS" if tls else ""
    return f"this port speaks {protocol}: use the broker's STOMP port, usually 61613" if protocol else ""


# --- TLS --------------------------------------------------------------------------------------------------------------

_TRUST_CA: Final = "pass tls=<ssl.SSLContext with the CA that signed it>"
_LOAD_CERTIFICATE: Final = "load one into the context that you pass as tls=, by its load_cert_chain()"

# X.509 verification results (OpenSSL, x509_vfy.h).
_CERTIFICATE_HINTS: Final = {
    9: "it is not valid yet: is the clock right?",
    10: "it has expired: the broker needs a new one",
    62: "connect to a name that it is for",
    64: "connect to an address or a name that it is for",
}

# The alerts of a server that requires a client certificate, or does not accept the one it got.
_CERTIFICATE_ALERTS: Final = (
    "TLSV13_ALERT_CERTIFICATE_REQUIRED",
    "SSLV3_ALERT_BAD_CERTIFICATE",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED",
    "SSLV3_ALERT_CERTIFICATE_REVOKED",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
    "TLSV1_ALERT_UNKNOWN_CA",
)

# This alert has many meanings. In TLS 1.2, a missing client certificate is one of them.
_HANDSHAKE_FAILURE: Final = "SSLV3_ALERT_HANDSHAKE_FAILURE"


def tls_failure(cause: BaseException | None, endpoint: Endpoint, seen: bytes = b"") -> StepFailed:
    """Explain a connection that broke in TLS.

    Args:
        cause: The error; None where the broker closed the connection.
        endpoint: The URL that was tried.
        seen: The first bytes that came, where they are known.
    """
    if not is_tls(seen):
        # OpenSSL calls this "wrong version number", among other things; the bytes tell more.
        plain = "ws" if endpoint.transport is Transport.WEBSOCKET else "stomp"
        unknown = f"its answer begins with {seen!r}. Try {plain}://, or the broker's port for TLS, usually 61614"
        what = "the server does not speak TLS on this port"
        return StepFailed("tls", what, hint_at(seen, endpoint, tls=True) or unknown)
    if isinstance(cause, ssl.SSLCertVerificationError):
        what = f"the broker's certificate is not trusted: {cause.verify_message}"
        return StepFailed("tls", what, _CERTIFICATE_HINTS.get(cause.verify_code, _TRUST_CA))
    if cause is None or isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        # OpenSSL reports the same end in either way; both were seen in the tests.
        return StepFailed("tls", "the broker closed the connection during the TLS handshake", _IF_PLAIN)
    reason = cause.reason if isinstance(cause, ssl.SSLError) else None
    if reason in _CERTIFICATE_ALERTS:
        what = f"the broker demands a client certificate that it trusts ({reason})"
        return StepFailed("tls", what, _LOAD_CERTIFICATE)
    hint = ""
    if reason == _HANDSHAKE_FAILURE:
        hint = "has the broker a version and a cipher in common with tls=? If it demands a client certificate, "
        hint += _LOAD_CERTIFICATE
    return StepFailed("tls", f"the TLS handshake failed: {cause}", hint)


# --- CONNECT ----------------------------------------------------------------------------------------------------------

_CREDENTIALS: Final = "are login and passcode right, in the URL or as arguments?"
_VHOST: Final = "name one that exists and that this user may use, by vhost= or as the path of a stomp:// URL"
_VERSIONS: Final = "offer a version that it supports: versions="
# What the session says after the last attempt.
_GIVES_UP: Final = ", where Reconnect() is set to give up"


def closed_before_connected(seen: bytes, endpoint: Endpoint, *, tls: bool, why: str = "") -> StepFailed:
    """Explain a connection that ended before the broker answered CONNECT.

    Args:
        seen: What came before the end.
        endpoint: The URL that was tried.
        tls: Whether the client spoke TLS.
        why: The error that ended it; empty where the broker closed it in order.
    """
    what = (
        f"the link broke during CONNECT: {why}"
        if why
        else "the broker closed the connection instead of answering CONNECT"
    )
    hint = hint_at(seen, endpoint, tls=tls)
    if hint:
        return StepFailed("connect", what, hint)
    if endpoint.transport is not Transport.TCP:
        hint = "is it a STOMP broker?"
    elif tls:
        # A broker that misses a client certificate sends an alert. Some just close, and a reset may overtake an alert.
        hint = f"is it a STOMP port? If it demands a client certificate, {_LOAD_CERTIFICATE}"
    else:
        hint = "is it a TLS port? Then use stomps://"
    return StepFailed("connect", what, hint)


def connect_refused(error: BrokerError) -> StepFailed:
    """Explain an ERROR frame in place of CONNECTED."""
    refused = is_authentication_refusal(error.message, error.body)
    what, hint = f"the broker refused: {error}", _CREDENTIALS if refused else ""
    supported = error.headers.get("version")
    if is_vhost_refusal(error.message, error.body):
        hint = _VHOST
    elif "version" in error.message.lower():
        what += f" (it speaks {one_line(supported)})" if supported is not None else ""
        hint = _VERSIONS
    failed = StepFailed("connect", what, hint, refused=refused)
    failed.is_final = is_final_refusal(error.message, error.body)
    failed.__cause__ = error
    return failed


# --- the same for other users --------------------------------------------------------------------------------------


class _Wording(NamedTuple):
    """Advice in three forms.

    Attributes:
        program: For programs that call `connect`.
        command: For users of the command ``trio-stomp``.
        spark: For users of the Spark source and sink; None where they cannot get that advice.
    """

    program: str
    command: str
    spark: str | None = None


_WORDINGS: Final = (
    _Wording(
        _TRUST_CA,
        "if this is the right broker, trust the CA that signed its certificate: --ca FILE",
        "if this is the right broker, name the CA that signed its certificate by the option 'tlsCaFile'",
    ),
    _Wording(
        _LOAD_CERTIFICATE,
        "pass one that it trusts: --cert FILE --key FILE",
        "name one that it trusts by the options 'tlsCertFile' and 'tlsKeyFile'",
    ),
    _Wording(
        "a cipher in common with tls=?",
        "a cipher in common with this machine?",
        "a cipher in common with this machine?",
    ),
    _Wording("use stomps:// or tls=", "use stomps://", "use stomps://"),
    _Wording("use wss:// or tls=", "use wss://"),
    _Wording(
        _CREDENTIALS,
        "are login and passcode right? See --login, --ask-passcode and --passcode-file",
        "are the options 'login' and 'password' right?",
    ),
    _Wording(
        _VHOST,
        _VHOST.replace("vhost=", "--vhost"),
        "name one that exists and that this user may use, by the option 'host'",
    ),
    _Wording(_VERSIONS, "offer a version that it supports: --stomp-version", "use a broker with STOMP 1.0, 1.1 or 1.2"),
    _Wording("user and passcode of proxy=", "user and passcode of --proxy"),
    _Wording("(connect_timeout)", "(--connect-timeout)", "(connectTimeoutMs)"),
    _Wording("connect(websocket_message_bytes=8192)", "--websocket-message-bytes 8192"),
    _Wording(URL_LIST, "--url once for each, such as --url stomp://first:61613 --url stomp://second:61613"),
    # From the client, when it gives up.
    _Wording(_GIVES_UP, _GIVES_UP, ", the limit set by the option 'reconnectTimeoutMs'"),
)


def for_command_line(text: str) -> str:
    """The text of an error with options of the command ``trio-stomp`` in place of arguments of `connect`."""
    for wording in _WORDINGS:
        text = text.replace(wording.program, wording.command)
    return text


def for_spark(text: str) -> str:
    """The text of an error with options of the Spark source and sink in place of arguments of `connect`."""
    for wording in _WORDINGS:
        if wording.spark is not None:
            text = text.replace(wording.program, wording.spark)
    return text
