"""The options of connect(): defaults, checks, and secrets."""

from __future__ import annotations

import re
from functools import partial

import pytest

from trio_stomp import Hooks, Limits, Reconnect
from trio_stomp.brokers import ARTEMIS, RABBITMQ
from trio_stomp.errors import LocalProtocolError
from trio_stomp.protocol import HeartBeatOffer
from trio_stomp.session.settings import Settings
from trio_stomp.transport import Endpoint, Proxy
from trio_stomp.types import ConnectOptions, Version


def test_settings_when_nothing_is_given_then_defaults_are_those_of_the_docs() -> None:
    settings = Settings.of("stomp://b", {})
    assert settings.heart_beat == HeartBeatOffer(can_ms=10_000, want_ms=10_000)
    assert settings.versions == (Version.V1_0, Version.V1_1, Version.V1_2)
    assert (settings.connect_timeout, settings.disconnect_timeout) == (10, 10)
    assert settings.heart_beat_margin == 2.5
    assert settings.outbox_bytes == 1024 * 1024
    assert settings.tls is False
    assert settings.profile is None


def test_settings_when_urls_are_a_list_then_their_order_is_kept() -> None:
    settings = Settings.of(["stomp://a", "stomps://b:1"], {})
    assert [str(endpoint) for endpoint in settings.endpoints] == ["stomp://a:61613", "stomps://b:1"]


def test_settings_when_the_margin_is_one_interval_then_it_is_accepted() -> None:
    assert Settings.of("stomp://b", {"heart_beat_margin": 1}).heart_beat_margin == 1


def test_settings_when_a_time_is_below_a_thousand_seconds_then_it_is_accepted_and_no_longer_one() -> None:
    assert Settings.of("stomp://b", {"connect_timeout": 999.9}).connect_timeout == 999.9
    with pytest.raises(LocalProtocolError, match="connect_timeout is in seconds, and 1000 looks like milliseconds"):
        Settings.of("stomp://b", {"connect_timeout": 1000})


def test_settings_when_websocket_messages_are_to_be_tiny_then_four_bytes_are_the_least() -> None:
    assert Settings.of("ws://b", {"websocket_message_bytes": 4}).websocket_message_bytes == 4
    with pytest.raises(LocalProtocolError, match="websocket_message_bytes must be an int of at least 4, got 3"):
        Settings.of("ws://b", {"websocket_message_bytes": 3})


def test_settings_when_profile_is_named_then_it_is_found() -> None:
    assert Settings.of("stomp://b", {"profile": "rabbitmq"}).profile is RABBITMQ
    assert Settings.of("stomp://b", {"profile": ARTEMIS}).profile is ARTEMIS


def test_settings_when_versions_are_named_then_they_are_sorted_and_single() -> None:
    settings = Settings.of("stomp://b", {"versions": ["1.2", "1.1", "1.2"]})
    assert settings.versions == (Version.V1_1, Version.V1_2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"versions": ["1.3"]}, "versions must be a list of 1.0, 1.1, 1.2"),
        ({"versions": []}, "at least one, or ['draft']"),
        ({"versions": "draft"}, "must be a list"),
        ({"versions": "1.2"}, "must be a list"),
        ({"heart_beat": (-1, 0)}, "heart-beat intervals must be seconds of at least 0"),
        ({"heart_beat": (float("inf"), 0)}, "heart-beat intervals"),
        ({"heart_beat_margin": 0.5}, "heart_beat_margin must be at least 1"),
        ({"connect_timeout": 0}, "connect_timeout must be more than 0"),
        ({"disconnect_timeout": -1}, "disconnect_timeout must be more than 0"),
        ({"profile": "kafka"}, "profile must be one of rabbitmq, activemq, artemis"),
        ({"headers": {"a": 1}}, "header 'a': name and value must be str"),
        ({"websocket_headers": {"a": 1}}, "header 'a': name and value must be str"),
        ({"proxy": "ftp://p:1"}, "the proxy URL has scheme 'ftp'"),
        ({"versions": 1.2}, "versions must be a list of 1.0, 1.1, 1.2, at least one, or ['draft']; got 1.2"),
        ({"heart_beat": "10"}, "heart_beat must be a pair of seconds, such as (10, 10), got '10'"),
        ({"heart_beat": (1, 2, 3)}, "heart_beat must be a pair of seconds, such as (10, 10), got (1, 2, 3)"),
        ({"heart_beat": 10}, "sent and received, got 10: use heart_beat=(10, 10)"),
        ({"heart_beat_margin": "2"}, "heart_beat_margin must be at least 1 interval, got '2'"),
        ({"connect_timeout": "5"}, "connect_timeout must be a number of seconds, got '5'"),
        ({"connect_timeout": True}, "connect_timeout must be a number of seconds, got True"),
        ({"connect_attempt_delay": 0}, "connect_attempt_delay must be more than 0 seconds, got 0"),
        ({"profile": 5}, "profile must be the name of a broker, or a Profile, got 5"),
        ({"limits": 5}, "limits must be Limits, got 5"),
        ({"outbox_bytes": 0}, "outbox_bytes must be an int of at least 1, got 0"),
        ({"outbox_bytes": 1.5}, "outbox_bytes must be an int of at least 1, got 1.5"),
        ({"unconfirmed_messages": -1}, "unconfirmed_messages must be an int of at least 1, got -1"),
        ({"unconfirmed_bytes": True}, "unconfirmed_bytes must be an int of at least 1, got True"),
    ],
)
def test_settings_when_an_option_cannot_be_meant_then_it_is_named(options: dict[str, object], words: str) -> None:
    with pytest.raises(LocalProtocolError, match=re.escape(words)):
        Settings.of("stomp://b", options)


def test_settings_when_no_url_then_error() -> None:
    with pytest.raises(LocalProtocolError, match="at least one broker URL"):
        Settings.of([], {})


def test_settings_when_shown_then_no_secret_is_in_it() -> None:
    settings = Settings.of(
        "stomp://u:hush-url@b",
        {
            "passcode": "hush-option",
            "headers": {"authorization": "hush-header"},
            "credentials": partial(given_credentials, "hush-argument"),
        },
    )
    assert "hush" not in repr(settings)


def test_hooks_when_one_or_several_are_given_then_kept_in_order() -> None:
    first, second = Hooks(), Hooks()
    assert Settings.of("stomp://b", {}).hooks == ()
    assert Settings.of("stomp://b", {"hooks": first}).hooks == (first,)
    assert Settings.of("stomp://b", {"hooks": [first, second]}).hooks == (first, second)


def test_hooks_when_they_are_something_else_then_error_says_what_to_do() -> None:
    with pytest.raises(LocalProtocolError, match=r"hooks must be Hooks.*derive yours from trio_stomp\.Hooks"):
        Settings.of("stomp://b", {"hooks": [print]})


@pytest.mark.parametrize("url", ["stomp+unix:///s", ["stomp://a", "stomp+unix:///s"]])
def test_settings_when_a_unix_socket_is_to_have_tls_then_refused(url: str | list[str]) -> None:
    with pytest.raises(LocalProtocolError, match="a Unix socket has no TLS"):
        Settings.of(url, {"tls": True})


def test_settings_when_printed_then_what_is_for_the_way_stays_out() -> None:
    options: ConnectOptions = {
        "proxy": "socks5://u:hush-hush@p:1",
        "websocket_headers": {"Authorization": "Bearer hush-hush"},
    }
    settings = Settings.of("ws://u:hush-hush@b/ws?token=hush-hush", options)
    assert settings.proxy is not None
    assert "hush-hush" not in repr(settings)


@pytest.mark.parametrize(
    ("urls", "words"),
    [
        (None, "a broker URL as str, or a list of them, got NoneType"),
        (5, "a broker URL as str, or a list of them, got int"),
        (b"stomp://broker", "broker URL"),
        ([b"stomp://broker"], "broker URL"),
        (["stomp://broker", None], "broker URL"),
        ([], "at least one broker URL"),
    ],
)
def test_settings_when_the_urls_are_none_then_local_protocol_error(urls: object, words: str) -> None:
    with pytest.raises(LocalProtocolError, match=words):
        Settings.of(urls, {})  # type: ignore[arg-type]  # what a type checker would refuse


@pytest.mark.parametrize("proxy", [5, b"http://proxy:1"])
def test_settings_when_the_proxy_is_no_url_then_local_protocol_error(proxy: object) -> None:
    with pytest.raises(LocalProtocolError, match="proxy URL must be a str"):
        Settings.of("stomp://broker", {"proxy": proxy})


async def given_credentials(passcode: str) -> tuple[str, str]:  # noqa: ASYNC124  # as a program may pass it
    return "me", passcode


async def credentials() -> tuple[str, str]:  # noqa: ASYNC124  # as a program may pass it
    return "me", "secret"


def test_settings_when_each_option_is_given_then_each_is_kept() -> None:
    hooks, limits, reconnect = Hooks(), Limits(body_bytes=7), Reconnect(attempts=7)
    options: ConnectOptions = {
        "login": "me",
        "passcode": "secret",
        "credentials": credentials,
        "vhost": "v",
        "versions": ["1.1"],
        "heart_beat": (1, 2),
        "heart_beat_margin": 7,
        "tls": True,
        "limits": limits,
        "profile": "artemis",
        "connect_timeout": 7,
        "disconnect_timeout": 8,
        "outbox_bytes": 9,
        "reconnect": reconnect,
        "connect_attempt_delay": 10,
        "unconfirmed_messages": 11,
        "unconfirmed_bytes": 12,
        "headers": {"a": "1"},
        "hooks": hooks,
        "proxy": "http://p:1",
        "websocket_headers": {"b": "2"},
        "websocket_message_bytes": 1 << 20,
    }
    settings = Settings.of("stomp://b", options)
    assert settings == Settings(
        endpoints=(Endpoint.parse("stomp://b"),),
        login="me",
        passcode="secret",
        credentials=credentials,
        vhost="v",
        versions=(Version.V1_1,),
        heart_beat=HeartBeatOffer(can_ms=1000, want_ms=2000),
        heart_beat_margin=7,
        tls=True,
        limits=limits,
        profile=ARTEMIS,
        connect_timeout=7,
        disconnect_timeout=8,
        outbox_bytes=9,
        reconnect=reconnect,
        connect_attempt_delay=10,
        unconfirmed_messages=11,
        unconfirmed_bytes=12,
        headers=(("a", "1"),),
        hooks=(hooks,),
        proxy=Proxy.parse("http://p:1"),
        websocket_headers=(("b", "2"),),
        websocket_message_bytes=1 << 20,
    )
