import pytest

from trio_stomp.cli.strangers import is_tls_alert, stranger


@pytest.mark.parametrize(
    ("octets", "name"),
    [
        (b"AMQP\x00\x00\x09\x01", "AMQP"),
        (b"HTTP/1.1 400 Bad Request\r\n", "HTTP"),
        (b"\x00\x00\x01\x3c\x01ActiveMQ\x00", "OpenWire"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "SSH"),
        (b"-ERR unknown command 'CONNECT'\r\n", "Redis"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "TLS"),
        (b"hello?", "something unknown, which begins with b'hello?'"),
    ],
)
def test_stranger_when_it_speaks_then_known_by_its_first_octets(octets: bytes, name: str) -> None:
    assert stranger(octets).startswith(name)


def test_tls_alert_when_seen_then_known() -> None:
    assert is_tls_alert(b"\x15\x03\x01\x00\x02\x02\x0a")
    assert not is_tls_alert(b"\x16\x03\x01")
    assert not is_tls_alert(b"")
