"""Text that a peer chooses costs linear time, and what it raises is an error of this library.

Each parser of such text is in the table, and gets 64 KiB of each shape. A parser that takes less than `HARMLESS`
seconds for it is fast enough whatever its growth; of the others four times as much text must take about four times as
long, and not sixteen times.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import pytest
import trio
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

import trio_stomp
from trio_stomp import AckMode, StompError
from trio_stomp.brokers import (
    ACTIVEMQ,
    RABBITMQ,
    delivery_number,
    is_authentication_refusal,
    is_link_trouble,
    profile_for,
    stream_offset_of,
    swallowed_for,
)
from trio_stomp.cli.move import origin_of
from trio_stomp.otel.context import carries_context
from trio_stomp.otel.conventions import describe
from trio_stomp.printable import harmless
from trio_stomp.protocol import ClientProtocol, HeartBeatOffer, ServerInfo, ServerProtocol, charset_of, is_mime_type
from trio_stomp.session.bodies import AS_JSON, AS_TEXT, codec_of
from trio_stomp.testing import Refusal
from trio_stomp.testing.selector import Selector
from trio_stomp.transport.websocket_messages import fragments, stomp_frames
from trio_stomp.types import ConnectionInfo, ConnectOptions, Headers, Sending

SIZE = 64 * 1024
HARMLESS = 0.01
# Linear is 4 and quadratic is 16; the rest is for a machine that does other things as well.
GROWTH = 9.0

UNITS = (
    *"a09 \t,;:\\'\"([{/%=-.@\r\n\0\x1b\x85é€\U0001f600",
    *(
        "\\\\",
        "\\c",
        "''",
        "@@",
        "'.",
        "'. ",
        "5,",
        "5 ,",
        "1.2,",
        "a=b;",
        ";a=b",
        '\\"',
        ";charset*0=a",
        "user name [",
    ),
    *("virtual host ", "did not receive data ", "heart-", "access", "not authori", "username or ", "a AND ", "a = "),
    *("a='b' AND ", "a=1 AND ", "temp-queue/", "replies-", "replies-0", '{"a":', '["', "1e9", "\n\n", "\r\n", "\n:"),
    *("HTTP/1.1 ", "HTTP/1.1 200 OK\r\n", "x: y\r\n", "Location: a\r\n", "a,", " ,", "00-", "content-length:1", "T_"),
)


CONTEXT: Final = ssl.create_default_context()
PEER: Final = ConnectionInfo(endpoint="stomp://h:1", host="h", port=1, broker="RabbitMQ", server=None)


def frames_of_a_broker(text: bytes) -> None:
    protocol = ClientProtocol()
    protocol.connect(host="h")
    protocol.receive_data(b"CONNECTED\nversion:1.2\n\n\0")
    protocol.subscribe("s-1", "/queue/a", AckMode.CLIENT_INDIVIDUAL)
    protocol.receive_data(text)


def connected_by(headers: bytes) -> None:
    protocol = ClientProtocol(tolerances_for=lambda server: profile_for(server).tolerances)
    protocol.connect(host="h", offer=HeartBeatOffer.of_seconds(1, 1))
    protocol.receive_data(b"CONNECTED\n" + headers + b"\n\n\0")


def frames_of_a_client(text: bytes) -> None:
    protocol = ServerProtocol()
    protocol.receive_data(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
    protocol.receive_data(text)


def connect_by(headers: bytes) -> None:
    ServerProtocol().receive_data(b"CONNECT\n" + headers + b"\n\n\0")


def delivery_count(text: str) -> None:
    for profile in (RABBITMQ, ACTIVEMQ):
        profile.delivery_count_of(Headers({"redelivered": "true", profile.delivery_count_header or "": text}.items()))


def trace_headers(text: str) -> None:
    propagator = CompositePropagator([TraceContextTextMapPropagator(), W3CBaggagePropagator()])
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    for headers in ({"traceparent": text}, {"traceparent": parent, "tracestate": text}, {"baggage": text}):
        message = Sending(
            destination="/queue/a", body_bytes=0, transaction=None, is_request=False, confirmed=False, _headers=[]
        )
        for name, value in headers.items():
            message.add_header(name, value.replace("\n", " ").replace("\0", " "))
        carries_context(message, propagator)


def selectors(text: str) -> None:
    for selector in (text, f"a = {text}", f"a = '{text}", f"a = 'b' {text}", f"a = 5 AND {text}", f"a = 1{text}"):
        Selector.parse(selector).matches([("a", "1")])
    Selector.parse("a = 5").matches([("a", text)])


def plain(text: str) -> bytes:
    return text.replace("\n", "").replace("\0", "").encode()


def as_frames(line: bytes) -> bytes:
    return b"MESSAGE\nsubscription:s-1\ndestination:/queue/a\nmessage-id:m\nack:a\n" + line + b"\n\n\0"


PARSERS: dict[str, Callable[[str], object]] = {
    "frames of a broker": lambda text: frames_of_a_broker(text.encode()),
    "header value": lambda text: frames_of_a_broker(as_frames(b"x:" + text.encode())),
    "header line": lambda text: frames_of_a_broker(as_frames(text.encode())),
    "content-length": lambda text: frames_of_a_broker(as_frames(b"content-length:" + text.encode())),
    "receipt-id": lambda text: frames_of_a_broker(b"RECEIPT\nreceipt-id:" + text.encode() + b"\n\n\0"),
    "run of receipts": lambda text: frames_of_a_broker(b"RECEIPT\nreceipt-id:1\n\n\0" * 2 + text.encode()),
    "ERROR": lambda text: frames_of_a_broker(b"ERROR\nmessage:" + text.encode() + b"\n\n" + text.encode() + b"\0"),
    "version": lambda text: connected_by(b"version:" + text.encode()),
    "heart-beat of CONNECTED": lambda text: connected_by(b"version:1.2\nheart-beat:" + text.encode()),
    "server of CONNECTED": lambda text: connected_by(b"version:1.2\nserver:" + text.encode()),
    "heart-beat": HeartBeatOffer.parse,
    "server": ServerInfo.parse,
    "server of a profile": profile_for,
    "frames of a client": lambda text: frames_of_a_client(text.encode()),
    "accept-version": lambda text: connect_by(b"host:h\naccept-version:" + text.encode()),
    "heart-beat of CONNECT": lambda text: connect_by(b"host:h\naccept-version:1.2\nheart-beat:" + text.encode()),
    "MIME type": is_mime_type,
    "content-type": charset_of,
    "content-type, parameters": lambda text: charset_of("text/plain;" + text),
    "content-type, quoted": lambda text: charset_of('text/plain;x="' + text),
    "content-type, charset": lambda text: charset_of("text/plain;charset=" + text),
    "body as text": lambda text: AS_TEXT.decode(text.encode(), "text/plain;charset=" + text, "m"),
    "body as JSON": lambda text: AS_JSON.decode(text.encode(), "application/json", "m"),
    "body by its type": lambda text: codec_of(None).decode(text.encode(), "application/json", "m"),
    "refused login": lambda text: is_authentication_refusal(text, text.encode()),
    "link trouble": lambda text: is_link_trouble(text, text.encode()),
    "late delivery": lambda text: swallowed_for(b"There is no current subscription with tag 'T_" + text.encode()),
    "delivery number": delivery_number,
    "delivery number behind its mark": lambda text: delivery_number("T_1@@session@@" + text),
    "delivery count": delivery_count,
    "stream offset": lambda text: stream_offset_of(Headers([("x-stream-offset", text)])),
    "selector": selectors,
    "context of a trace": trace_headers,
    "destination in a span": lambda text: describe(PEER, "receive", "receive", text),
    "WebSocket message": lambda text: fragments(text.encode()),
    "frames for WebSocket": lambda text: list(stomp_frames(b"SEND\nx:" + plain(text) + b"\n\n\0")),
    "terminal": harmless,
    "dead letter": lambda text: origin_of({"x-first-death-queue": text}, text),
}


def seconds(parse: Callable[[str], object], text: str, runs: int) -> float:
    best = float("inf")
    for _ in range(runs):
        started = time.thread_time()
        with suppress(StompError, Refusal):
            parse(text)
        best = min(best, time.thread_time() - started)
    return best


def check(parse: Callable[[str], object], unit: str) -> None:
    for end in ("", "!"):
        whole = unit * (SIZE // len(unit)) + end
        if seconds(parse, whole, 1) < HARMLESS:
            continue
        quarter = unit * (SIZE // 4 // len(unit)) + end
        spent, before = seconds(parse, whole, 3), seconds(parse, quarter, 3)
        assert spent < HARMLESS or spent < GROWTH * before, f"{unit!r}: {spent:.3f} s, a quarter of it {before:.3f} s"


@pytest.mark.parametrize("parser", PARSERS)
def test_text_of_a_peer_when_long_then_takes_linear_time_and_raises_our_errors(parser: str) -> None:
    for unit in UNITS:
        check(PARSERS[parser], unit)


async def answer(listener: trio.SocketListener, data: bytes) -> None:
    async def serve(stream: trio.SocketStream) -> None:
        try:
            await stream.receive_some()
            await stream.send_all(data)
        except trio.BrokenResourceError:
            pass  # refused in the middle of it
        await stream.aclose()

    await trio.serve_listeners(serve, [listener])


async def connect_to(data: bytes, url: str, proxy: str | None) -> float:
    """Seconds of this thread for connecting to a server that answers with these bytes."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer, listener, data)
        started = time.thread_time()
        # Made once: reading the authorities of the machine costs more than all else here.
        options = ConnectOptions(tls=CONTEXT) if url.startswith("stomps") else ConnectOptions()
        if proxy is not None:
            options["proxy"] = proxy.format(port)
        with pytest.raises(StompError):
            async with trio_stomp.connect(url.format(port), **options):
                pass
        spent = time.thread_time() - started
        nursery.cancel_scope.cancel()
    return spent


@pytest.mark.parametrize("begin", [b"", b"HTTP/1.1 ", b"HTTP/1.1 302 Found\r\nLocation: ", b"ERROR\nmessage:"])
@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("stomp://127.0.0.1:{}", None),
        ("stomps://127.0.0.1:{}", None),
        ("ws://127.0.0.1:{}/", None),
        ("stomp://broker:61613", "http://127.0.0.1:{}"),
        ("stomp://broker:61613", "socks5://127.0.0.1:{}"),
    ],
)
async def test_connect_when_the_answer_is_long_and_hostile_then_fails_in_linear_time(
    begin: bytes, url: str, proxy: str | None
) -> None:
    for unit in map(str.encode, UNITS):

        async def spent(size: int, unit: bytes = unit) -> float:
            return await connect_to(begin + unit * (size // len(unit)) + b"\n\n\0", url, proxy)

        if await spent(SIZE) >= HARMLESS * 2:
            whole = min([await spent(SIZE) for _ in range(3)])
            quarter = min([await spent(SIZE // 4) for _ in range(3)])
            assert whole < HARMLESS * 2 or whole < GROWTH * quarter, f"{unit!r}: {whole:.3f} s, quarter {quarter:.3f} s"
