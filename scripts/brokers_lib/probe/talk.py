"""Short conversations that several statements need."""

import time

from brokers_lib.probe.raw import Frame, Link, fresh
from brokers_lib.probe.statements import Target

LOGIN = {"host": "/", "login": "guest", "passcode": "guest"}


def hello(target: Target, headers: dict[str, str], port: str = "stomp") -> tuple[Frame | None, Link]:
    """Send CONNECT with just these headers; the caller closes the link."""
    link = target.dial(port)
    link.send("CONNECT", headers)
    return link.read(), link


def names(frame: Frame | None) -> list[str]:
    """The header names of a frame, in order."""
    return [line.partition(":")[0] for line in frame.lines] if frame else []


def command(frame: Frame | None) -> str:
    """The command of a frame, or a word for none."""
    return frame.command if frame else "nothing"


def beats(link: Link, seconds: float) -> list[float]:
    """The times, from now, at which lone end-of-lines arrive."""
    started, seen = time.monotonic(), len(link.arrivals)
    link.ends(seconds)
    return [when - started for when, octets in link.arrivals[seen:] if not octets.strip(b"\r\n")]


def listen(link: Link, destination: str, ack: str = "auto", **more: str) -> Frame | None:
    """Subscribe with the id s1 and return the answer."""
    headers = {"destination": destination, "id": "s1", "ack": ack}
    return link.ask("SUBSCRIBE", headers | {name.replace("_", "-"): value for name, value in more.items()})


def echo(link: Link, headers: bytes, body: bytes = b"x") -> Frame | None:
    """Send header lines exactly as given to a topic we listen to, and return the MESSAGE or ERROR that comes."""
    name = f"/topic/{fresh('t')}"
    listen(link, name)
    link.write(b"SEND\ndestination:" + name.encode() + b"\n" + headers + b"\n" + body + b"\0")
    return link.read(3)


def echo_again(target: Target, version: str, headers: bytes, body: bytes = b"x") -> Frame | None:
    """Echo over a connection of its own, so that one case cannot break the next."""
    with target.connect(version) as link:
        return echo(link, headers, body)


def cross(target: Target, sender: str, reader: str, headers: bytes) -> Frame | None:
    """Send in one version and read in another."""
    name = f"/topic/{fresh('t')}"
    with target.connect(sender) as one, target.connect(reader) as other:
        listen(other, name)
        one.write(b"SEND\ndestination:" + name.encode() + b"\n" + headers + b"\nx\0")
        return other.read(3)


def fill(link: Link, destination: str, count: int, **headers: str) -> None:
    """Send m0, m1, ... and wait until they are stored."""
    more = {name.replace("_", "-"): value for name, value in headers.items()}
    for number in range(count):
        link.ask("SEND", {"destination": destination} | more, f"m{number}".encode())


def left(target: Target, destination: str) -> list[str]:
    """The bodies that another consumer is given now: what was neither taken nor lost."""
    with target.connect() as link:
        listen(link, destination)
        bodies = [frame.body.decode() for frame in link.gather() if frame.command == "MESSAGE"]
        # Leave in order: what is stored later must not be given to a consumer that is gone but not missed yet.
        link.ask("DISCONNECT")
        return bodies
