"""TLS over whatever carries the octets, and what its errors mean."""

from __future__ import annotations

import ssl
from typing import Final

import trio

from trio_stomp.transport.foreign_answers import FirstOctets, hint_at, is_tls
from trio_stomp.transport.steps import IF_PLAIN, StepFailed
from trio_stomp.transport.urls import Endpoint, Transport

__all__ = ["LOAD_CERTIFICATE", "open_tls", "tls_failure"]

# X.509 verification results (OpenSSL, x509_vfy.h): what is wrong with a certificate, and what to do.
_CERTIFICATE_HINTS: Final = {
    9: "it is not valid yet: is the clock right?",
    10: "it has expired: the broker needs a new one",
    62: "connect to a name that it is for",
    64: "connect to an address or a name that it is for",
}
_UNKNOWN_AUTHORITY: Final = "pass tls=<ssl.SSLContext with the CA that signed it>"

# What to do where the broker wants to see one of ours.
LOAD_CERTIFICATE: Final = "load one into the context that you pass as tls=, by its load_cert_chain()"

# Alerts by which servers tell that they miss a client certificate, or do not trust the one they got.
_CERTIFICATE_ALERTS: Final = (
    "TLSV13_ALERT_CERTIFICATE_REQUIRED",
    "SSLV3_ALERT_BAD_CERTIFICATE",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
    "TLSV1_ALERT_UNKNOWN_CA",
)

# An alert with many meanings. In TLS 1.2 a missing client certificate is one of them.
_REFUSED: Final = "SSLV3_ALERT_HANDSHAKE_FAILURE"


async def open_tls(stream: trio.abc.Stream, endpoint: Endpoint, context: ssl.SSLContext) -> trio.abc.Stream:
    """Do the TLS handshake.

    Raises:
        StepFailed: It did not come to an end; nothing was sent in the clear.

    Cancellation: the stream is left for the caller to close.
    """
    # OpenSSL has a riddle for each way in which an answer is not TLS ("wrong version number"); its octets say more.
    first = FirstOctets(stream)
    secured: trio.SSLStream[trio.abc.Stream] = trio.SSLStream(first, context, server_hostname=endpoint.ascii_host)
    try:
        await secured.do_handshake()
    except trio.BrokenResourceError as error:
        cause = error.__cause__
        raise tls_failure(cause, endpoint, first.seen) from (cause or error)
    # What follows costs no detour.
    secured.transport_stream = stream
    return secured


def tls_failure(cause: BaseException | None, endpoint: Endpoint, seen: bytes = b"") -> StepFailed:
    """What a link that broke in TLS, or because of it, has to say.

    Args:
        cause: What broke.
        endpoint: Where to.
        seen: The first octets that came, where they are known.
    """
    if not is_tls(seen):
        plain = "ws" if endpoint.transport is Transport.WEBSOCKET else "stomp"
        unknown = f"; its answer begins with {seen!r}. Try {plain}://, or the broker's port for TLS, usually 61614"
        return StepFailed(
            "tls", f"the server does not speak TLS on this port{hint_at(seen, endpoint, tls=True) or unknown}"
        )
    if isinstance(cause, ssl.SSLCertVerificationError):
        hint = _CERTIFICATE_HINTS.get(cause.verify_code, _UNKNOWN_AUTHORITY)
        reason = f"the broker's certificate is not trusted: {cause.verify_message}; {hint}"
    elif isinstance(cause, ssl.SSLError) and cause.reason in _CERTIFICATE_ALERTS:
        reason = f"the broker demands a client certificate that it trusts ({cause.reason}); {LOAD_CERTIFICATE}"
    elif cause is None or isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        # OpenSSL reports the same end in either way; both were seen in the tests.
        reason = f"the broker closed the connection during the TLS handshake; {IF_PLAIN}"
    else:
        reason = f"the TLS handshake failed: {cause}"
        if isinstance(cause, ssl.SSLError) and cause.reason == _REFUSED:
            reason += (
                "; has the broker a version and a cipher in common with tls=? If it demands a client certificate, "
            )
            reason += LOAD_CERTIFICATE
    return StepFailed("tls", reason)
