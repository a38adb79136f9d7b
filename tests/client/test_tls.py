"""TLS over whatever carries the bytes: every way in which it can fail, over real sockets."""

from __future__ import annotations

import datetime as dt
import re
import socket
import ssl

import pytest
import trio
import trustme

import trio_stomp
from tests.client.connecting import refused
from tests.kit.certificates import client_context, server_context
from tests.kit.tunneling import open_resetting_port, open_silent_port
from trio_stomp.testing import open_broker

DAY = dt.timedelta(days=1)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.mark.parametrize("websocket", [False, True])
async def test_tls_when_the_certificate_is_trusted_then_connected(authority: trustme.CA, websocket: bool) -> None:
    async with open_broker(tls=server_context(authority), websocket=websocket) as broker:
        assert broker.url.startswith("wss://" if websocket else "stomps://")
        async with trio_stomp.connect(broker.url, tls=client_context(authority)) as client:
            await client.send("/queue/a", b"1", receipt=True)
            assert await client.disconnect() is trio_stomp.DisconnectResult.RECEIPT
        # A context with a URL without TLS is TLS that was requested, too.
        without = broker.url.replace("wss://", "ws://").replace("stomps://", "stomp://")
        async with trio_stomp.connect(without, tls=client_context(authority)):
            pass


async def test_tls_when_the_port_is_plain_then_never_plaintext(authority: trustme.CA) -> None:
    async with open_broker() as broker:
        error = await refused(f"stomps://guest:guest@127.0.0.1:{broker.port}", tls=client_context(authority))
        assert error.failures[0].step in ("tls", "timeout")
        assert "plain" in str(error)
        assert broker.statistics().received == {}


async def test_tls_when_the_port_wants_it_and_the_client_does_not_then_hint(authority: trustme.CA) -> None:
    async with open_broker(tls=server_context(authority)) as broker:
        error = await refused(f"stomp://guest:guest@127.0.0.1:{broker.port}")
    assert "TLS port" in str(error)


@pytest.mark.parametrize("websocket", [False, True])
async def test_tls_when_the_authority_is_not_known_then_how_to_name_it(authority: trustme.CA, websocket: bool) -> None:
    async with open_broker(tls=server_context(authority), websocket=websocket) as broker:
        for tls in (client_context(trustme.CA()), True):
            error = await refused(broker.url, tls=tls)
            assert error.failures[0].step == "tls"
            assert "the broker's certificate is not trusted: unable to get local issuer certificate" in str(error)
            assert "pass tls=<ssl.SSLContext with the CA that signed it>" in str(error)
        assert broker.statistics().received == {}


@pytest.mark.parametrize(
    ("begins", "ends", "words"),
    [(-2 * DAY, -DAY, "it has expired"), (DAY, 2 * DAY, "it is not valid yet: is the clock right?")],
)
async def test_tls_when_it_is_not_the_time_of_the_certificate_then_said_so(
    authority: trustme.CA, begins: dt.timedelta, ends: dt.timedelta, words: str
) -> None:
    now = dt.datetime.now(dt.UTC)
    async with open_broker(tls=server_context(authority, begins=now + begins, ends=now + ends)) as broker:
        error = await refused(broker.url, tls=client_context(authority))
    assert error.failures[0].step == "tls"
    assert words in str(error)


@pytest.mark.parametrize(
    ("name", "host", "words"),
    [
        ("broker.example", "localhost", "connect to a name that it is for"),
        ("localhost", "127.0.0.1", "connect to an address or a name that it is for"),
    ],
)
async def test_tls_when_the_certificate_is_for_another_name_then_said_so(
    authority: trustme.CA, name: str, host: str, words: str
) -> None:
    async with open_broker(tls=server_context(authority, name)) as broker:
        error = await refused(f"stomps://{host}:{broker.port}", tls=client_context(authority))
    assert error.failures[0].step == "tls"
    assert words in str(error)
    assert "mismatch" in str(error)


def refuse_one(listener: socket.socket, context: ssl.SSLContext) -> None:
    """A server that demands a certificate and says what it misses by an alert; trio's would close without a word."""
    link, _ = listener.accept()
    with context.wrap_socket(link, server_side=True, do_handshake_on_connect=False) as secured:
        with pytest.raises(ssl.SSLError):
            secured.do_handshake()
        # Closed with unread bytes, the link would be reset, and the alert be lost with it.
        while socket.socket.recv(secured, 4096):
            pass


@pytest.mark.parametrize("shows_one", [False, True])
async def test_tls_when_a_client_certificate_is_demanded_then_how_to_show_one(
    authority: trustme.CA, shows_one: bool
) -> None:
    context = server_context(authority, demands=trustme.CA())
    tls = client_context(authority, certificate_of=trustme.CA() if shows_one else None)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, refuse_one, listener, context)
            error = await refused(f"stomps://127.0.0.1:{listener.getsockname()[1]}", tls=tls)
    assert error.failures[0].step == "tls"
    assert "the broker demands a client certificate that it trusts" in str(error)
    assert "load one into the context that you pass as tls=, by its load_cert_chain()" in str(error)


async def test_tls_when_a_client_certificate_is_missing_and_the_broker_just_closes_then_hint_at_it(
    authority: trustme.CA,
) -> None:
    theirs = trustme.CA()
    async with open_broker(tls=server_context(authority, demands=theirs)) as broker:
        error = await refused(broker.url, tls=client_context(authority))
        assert error.failures[0].step == "connect"
        # A reset may overtake the end.
        assert re.search("closed the connection instead of answering CONNECT|broke during CONNECT", str(error))
        assert "If it demands a client certificate, load one into the context" in str(error)
        async with trio_stomp.connect(broker.url, tls=client_context(authority, certificate_of=theirs)):
            pass


ERROR = b"ERROR\nmessage:what is this?\n\n\0"
PLAIN_STOMP = "this is a plain STOMP port: use stomp://, or the broker's port for TLS, usually 61614"


@pytest.mark.parametrize(
    ("scheme", "says", "words"),
    [
        ("stomps", ERROR, PLAIN_STOMP),
        ("stomps", b"\n\nCONNECTED\nversion:1.0\n\n\0", PLAIN_STOMP),
        ("wss", ERROR, PLAIN_STOMP),
        (
            "stomps",
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            "this port speaks HTTP: STOMP over WebSocket needs a URL",
        ),
        ("wss", b"HTTP/1.1 400 Bad Request\r\n\r\n", "this port speaks HTTP without TLS: use ws://"),
        ("stomps", b"AMQP\0\0\x09\x01", "this port speaks AMQP: use the broker's STOMP port"),
        ("stomps", b"E", "its answer begins with b'E'. Try stomp://, or"),
        ("stomps", b"220 mail", "this port speaks SMTP or FTP"),
        ("stomps", b"\0\0\0\0\0\0", "its answer begins with b'\\x00\\x00\\x00\\x00\\x00\\x00'. Try stomp://, or"),
        ("wss", b"\x16\x02\0\0\0\0", "its answer begins with b'\\x16\\x02\\x00\\x00\\x00\\x00'. Try ws://, or"),
    ],
)
async def test_tls_when_the_port_does_not_speak_it_then_what_it_speaks_and_what_to_try(
    scheme: str, says: bytes, words: str
) -> None:
    async with open_silent_port(says) as port:
        error = await refused(f"{scheme}://127.0.0.1:{port}")
    assert error.failures[0].step == "tls"
    assert error.failures[0].reason.startswith(f"the server does not speak TLS on this port; {words}")


@pytest.mark.parametrize("says", [b"", b"\x16", b"\x16\x03\x01"])
async def test_tls_when_the_port_closes_before_it_has_said_anything_else_then_what_to_try(says: bytes) -> None:
    async with open_silent_port(says) as port:
        error = await refused(f"stomps://127.0.0.1:{port}")
    assert error.failures[0].step == "tls"
    assert "closed the connection during the TLS handshake; is this its plain STOMP port? Then try stomp://" in str(
        error
    )


@pytest.mark.parametrize(
    ("alert", "words"),
    [
        # handshake_failure has more meanings than one.
        (40, "has the broker a version and a cipher in common with tls=? If it demands a client certificate, load"),
        (80, "alert internal error"),
    ],
)
async def test_tls_when_the_broker_ends_the_handshake_by_an_alert_then_it_is_told(alert: int, words: str) -> None:
    async with open_silent_port(b"\x15\x03\x03\x00\x02\x02%c" % alert) as port:
        error = await refused(f"stomps://127.0.0.1:{port}")
    assert error.failures[0].step == "tls"
    assert error.failures[0].reason.startswith("the TLS handshake failed: ")
    assert words in error.failures[0].reason


async def test_tls_when_the_link_is_reset_in_the_handshake_then_said_so() -> None:
    async with open_resetting_port() as port:
        error = await refused(f"stomps://127.0.0.1:{port}")
    assert error.failures[0].step == "tls"
    assert error.failures[0].reason.startswith("the TLS handshake failed: ")
    assert "Connection reset by peer" in error.failures[0].reason
