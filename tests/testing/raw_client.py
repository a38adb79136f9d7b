"""A client of raw frames, which sends whatever a test wants, allowed or not."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import anyio
import anyio.abc
import pytest

from tests.kit.loops import has_virtual_time
from tests.kit.streams import ByteStream
from trio_stomp.protocol import Decoder, Role, encode_frame
from trio_stomp.testing import Broker, BrokerOptions
from trio_stomp.types import Command, Frame, Version

CONNECT = b"CONNECT\naccept-version:1.2\nhost:h\n\n\0"
# The versions that the client of a test is connected with in turn.
ALL = pytest.mark.parametrize("version", list(Version))
SINCE_1_1 = pytest.mark.parametrize("version", [Version.V1_1, Version.V1_2])


def with_options(options: BrokerOptions) -> pytest.MarkDecorator:
    """Give the `broker` of a test these options."""
    return pytest.mark.parametrize("options", [options], ids=["options"])


class BrokenStream(anyio.abc.ByteStream):
    """A stream of another library: it brings its input, a chunk a second, and raises an error whatever else it does."""

    def __init__(self, error: Exception, *chunks: bytes) -> None:
        self._error = error
        self._chunks = list(chunks)

    async def receive(self, max_bytes: int = 65536) -> bytes:
        await anyio.sleep(1)
        if not self._chunks:
            raise self._error
        return self._chunks.pop(0)

    async def send(self, item: bytes) -> None:
        raise self._error

    async def send_eof(self) -> None:
        raise self._error

    async def aclose(self) -> None:
        raise self._error


class RawClient:
    """Frames over a stream."""

    def __init__(self, stream: ByteStream, *, version: Version = Version.V1_2) -> None:
        self.stream = stream
        self.version = version
        self._decoder = Decoder(role=Role.CLIENT)
        self._frames: deque[Frame] = deque()
        self.data = bytearray()
        self.kept: list[Frame] = []
        self._receipts = 0

    async def connect(self, **headers: str) -> Frame:
        """Send CONNECT, expect CONNECTED."""
        given = {"accept-version": self.version.value, "host": "localhost"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        await self.write(Command.CONNECT, list(given.items()))
        return await self.expect_connected()

    async def expect_connected(self) -> Frame:
        frame = await self.expect(Command.CONNECTED)
        self._decoder.set_version(self.version)
        self._take(b"")
        return frame

    async def write(
        self, command: Command, headers: Sequence[tuple[str, str]] = (), body: bytes = b"", /, **named: str
    ) -> None:
        pairs = [(name.replace("_", "-"), value) for name, value in named.items()]
        await self.stream.send_all(encode_frame(command, [*pairs, *headers], body, version=self.version))

    async def send(self, destination: str, body: bytes | str = b"", **headers: str) -> None:
        stream_bytes = body.encode() if isinstance(body, str) else body
        await self.write(Command.SEND, [("destination", destination)], stream_bytes, **headers)

    async def subscribe(self, destination: str, ack: str = "auto", subscription_id: str = "1", **headers: str) -> None:
        """SUBSCRIBE, and wait until it is made."""
        await self.write(
            Command.SUBSCRIBE,
            [("id", subscription_id), ("destination", destination), ("ack", ack), ("receipt", "subscribed")],
            **headers,
        )
        await self.expect(Command.RECEIPT, receipt_id="subscribed")

    async def confirmed(self, command: Command, **headers: str) -> None:
        """Send a frame and wait for its receipt, with nothing in between."""
        await self.write(command, receipt="done", **headers)
        await self.expect(Command.RECEIPT, receipt_id="done")

    async def confirmed_amid_messages(self, command: Command, **headers: str) -> list[Frame]:
        """As `confirmed`; returns the messages held: those of before and those that came meanwhile."""
        self._receipts += 1
        receipt = f"r{self._receipts}"
        await self.write(command, receipt=receipt, **headers)
        while (frame := await self.read()).command is Command.MESSAGE:
            self.kept.append(frame)
        assert (frame.command, frame.headers["receipt-id"]) == (Command.RECEIPT, receipt), frame
        return list(self.kept)

    async def read(self) -> Frame:
        with anyio.fail_after(60):
            while not self._frames:
                data = await self.stream.receive_some()
                assert data, "the broker closed the link"
                self._take(bytes(data))
        return self._frames.popleft()

    def _take(self, data: bytes) -> None:
        self.data += data
        self._frames += self._decoder.receive_data(data)
        assert self._decoder.error is None, self._decoder.error

    async def expect(self, command: Command, **headers: str) -> Frame:
        frame = await self.read()
        assert frame.command is command, frame
        for name, value in headers.items():
            assert frame.headers.get(name.replace("_", "-")) == value, frame
        return frame

    async def message(self, body: bytes | str | None = None, **headers: str) -> Frame:
        frame = await self.expect(Command.MESSAGE, **headers)
        if body is not None:
            assert frame.body == (body.encode() if isinstance(body, str) else body)
        return frame

    async def bodies(self, count: int) -> list[str]:
        return [(await self.message()).body.decode() for _ in range(count)]

    async def expect_eof(self) -> None:
        with anyio.fail_after(60):
            while data := await self.stream.receive_some():
                self._take(bytes(data))
        assert not self._frames, self._frames

    async def refused(self, message: str) -> Frame:
        """Expect an ERROR, and the end of the link behind it."""
        frame = await self.expect(Command.ERROR, message=message)
        await self.expect_eof()
        return frame

    async def expect_nothing(self, seconds: float = 0.25) -> None:
        """Expect silence for some seconds of virtual time."""
        assert has_virtual_time(), "ask for autojump_clock"
        with anyio.move_on_after(seconds):
            data = await self.stream.receive_some()
            raise AssertionError(f"expected nothing, got {bytes(data)!r}")
        assert not self._frames, self._frames

    async def acknowledge(self, frame: Frame, command: Command = Command.ACK, **headers: str) -> None:
        """ACK or NACK a message by the headers of the version."""
        if self.version is Version.V1_2:
            own = [("id", frame.headers["ack"])]
        else:
            own = [("message-id", frame.headers["message-id"])]
        if self.version is Version.V1_1:
            own.append(("subscription", frame.headers["subscription"]))
        await self.write(command, own, **headers)

    async def delivered(self, broker: Broker, bodies: str = "x", *, ack: str = "client") -> list[Frame]:
        """Subscribe to /queue/a, and receive what is published there: a message for each letter."""
        await self.subscribe("/queue/a", ack)
        for body in bodies:
            broker.publish("/queue/a", body)
        return [await self.message(body) for body in bodies]

    async def settle(self, frame: Frame, command: Command = Command.ACK, **headers: str) -> None:
        """As `acknowledge`, and wait for the receipt."""
        await self.acknowledge(frame, command, receipt="settled", **headers)
        await self.expect(Command.RECEIPT, receipt_id="settled")

    async def leave(self, broker: Broker) -> None:
        """Break the link, and wait until the broker has no session any more."""
        await self.stream.aclose()
        await broker.wait_until(lambda: not broker.sessions, timeout=60)


async def connected(broker: Broker, *, version: Version = Version.V1_2, **headers: str) -> RawClient:
    """A client in memory that is connected."""
    client = RawClient(broker.connect_stream(), version=version)
    await client.connect(**headers)
    return client
