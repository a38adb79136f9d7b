"""The doctor's third step: TLS, and whose certificate is shown there."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import trio

from trio_stomp.cli.doctor_findings import Finding, Status, Step, duration
from trio_stomp.cli.doctor_handshake import Kind, knock
from trio_stomp.cli.doctor_network import Network
from trio_stomp.cli.doctor_target import Target
from trio_stomp.client import FirstOctets, is_tls, speaker_of

__all__ = ["Certificate", "certificate_at", "refusal_of_client", "secure"]

# Seconds for a second look, which is to explain what the first has found.
_GLANCE: Final = 3.0

# What OpenSSL calls the alerts of a server that wants a certificate, or another one.
_ABOUT_CLIENT: Final = ("CERTIFICATE_REQUIRED", "ALERT_BAD_CERTIFICATE", "ALERT_UNKNOWN_CA", "ALERT_CERTIFICATE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The certificate that a server shows, trusted or not.

    Attributes:
        names: The hosts that it is for.
        issuer: Who says so.
        until: When it ends.
        fingerprint: SHA-256 of the whole.
    """

    names: tuple[str, ...]
    issuer: str
    until: str
    fingerprint: str

    def __str__(self) -> str:
        names = ", ".join(self.names) or "nobody"
        return f"the certificate is for {names}, by {self.issuer}, until {self.until}"


async def secure(
    stream: trio.abc.Stream, address: str, target: Target, network: Network
) -> tuple[Finding, trio.abc.Stream | None]:
    """Do the TLS handshake, and where it fails, find out why.

    Args:
        stream: The open connection; it is closed where this fails.
        address: What it leads to.
        target: What was asked for.
        network: For a second look.

    Cancellation: the stream is closed.
    """
    context = target.context or ssl.create_default_context()
    first = FirstOctets(stream)
    secured: trio.SSLStream[trio.abc.Stream] = trio.SSLStream(first, context, server_hostname=target.host)
    started = trio.current_time()
    failure: Exception | None = None
    done = False
    try:
        with trio.move_on_after(target.timeout):
            try:
                await secured.do_handshake()
                done = True
            except trio.BrokenResourceError as error:
                cause = error.__cause__
                failure = cause if isinstance(cause, ssl.SSLError | OSError) else error
    finally:
        if not done:
            # Closing by force does not wait.
            await trio.aclose_forcefully(stream)  # noqa: ASYNC102  # see above
    if done:
        took = duration(trio.current_time() - started)
        what = f"{secured.version()}, {_cipher(secured)}; the certificate is trusted ({took})"
        return Finding(step=Step.TLS, status=Status.OK, what=what), secured
    return await _explain(failure, first.seen, address, target, network), None


def _cipher(stream: trio.SSLStream[trio.abc.Stream]) -> str:
    cipher: tuple[str, str, int] | None = stream.cipher()
    return "no cipher" if cipher is None else cipher[0]


async def _explain(failure: Exception | None, first: bytes, address: str, target: Target, network: Network) -> Finding:
    if isinstance(failure, ssl.SSLCertVerificationError):
        return await _untrusted(failure, address, target, network)
    if isinstance(failure, ssl.SSLError) and refusal_of_client(failure):
        return _failed(f"the broker wants another certificate of this client: {failure.reason}", CLIENT_ADVICE)
    seen = f"no answer to TLS within {duration(target.timeout)}" if failure is None else _text(failure, first)
    if await _is_plain_stomp(address, target, network):
        what = f"this is a plain STOMP port, without TLS ({seen})"
        return _failed(what, "write stomp:// for this port, or find the broker's port for TLS, usually 61614")
    if failure is None:
        what = f"{seen}, nor to plain STOMP: the host takes connections and is silent"
        return _failed(what, "is there a broker behind it, or a proxy that has lost it?")
    if not is_tls(first):
        what = f"the server does not speak TLS on this port: {seen}"
        return _failed(what, "find the port where the broker speaks STOMP, usually 61613, or 61614 for TLS")
    return _failed(f"the TLS handshake failed: {seen}", "does this port speak TLS, in a version that both sides know?")


CLIENT_ADVICE: Final = "give the certificate that this broker knows you by: --cert FILE --key FILE"


def refusal_of_client(error: ssl.SSLError) -> bool:
    """Whether the server has refused this client's certificate, or that there is none."""
    return any(part in (error.reason or "") for part in _ABOUT_CLIENT)


def _text(error: Exception, first: bytes) -> str:
    if not is_tls(first):
        return f"it answered {speaker_of(first)}"
    if isinstance(error, ssl.SSLEOFError) or type(error) is trio.BrokenResourceError:
        return "the connection was closed in the middle of the handshake"
    return getattr(error, "reason", None) or str(error)


async def _untrusted(failure: ssl.SSLCertVerificationError, address: str, target: Target, network: Network) -> Finding:
    certificate = await certificate_at(address, target, network)
    what = f"the broker's certificate is not trusted: {failure.verify_message}"
    if certificate is not None:
        what += f"; {certificate} (SHA-256 {certificate.fingerprint})"
    # X509_V_ERR_CERT_HAS_EXPIRED, X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_HOSTNAME_MISMATCH, ..._IP_ADDRESS_MISMATCH
    code = failure.verify_code
    if code in (9, 10):
        advice = "the certificate must be renewed; or is the clock of this machine wrong?"
    elif code in (62, 64):
        names = f", one of {', '.join(certificate.names)}" if certificate is not None and certificate.names else ""
        advice = f"write the host as the certificate has it{names}; or get one for {target.host}"
    else:
        advice = "if it is the right broker, trust the authority that has signed its certificate: --ca FILE"
    return _failed(what, advice)


async def _is_plain_stomp(address: str, target: Target, network: Network) -> bool:
    """Whether the port answers to plain STOMP. Nobody's passcode is sent for that."""
    with trio.move_on_after(_GLANCE):
        try:
            stream = await network.open(address, target.port)
        except OSError:
            return False
        async with stream:
            answer = await knock(stream, target, with_credentials=False)
            return answer.kind in (Kind.CONNECTED, Kind.REFUSED)
    return False


async def certificate_at(address: str, target: Target, network: Network) -> Certificate | None:
    """The certificate that a port shows, trusted or not; None where it does not speak TLS.

    Cancellation: nothing is left behind.
    """
    encoded = await _certificate_octets(address, target, network, _trusting(()))
    if encoded is None:
        return None
    # Python reads a certificate for us only where it trusts it: so it is made to trust this very one.
    pem = ssl.DER_cert_to_PEM_cert(encoded)
    details = await _certificate_details(address, target, network, _trusting([pem]))
    fingerprint = hashlib.sha256(encoded).hexdigest()
    return Certificate(
        names=tuple(value for kind, value in details.names if kind in ("DNS", "IP Address")),
        issuer=details.issuer,
        until=details.until,
        fingerprint=fingerprint,
    )


def _trusting(certificates: Iterable[str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # For a look alone: no message goes over it, and no passcode.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    for pem in certificates:
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(cadata=pem)
    return context


@dataclass(frozen=True, slots=True, kw_only=True)
class _Details:
    names: tuple[tuple[str, str], ...] = ()
    issuer: str = "somebody"
    until: str = "some day"


async def _handshake(
    address: str, target: Target, network: Network, context: ssl.SSLContext
) -> trio.SSLStream[trio.abc.Stream] | None:
    """A second handshake, closed at once; None where it does not come about."""
    with trio.move_on_after(_GLANCE):
        try:
            stream = await network.open(address, target.port)
        except OSError:
            return None
        secured = trio.SSLStream(stream, context, server_hostname=target.host)
        try:
            await secured.do_handshake()
        except trio.BrokenResourceError:
            return None
        finally:
            # Closing by force does not wait; what was agreed upon can still be asked for.
            await trio.aclose_forcefully(stream)  # noqa: ASYNC102  # see above
        return secured
    return None


async def _certificate_octets(address: str, target: Target, network: Network, context: ssl.SSLContext) -> bytes | None:
    secured = await _handshake(address, target, network, context)
    if secured is None:
        return None
    encoded: bytes | None = secured.getpeercert(binary_form=True)
    return encoded


async def _certificate_details(address: str, target: Target, network: Network, context: ssl.SSLContext) -> _Details:
    secured = await _handshake(address, target, network, context)
    if secured is None:
        # An expired certificate, which is not read for us even so.
        return _Details()
    found = secured.getpeercert()
    return _Details(
        names=tuple(found.get("subjectAltName", ())),
        issuer=_common_name(found.get("issuer", ())),
        until=str(found.get("notAfter", "some day")),
    )


def _common_name(name: Iterable[Iterable[tuple[str, str]]]) -> str:
    parts = {key: value for relative in name for key, value in relative}
    return parts.get("commonName") or parts.get("organizationName") or "somebody"


def _failed(what: str, *advice: str) -> Finding:
    return Finding(step=Step.TLS, status=Status.FAILED, what=what, advice=advice)
