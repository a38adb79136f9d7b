"""Proxy URLs: what they say, and that no passcode gets out of them."""

from __future__ import annotations

import pytest

from trio_stomp.errors import LocalProtocolError
from trio_stomp.transport.proxies import Proxy


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("socks5://proxy:1080", Proxy(scheme="socks5", host="proxy", port=1080)),
        ("http://proxy:3128/", Proxy(scheme="http", host="proxy", port=3128)),
        ("http://[::1]:3128", Proxy(scheme="http", host="::1", port=3128)),
        (
            "socks5://a%40b:p%3Aw@proxy:1",
            Proxy(scheme="socks5", host="proxy", port=1, login="a@b", passcode="p:w"),
        ),
        ("http://token@proxy:1", Proxy(scheme="http", host="proxy", port=1, login="token")),
    ],
)
def test_proxy_when_the_url_is_legal_then_every_part_is_read(url: str, expected: Proxy) -> None:
    assert Proxy.parse(url) == expected


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("socks4://proxy:1", "scheme 'socks4'"),
        ("https://proxy:1", "scheme 'https'"),
        ("proxy:1080", "scheme 'proxy'"),
        ("socks5://proxy", "host and port"),
        ("socks5://:1080", "host and port"),
        ("http://proxy:port", "cannot be read"),
        ("http://u:hush-hush[@proxy:1", "cannot be read"),
        ("http://u:hush-hush@proxy:1/path", "more than host and port"),
        ("http://proxy:1?a=hush-hush", "more than host and port"),
        ("socks5://u:hush-hush%C3%A4@proxy:1", "ASCII"),
        (f"socks5://u:hush-hush{'x' * 255}@proxy:1", "1 to 255 octets"),
        ("socks5://:hush-hush@proxy:1", "1 to 255 octets"),
        ("socks5://u@proxy:1", "or neither"),
        ("http://proxy:0", "port of the proxy URL"),
        ("http://a b:1", "a space in its host"),
        ("http://h\r\nX:1", "a control character in its host"),
        ("http://h%0d%0aX:1", "host of the proxy URL"),
        ("http://u:hush-hush%@h:1", "passcode of the proxy URL"),
        ("http://u%3A:hush-hush@h:1", "cannot hold a colon"),
        (b"http://h:1", "must be a str"),
    ],
)
def test_proxy_when_the_url_cannot_be_meant_then_said_so_without_the_passcode(url: object, words: str) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        Proxy.parse(url)
    assert words in str(caught.value)
    assert "hush-hush" not in repr(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_proxy_when_printed_then_login_and_passcode_stay_out() -> None:
    proxy = Proxy.parse("socks5://user:hush-hush@[::1]:1080")
    assert str(proxy) == "socks5://[::1]:1080"
    assert "hush-hush" not in repr(proxy)
