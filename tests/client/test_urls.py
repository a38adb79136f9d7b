"""Broker URLs: what they say, and that no passcode gets out of them."""

from __future__ import annotations

import pytest

from trio_stomp.errors import LocalProtocolError
from trio_stomp.transport.urls import Endpoint, Transport


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("stomp://broker", Endpoint(host="broker", port=61613, tls=False)),
        ("stomps://broker", Endpoint(host="broker", port=61614, tls=True)),
        ("stomp://broker:1/", Endpoint(host="broker", port=1, tls=False)),
        ("stomp://broker/test", Endpoint(host="broker", port=61613, tls=False, vhost="test")),
        ("stomp://broker/%2Ftest", Endpoint(host="broker", port=61613, tls=False, vhost="/test")),
        ("stomp://u:p@broker", Endpoint(host="broker", port=61613, tls=False, login="u", passcode="p")),
        ("stomp://u:p,q@broker", Endpoint(host="broker", port=61613, tls=False, login="u", passcode="p,q")),
        (
            "stomp://a%40b:s3cret%3Ax%2F@broker",
            Endpoint(host="broker", port=61613, tls=False, login="a@b", passcode="s3cret:x/"),
        ),
        ("stomp://[::1]:7", Endpoint(host="::1", port=7, tls=False)),
        ("stomp://[fe80::1%25eth0]", Endpoint(host="fe80::1%eth0", port=61613, tls=False)),
        ("stomp://[fe80::1%eth0]", Endpoint(host="fe80::1%eth0", port=61613, tls=False)),
        ("stomp://a_b-c.example.", Endpoint(host="a_b-c.example.", port=61613, tls=False)),
        ("stomp://bücher.example", Endpoint(host="bücher.example", port=61613, tls=False)),
        ("STOMP://Broker", Endpoint(host="broker", port=61613, tls=False)),
        ("ws://broker", Endpoint(host="broker", port=80, tls=False, transport=Transport.WEBSOCKET)),
        (
            "wss://u:p@broker/stomp%20x?token=a%2Fb",
            Endpoint(
                host="broker",
                port=443,
                tls=True,
                login="u",
                passcode="p",
                transport=Transport.WEBSOCKET,
                resource="/stomp%20x?token=a%2Fb",
            ),
        ),
        ("stomp+unix:///run/a%20b", Endpoint(host="/run/a b", port=0, tls=False, transport=Transport.UNIX)),
        (
            "stomp+unix://u:p@/run/s",
            Endpoint(host="/run/s", port=0, tls=False, login="u", passcode="p", transport=Transport.UNIX),
        ),
    ],
)
def test_url_when_legal_then_every_part_is_read(url: str, expected: Endpoint) -> None:
    assert Endpoint.parse(url) == expected


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("broker:61613", "the broker URL has no scheme; write stomp://broker:61613, or stomps:// for TLS"),
        ("stomp://", "no host"),
        ("stomp://broker?heartbeat=5", "'?' or '#'"),
        ("stomp://broker#x", "'?' or '#'"),
        ("stomp://broker:port", "must be a number from 1 to 65535"),
        ("stomp://u:p[@broker", "cannot be read"),
        ("localhost:61613/test", "no scheme; write stomp://localhost:61613/test, or"),
        ("[::1]:61613", "no scheme; write stomp://[::1]:61613, or"),
        ("tcp://broker:61613", "scheme 'tcp'; write stomp://; expected"),
        ("stomp+ssl://broker:61614", "scheme 'stomp+ssl'; write stomps://; expected"),
        ("failover:(tcp://a:1,tcp://b:1)", "scheme 'failover'; write a list of URLs, such as ['stomp://first:61613', "),
        ("stomp://a:1,stomp://b:1", "the broker URL holds several URLs; write a list of URLs, such as"),
        ("stomp://a:1,b:1", "the broker URL holds several URLs; write a list of URLs, such as"),
        ("stomp://u:p,q@a,b/test", "the broker URL holds several URLs; write a list of URLs, such as"),
        ("https://broker/ws", "scheme 'https'; write wss://; expected"),
        ("", "the broker URL is empty; expected stomp://"),
        ("broker", "the broker URL has no scheme; put stomp:// before the host, or stomps:// for TLS"),
        ("ws://", "no host"),
        ("ws://broker/é", "percent-encoded"),
        ("ws://broker/a?b=é", "percent-encoded"),
        ("stomp+unix:///", "absolute path"),
        ("stomp+unix:run/s", "absolute path"),
        ("stomp+unix://host/run/s", "and no host"),
        ("stomp+unix://:1/run/s", "and no host"),
        ("stomp://broker:0", "port of the broker URL"),
        ("stomp://a b", "a space in its host"),
        (" stomp://broker", "a space in its scheme"),
        ("stomp://bro\nker", "a control character in its host"),
        ("stomp://user\\@broker", "a backslash in its user or passcode"),
        ("stomp://broker/a b", "a space in its path"),
        ("stomp://broker%0d%0a", "host of the broker URL"),
        ("stomp://..", "host of the broker URL"),
        (f"stomp://{'a' * 64}", "host of the broker URL"),
        (f"stomp://{'a.' * 200}", "host of the broker URL"),
        (f"stomp://{'ä' * 300}", "host of the broker URL"),
        (f"stomp://{'a' * 64}ä.example", "IDNA"),
        ("stomp://[v1.x]", "not an IPv6 address"),
        ("stomp://u%zz@broker", "user of the broker URL"),
        ("stomp://u:p%ff@broker", "passcode of the broker URL"),
        ("stomp://broker/%ff", "path of the broker URL"),
        ("stomp+unix:///run/s%00", "NUL"),
        (b"stomp://broker", "must be a str"),
    ],
)
def test_url_when_it_cannot_be_meant_then_error_says_what_was_expected(url: object, words: str) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        Endpoint.parse(url)
    assert words in str(caught.value)
    assert "broker URL" in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        *("stomp://u:hush-hush/@broker:1", "stomp://u:hush-hush[@b", "x://u:hush-hush@b", "stomp://u:hush-hush%@b"),
        *("stomp://u:hush-hush @b", "stomp://u:hush-hush%ff@b", "stomp://u:hush-hush@b b", "stomp://u:hush-hush@b:0"),
        *("u:hush-hush@b:1", "hush-hush@b:61613/v", "localhost:61613/?hush-hush"),
        *("failover:(tcp://u:hush-hush@b)", "stomp://u:hush-hush@b,stomp://b"),
        *("stomp://u:hush-hush\\@b", "stomp://u:hush-hush@..", "stomp://u:hush-hush@[b]", "stomp://u:\thush-hush/@b"),
    ],
)
def test_url_when_refused_then_no_passcode_is_shown(url: str) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        Endpoint.parse(url)
    assert "hush-hush" not in repr(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("stomps://user:hush-hush@broker:1/v", "stomps://broker:1"),
        ("stomp://[::1]", "stomp://[::1]:61613"),
        ("ws://u:hush-hush@broker/ws?token=hush-hush", "ws://broker:80/ws"),
        ("wss://broker:1", "wss://broker:1/"),
        ("ws://[::1]/ws", "ws://[::1]:80/ws"),
        ("stomp+unix://u:hush-hush@/run/s", "stomp+unix:///run/s"),
    ],
)
def test_endpoint_when_printed_then_it_is_a_url_without_secrets(url: str, shown: str) -> None:
    endpoint = Endpoint.parse(url)
    assert str(endpoint) == shown
    assert "hush-hush" not in repr(endpoint)


@pytest.mark.parametrize(
    ("url", "authority"),
    [
        ("ws://bücher.example:1", "xn--bcher-kva.example:1"),
        ("ws://[fe80::1%25eth0]:1", "[fe80::1]:1"),
        ("ws://Broker:1", "broker:1"),
        # RFC 9110, 7.2: Host is what the URL says. The name in TLS is another: RFC 6066, 3.
        ("wss://broker.example.:1", "broker.example.:1"),
    ],
)
def test_endpoint_when_carried_by_http_then_in_ascii_and_without_a_zone(url: str, authority: str) -> None:
    assert Endpoint.parse(url).ascii_authority == authority
