"""Artemis: TLS and WebSocket."""

import base64
import os
import socket
import ssl
import time

from brokers_lib.probe.raw import PATIENCE, Link
from brokers_lib.probe.statements import Chapter, Seen, Target

transports = Chapter("1g TLS and WebSocket")


def upgrade(target: Target, port: str, path: str) -> tuple[str, Link]:
    """Open a WebSocket and return the first line of the answer with the subprotocol."""
    link = target.dial(port)
    key = base64.b64encode(os.urandom(16)).decode()
    link.write(
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Protocol: v12.stomp, v11.stomp\r\n\r\n".encode()
    )
    answer = link.socket.recv(4096).decode()
    chosen = next((line for line in answer.split("\r\n") if line.lower().startswith("sec-websocket-protocol")), "")
    return f"{answer.splitlines()[0]} {chosen}", link


def ws_send(link: Link, octets: bytes) -> None:
    """Send a text message, masked with zeros."""
    size = len(octets)
    if size < 126:
        head = bytes([0x81, 0x80 | size])
    elif size < 2**16:
        head = bytes([0x81, 0x80 | 126]) + size.to_bytes(2, "big")
    else:
        head = bytes([0x81, 0x80 | 127]) + size.to_bytes(8, "big")
    link.write(head + bytes(4) + octets)


WS_CONNECT = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\n\n\0"


@transports("WebSocket", "on every STOMP port, any path; binary messages")
def websocket(target: Target) -> Seen:
    told: list[str] = []
    kinds: set[int] = set()
    for path in ("/", "/ws", "/any/thing"):
        line, link = upgrade(target, "stomp", path)
        with link:
            ws_send(link, WS_CONNECT)
            answer = link.socket.recv(4096)
            kinds.add(answer[0] & 0x0F)
            told.append(f"{path}: {line}")
    binary = 2
    return Seen(agrees=kinds == {binary} and all(" 101 " in one for one in told), what=f"{told}; opcodes {kinds}")


@transports("WebSocket frames over 64 KiB", "the connection is closed")
def websocket_limit(target: Target) -> Seen:
    told: dict[int, str] = {}
    for size in (60_000, 70_000):
        _, link = upgrade(target, "stomp", "/ws")
        with link:
            link.socket.settimeout(PATIENCE)
            ws_send(link, WS_CONNECT)
            link.socket.recv(4096)
            head = f"SEND\ndestination:/topic/probe.x\ncontent-length:{size}\nreceipt:r1\n\n".encode()
            ws_send(link, head + b"b" * size + b"\0")
            try:
                told[size] = repr(link.socket.recv(4096)[:60])
            except OSError as problem:
                told[size] = repr(problem)
    return Seen(agrees="RECEIPT" in told[60_000] and "RECEIPT" not in told[70_000], what=str(told))


@transports("two frames in one WebSocket message; one frame in two", "unknown: reported")
def websocket_split(target: Target) -> Seen:
    send = b"SEND\ndestination:/topic/probe.x\nreceipt:%s\n\nx\0"
    _, link = upgrade(target, "stomp", "/ws")
    with link:
        link.socket.settimeout(2)
        ws_send(link, WS_CONNECT)
        link.socket.recv(4096)
        ws_send(link, send % b"r1" + send % b"r2")
        half = send % b"r3"
        ws_send(link, half[:20])
        time.sleep(0.2)
        ws_send(link, half[20:])
        time.sleep(0.3)
        answer = link.socket.recv(65536)
    told = {name: name.encode() in answer for name in ("r1", "r2", "r3")}
    return Seen(agrees=True, what=f"receipts: {told}")


@transports("plain STOMP to a TLS port", "a TLS alert, then closed")
def plain_to_tls(target: Target) -> Seen:
    with target.dial("stomp+ssl") as link:
        link.write(WS_CONNECT)
        closed = link.ends(3)
    return Seen(agrees=closed, what=f"closed={closed}, octets {link.buffer!r}")


@transports("TLS to a plain port", "unknown: reported")
def tls_to_plain(target: Target) -> Seen:
    context = ssl.create_default_context(cafile=str(target.ca))
    started = time.monotonic()
    with socket.create_connection((target.host, target.ports["stomp"]), PATIENCE) as link:
        link.settimeout(15)
        try:
            context.wrap_socket(link, server_hostname="localhost")
            what = "handshake succeeded"
        except OSError as problem:
            what = f"{type(problem).__name__}: {problem}"
    return Seen(agrees=True, what=f"{what} after {time.monotonic() - started:.1f} s")


@transports("no client certificate where one is demanded", "TLS 1.3 handshake succeeds, the first read fails")
def no_client_certificate(target: Target) -> Seen:
    context = ssl.create_default_context(cafile=str(target.ca))
    told: list[str] = []
    try:
        with (
            socket.create_connection((target.host, target.ports["mtls"]), PATIENCE) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as link,
        ):
            told.append(f"handshake done, {link.version()}")
            link.sendall(WS_CONNECT)
            told.append(repr(link.recv(4096)))
    except OSError as problem:
        told.append(f"{type(problem).__name__}: {problem}")
    context.load_cert_chain(target.ca.with_name("client.pem"), target.ca.with_name("client.key"))
    with (
        socket.create_connection((target.host, target.ports["mtls"]), PATIENCE) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as link,
    ):
        link.sendall(WS_CONNECT)
        with_certificate = link.recv(4096)[:9]
    agrees = "handshake done" in told[0] and "Error" in told[-1] and with_certificate == b"CONNECTED"
    return Seen(agrees=agrees, what=f"{told}; with a certificate {with_certificate!r}")
