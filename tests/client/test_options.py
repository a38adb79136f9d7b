"""The options of connect(): checks, and secrets."""

from __future__ import annotations

import math
import ssl
from functools import partial

import pytest

import trio_stomp
from tests.client.connecting import refused
from trio_stomp import Hooks, LocalProtocolError
from trio_stomp.session.settings import Settings
from trio_stomp.testing import Broker
from trio_stomp.types import ConnectionInfo, ConnectOptions


async def refusal(urls: object, **options: object) -> str:
    with pytest.raises(LocalProtocolError) as caught:
        async with trio_stomp.connect(urls, **options):  # type: ignore[arg-type]  # what is refused
            raise AssertionError
    return str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"versions": ["1.3"]}, "versions must be a list of 1.0, 1.1, 1.2"),
        ({"versions": []}, "at least one, or ['draft']"),
        ({"versions": "1.2"}, "must be a list"),
        ({"versions": 1.2}, "versions must be a list of 1.0, 1.1, 1.2, at least one, or ['draft']; got 1.2"),
        ({"heart_beat": (-1, 0)}, "heart-beat intervals must be seconds of at least 0"),
        ({"heart_beat": (float("inf"), 0)}, "heart-beat intervals"),
        ({"heart_beat": (10000, 5000)}, "looks like milliseconds: use (10, 5)"),
        ({"heart_beat_margin": 0.5}, "heart_beat_margin must be at least 1"),
        ({"heart_beat_margin": "2"}, "heart_beat_margin must be at least 1 interval, got '2'"),
        ({"connect_timeout": 0}, "connect_timeout must be more than 0"),
        ({"connect_timeout": "5"}, "connect_timeout must be a number of seconds, got '5'"),
        ({"connect_timeout": True}, "connect_timeout must be a number of seconds, got True"),
        ({"connect_timeout": 1000}, "connect_timeout is in seconds, and 1000 looks like milliseconds"),
        ({"disconnect_timeout": -1}, "disconnect_timeout must be more than 0"),
        ({"disconnect_timeout": 1500.0}, "looks like milliseconds: use 1.5"),
        ({"connect_attempt_delay": 0}, "connect_attempt_delay must be more than 0 seconds, got 0"),
        ({"connect_attempt_delay": 2500}, "connect_attempt_delay is in seconds"),
        ({"profile": "kafka"}, "profile must be one of rabbitmq, activemq, artemis"),
        ({"profile": 5}, "profile must be the name of a broker, or a Profile, got 5"),
        ({"headers": {"a": 1}}, "header 'a': name and value must be str"),
        ({"websocket_headers": {"a": 1}}, "header 'a': name and value must be str"),
        ({"websocket_message_bytes": 3}, "websocket_message_bytes must be an int of at least 4, got 3"),
        ({"proxy": "ftp://p:1"}, "the proxy URL has scheme 'ftp'"),
        ({"proxy": 5}, "proxy URL must be a str"),
        ({"limits": 5}, "limits must be Limits, got 5"),
        ({"outbox_bytes": 0}, "outbox_bytes must be an int of at least 1, got 0"),
        ({"unconfirmed_messages": -1}, "unconfirmed_messages must be an int of at least 1, got -1"),
        ({"unconfirmed_bytes": True}, "unconfirmed_bytes must be an int of at least 1, got True"),
        (
            {"tls": "ca.pem"},
            "an ssl.SSLContext, True or False, got 'ca.pem': use ssl.create_default_context(cafile='ca.pem')",
        ),
        (
            {"tls": ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)},
            "tls is a context for servers: use ssl.create_default_context(cafile=...), without a purpose",
        ),
        ({"tls": None}, "tls must be an ssl.SSLContext, True or False, got None"),
        ({"reconnect": "yes"}, "reconnect must be a Reconnect, or True for its defaults, got 'yes'"),
        ({"login": 5}, "login must be a str, got a value of type int"),
        ({"passcode": b"hush-hush"}, "passcode must be a str, got a value of type bytes"),
        ({"vhost": 5}, "vhost must be a str, got a value of type int"),
        ({"credentials": ("me", "good")}, "credentials must be a function that returns user name and passcode"),
        ({"headers": "client-id:me"}, "headers must be a mapping such as {'type': 'order'}"),
        ({"hooks": 5}, "hooks must be Hooks, or a list of them, got 5"),
        ({"hooks": [print]}, "derive yours from trio_stomp.Hooks"),
    ],
)
async def test_option_when_it_cannot_be_meant_then_it_is_named(options: dict[str, object], words: str) -> None:
    assert words in await refusal("stomp://127.0.0.1:1", **options)


@pytest.mark.parametrize(
    "options",
    [
        {"heart_beat_margin": 1},
        {"connect_timeout": 999.9},
        {"disconnect_timeout": math.inf},
        {"websocket_message_bytes": 4},
    ],
)
async def test_option_when_it_is_at_its_bound_then_accepted(options: dict[str, object]) -> None:
    # Nothing listens there.
    assert "Connection refused" in str(await refused("stomp://127.0.0.1:1", **options))


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
async def test_urls_when_they_are_none_then_said_so(urls: object, words: str) -> None:
    assert words in await refusal(urls)


@pytest.mark.parametrize("urls", ["stomp+unix:///s", ["stomp://a", "stomp+unix:///s"]])
async def test_tls_when_it_is_for_a_unix_socket_then_refused(urls: object) -> None:
    assert "a Unix socket has no TLS" in await refusal(urls, tls=True)


async def test_profile_when_it_is_named_or_given_then_it_is_the_clients(broker: Broker) -> None:
    async with trio_stomp.connect_stream(broker.connect_stream(), profile="rabbitmq") as client:
        profile = client.profile
    assert profile.name == "RabbitMQ"
    async with trio_stomp.connect_stream(broker.connect_stream(), profile=profile) as client:
        assert client.profile is profile


async def test_hooks_when_there_are_several_then_they_are_called_in_order(broker: Broker) -> None:
    called: list[Hooks] = []

    class Told(Hooks):
        def connected(self, peer: ConnectionInfo) -> None:
            called.append(self)

    hooks = [Told(), Told()]
    async with trio_stomp.connect_stream(broker.connect_stream(), hooks=hooks):
        assert called == hooks


async def given(passcode: str) -> tuple[str, str]:  # noqa: ASYNC124  # as a program may pass it
    return "me", passcode


def test_settings_when_printed_then_no_secret_is_in_them() -> None:
    options: ConnectOptions = {
        "passcode": "hush-hush",
        "headers": {"authorization": "hush-hush"},
        "credentials": partial(given, "hush-hush"),
        "proxy": "socks5://u:hush-hush@p:1",
        "websocket_headers": {"Authorization": "Bearer hush-hush"},
    }
    settings = Settings.of(["stomp://u:hush-hush@b", "ws://u:hush-hush@b/ws?token=hush-hush"], options)
    assert settings.proxy is not None
    assert "hush-hush" not in repr(settings)
