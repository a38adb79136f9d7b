"""Whether a broker answers: the smallest STOMP conversation there is, over a raw socket."""

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


def accepts(host: str, port: int) -> bool:
    """Whether anything listens there."""
    try:
        socket.create_connection((host, port), 1.0).close()
    except OSError:
        return False
    return True
