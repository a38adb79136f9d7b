"""Broker URLs: what they say, and that no passcode gets out of them."""

from __future__ import annotations

import pytest

from trio_stomp.client.urls import Endpoint
from trio_stomp.errors import LocalProtocolError


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("stomp://broker", Endpoint(host="broker", port=61613, tls=False)),
        ("stomps://broker", Endpoint(host="broker", port=61614, tls=True)),
        ("stomp://broker:1/", Endpoint(host="broker", port=1, tls=False)),
        ("stomp://broker/test", Endpoint(host="broker", port=61613, tls=False, vhost="test")),
        ("stomp://broker/%2Ftest", Endpoint(host="broker", port=61613, tls=False, vhost="/test")),
        ("stomp://u:p@broker", Endpoint(host="broker", port=61613, tls=False, login="u", passcode="p")),
        (
            "stomp://a%40b:s3cret%3Ax%2F@broker",
            Endpoint(host="broker", port=61613, tls=False, login="a@b", passcode="s3cret:x/"),
        ),
        ("stomp://[::1]:7", Endpoint(host="::1", port=7, tls=False)),
        ("STOMP://Broker", Endpoint(host="broker", port=61613, tls=False)),
    ],
)
def test_url_when_legal_then_every_part_is_read(url: str, expected: Endpoint) -> None:
    assert Endpoint.parse(url) == expected


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://broker", "scheme 'http'"),
        ("broker:61613", "scheme 'broker'"),
        ("stomp://", "no host"),
        ("stomp://:61613", "no host"),
        ("stomp://broker?heartbeat=5", "'?' or '#'"),
        ("stomp://broker#x", "'?' or '#'"),
        ("stomp://broker:port", "cannot be read"),
        ("stomp://broker:99999", "cannot be read"),
        ("stomp://u:p[@broker", "cannot be read"),
        ("", "scheme ''"),
    ],
)
def test_url_when_it_cannot_be_meant_then_error_says_what_was_expected(url: str, words: str) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        Endpoint.parse(url)
    assert words in str(caught.value)
    assert "stomp" in str(caught.value)


@pytest.mark.parametrize("url", ["stomp://u:hush-hush/@broker:1", "stomp://u:hush-hush[@b", "x://u:hush-hush@b"])
def test_url_when_refused_then_no_passcode_is_shown(url: str) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        Endpoint.parse(url)
    assert "hush-hush" not in repr(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_endpoint_when_printed_then_login_and_passcode_stay_out() -> None:
    endpoint = Endpoint.parse("stomps://user:hush-hush@broker:1/v")
    assert str(endpoint) == "stomps://broker:1"
    assert "hush-hush" not in repr(endpoint)


def test_endpoint_when_host_is_ipv6_then_printed_in_brackets() -> None:
    assert str(Endpoint.parse("stomp://[::1]")) == "stomp://[::1]:61613"
