"""Certificates of an authority made for the tests, and the two sides' contexts."""

from __future__ import annotations

import datetime as dt
import ssl
from pathlib import Path

import trustme
from cryptography import x509  # which trustme is made of
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

__all__ = ["client_context", "self_signed_context", "server_context", "write_client_files"]


def server_context(
    authority: trustme.CA,
    *names: str,
    demands: trustme.CA | None = None,
    begins: dt.datetime | None = None,
    ends: dt.datetime | None = None,
) -> ssl.SSLContext:
    """The server's side; it demands a client certificate of an authority where one is named."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate = authority.issue_cert(*(names or ("localhost", "127.0.0.1")), not_before=begins, not_after=ends)
    certificate.configure_cert(context)  # pyright: ignore[reportUnknownMemberType]  # pyOpenSSL is not installed
    if demands is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        demands.configure_trust(context)  # pyright: ignore[reportUnknownMemberType]  # pyOpenSSL is not installed
    return context


def self_signed_context(name: str) -> tuple[ssl.SSLContext, bytes]:
    """The server's side of one who has no authority: a certificate for no host, and its bytes."""
    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    builder = x509.CertificateBuilder().subject_name(who).issuer_name(who).public_key(key.public_key())
    certificate = (
        builder.serial_number(x509.random_serial_number())
        .not_valid_before(dt.datetime(2000, 1, 1, tzinfo=dt.UTC))
        .not_valid_after(dt.datetime(2900, 1, 1, tzinfo=dt.UTC))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    leaf = trustme.LeafCert(private, certificate.public_bytes(serialization.Encoding.PEM), [])
    leaf.configure_cert(context)  # pyright: ignore[reportUnknownMemberType]  # pyOpenSSL is not installed
    return context, certificate.public_bytes(serialization.Encoding.DER)


def client_context(authority: trustme.CA, *, certificate_of: trustme.CA | None = None) -> ssl.SSLContext:
    """The client's side; it shows a certificate where an authority for one is named."""
    context = ssl.create_default_context()
    authority.configure_trust(context)  # pyright: ignore[reportUnknownMemberType]  # pyOpenSSL is not installed
    if certificate_of is not None:
        shown = certificate_of.issue_cert("client@example.org")
        shown.configure_cert(context)  # pyright: ignore[reportUnknownMemberType]  # pyOpenSSL is not installed
    return context


def write_client_files(authority: trustme.CA, folder: Path) -> None:
    """Write ``ca.pem``, ``client.pem`` and ``client.key`` for a client that is known by its certificate."""
    authority.cert_pem.write_to_path(folder / "ca.pem")
    client = authority.issue_cert("client@example.org")
    client.cert_chain_pems[0].write_to_path(folder / "client.pem")
    client.private_key_pem.write_to_path(folder / "client.key")
