"""Whether a broker answers: the smallest STOMP conversation there is, over a raw socket or a raw WebSocket."""

import base64
import socket

_CONNECT = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\nheart-beat:0,0\n\n\0"


def server(host: str, port: int, *, timeout: float = 5.0) -> str | None:
    """Log in as guest and return what the broker calls itself, or None where it does not let us in."""
    try:
        with socket.create_connection((host, port), timeout) as link:
            link.sendall(_CONNECT)
            answer = b""
            while b"\0" not in answer:
                octets = link.recv(4096)
                if not octets:
                    return None
                answer += octets
            link.sendall(b"DISCONNECT\n\n\0")
    except OSError:
        return None
    command, *headers = answer.decode("utf-8", "replace").split("\n")
    if command != "CONNECTED":
        return None
    return next((line.partition(":")[2] for line in headers if line.startswith("server:")), "")


def answers_on_websocket(host: str, port: int, path: str, *, timeout: float = 5.0) -> bool:
    """Whether CONNECT is answered by CONNECTED there."""
    upgrade = (
        f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {base64.b64encode(bytes(16)).decode()}\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    # One frame of text, final and masked, as a client's must be; a mask of zeros changes nothing.
    frame = bytes([0x81, 0x80 | len(_CONNECT)]) + bytes(4) + _CONNECT
    answer = b""
    try:
        with socket.create_connection((host, port), timeout) as link:
            link.sendall(upgrade.encode())
            while b"\r\n\r\n" not in answer:
                octets = link.recv(4096)
                if not octets:
                    return False
                answer += octets
            link.sendall(frame)
            while b"CONNECTED\n" not in answer:
                octets = link.recv(4096)
                if not octets:
                    return False
                answer += octets
    except OSError:
        return False
    return True


def accepts(host: str, port: int) -> bool:
    """Whether anything listens there."""
    try:
        socket.create_connection((host, port), 1.0).close()
    except OSError:
        return False
    return True
