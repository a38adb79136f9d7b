"""Certificates of an authority made for the tests, and the two sides' contexts."""

from __future__ import annotations

import datetime as dt
import ssl
from pathlib import Path

import trustme

__all__ = ["client_context", "server_context", "write_client_files"]


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
