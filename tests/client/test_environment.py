"""Connect options from environment variables."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trio
import trustme

import trio_stomp
import trio_stomp.blocking
from trio_stomp import LocalProtocolError, options_from_environment
from trio_stomp.testing import BrokerOptions, run_broker_in_thread

URL = "stomp://b1:61613"
SECRET = "hush-hush"


def test_options_when_all_are_set_then_each_has_its_type(tmp_path: Path) -> None:
    (tmp_path / "passcode").write_text(f"{SECRET}\nmore\n", encoding="utf-8")
    trustme.CA().cert_pem.write_to_path(tmp_path / "ca.pem")
    options = options_from_environment(
        {
            "TRIO_STOMP_URL": f"{URL}, stomp://b2:61613,stomp://b3 stomp://b4",
            "TRIO_STOMP_LOGIN": "me",
            "TRIO_STOMP_PASSCODE_FILE": str(tmp_path / "passcode"),
            "TRIO_STOMP_VHOST": "/orders",
            "TRIO_STOMP_TLS_CA_FILE": str(tmp_path / "ca.pem"),
            "TRIO_STOMP_HEART_BEAT": "5,7.5",
            "TRIO_STOMP_TIMEOUT": "1",
            "TRIO_STOMP_CONNECT_TIMEOUT": "2",
            "TRIO_STOMP_DISCONNECT_TIMEOUT": "3.5",
            "TRIO_STOMP_RECONNECT": "True",
            "TRIO_STOMP_PROFILE": "rabbitmq",
            "TRIO_STOMP_PROXY": "socks5://p:1080",
            "TRIO_STOMP_CONTEXT": "of the command",
            "HOME": "/",
        }
    )
    assert options.pop("profile").name == "RabbitMQ"
    context = options.pop("tls")
    assert isinstance(context, ssl.SSLContext)
    assert len(context.get_ca_certs()) == 1
    assert options == {
        "urls": [URL, "stomp://b2:61613", "stomp://b3", "stomp://b4"],
        "login": "me",
        "passcode": SECRET,
        "vhost": "/orders",
        "heart_beat": (5, 7.5),
        "timeout": 1,
        "connect_timeout": 2,
        "disconnect_timeout": 3.5,
        "reconnect": True,
        "proxy": "socks5://p:1080",
    }


def test_options_when_only_the_url_is_set_then_nothing_else_is_given() -> None:
    empty = {"TRIO_STOMP_LOGIN": "", "TRIO_STOMP_PASSCODE_FILE": "", "TRIO_STOMP_RECONNECT": ""}
    assert options_from_environment({"TRIO_STOMP_URL": URL, **empty}) == {"urls": [URL]}
    assert options_from_environment({"A_URL": URL, "A_HEART_BEAT": "3"}, prefix="A_") == {
        "urls": [URL],
        "heart_beat": (3, 3),
    }


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"TRIO_STOMP_URL": ""}, "TRIO_STOMP_URL is not set; for example TRIO_STOMP_URL=stomp://localhost:61613"),
        ({"TRIO_STOMP_URL": " , "}, "TRIO_STOMP_URL is not set"),
        ({"TRIO_STOMP_TIMEOUT": "5s"}, "TRIO_STOMP_TIMEOUT='5s' is invalid: could not convert"),
        ({"TRIO_STOMP_HEART_BEAT": "10;20"}, "TRIO_STOMP_HEART_BEAT='10;20' is invalid"),
        ({"TRIO_STOMP_RECONNECT": "maybe"}, "TRIO_STOMP_RECONNECT='maybe' is invalid: expected true or false"),
        ({"TRIO_STOMP_PROFILE": "rabbit"}, "TRIO_STOMP_PROFILE='rabbit' is invalid: profile must be one of rabbitmq"),
        (
            {"TRIO_STOMP_PASSCODE_FILE": SECRET},
            "file in the environment variable TRIO_STOMP_PASSCODE_FILE: No such file",
        ),
        ({"TRIO_STOMP_TIMEOUT": "nan"}, "TRIO_STOMP_... are invalid: timeout must be"),
        ({"TRIO_STOMP_CONNECT_TIMEOUT": "-1"}, "TRIO_STOMP_... are invalid: connect_timeout must be"),
        ({"TRIO_STOMP_HEART_BEAT": "10000"}, "heart_beat is in seconds"),
        ({"TRIO_STOMP_URL": "http://b"}, "TRIO_STOMP_... are invalid: .*stomp"),
        ({"TRIO_STOMP_TLS_CA_FILE": "/none"}, "TRIO_STOMP_TLS_CA_FILE='/none' is invalid: .*No such file"),
        ({"TRIO_STOMP_PASSCODE_FIEL": "/p"}, "no environment variable .*; did you mean TRIO_STOMP_PASSCODE_FILE"),
        ({"TRIO_STOMP_PASCODE": SECRET}, "no environment variable .*; did you mean TRIO_STOMP_PASSCODE"),
    ],
)
def test_options_when_a_variable_is_wrong_then_it_is_named_and_no_passcode_is_shown(
    variables: dict[str, str], words: str
) -> None:
    with pytest.raises(LocalProtocolError, match=words) as caught:
        options_from_environment({"TRIO_STOMP_URL": URL, **variables})
    assert SECRET not in str(caught.value)


def test_options_when_the_passcode_is_given_twice_or_its_file_is_empty_then_refused(tmp_path: Path) -> None:
    path = tmp_path / "passcode"
    path.write_text("\n", encoding="utf-8")
    both = {"TRIO_STOMP_URL": URL, "TRIO_STOMP_PASSCODE_FILE": str(path)}
    with pytest.raises(LocalProtocolError, match="its first line is empty"):
        options_from_environment(both)
    path.write_bytes(SECRET.encode() + b"\xff")
    with pytest.raises(LocalProtocolError, match="not text in UTF-8") as unreadable:
        options_from_environment(both)
    # Error trackers show the cause, too.
    assert unreadable.value.__cause__ is None
    assert unreadable.value.__suppress_context__
    path.write_text(SECRET, encoding="utf-8")
    with pytest.raises(LocalProtocolError, match="are both set; unset one") as caught:
        options_from_environment({**both, "TRIO_STOMP_PASSCODE": SECRET})
    assert SECRET not in str(caught.value)


def test_options_when_given_to_each_way_to_connect_then_it_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    with run_broker_in_thread(options=BrokerOptions(logins={"me": SECRET})) as broker:
        monkeypatch.setenv("TRIO_STOMP_URL", f"stomp://127.0.0.1:{broker.port}")
        monkeypatch.setenv("TRIO_STOMP_LOGIN", "me")
        monkeypatch.setenv("TRIO_STOMP_PASSCODE", SECRET)

        async def main() -> None:
            async with trio_stomp.connect(**options_from_environment()) as client:
                await client.send("/queue/a", b"1", receipt=True)
            async with await trio_stomp.open(**options_from_environment(), versions=["1.2"]) as client:
                await client.send("/queue/a", b"2", receipt=True)

        trio.run(main)
        with trio_stomp.blocking.connect(**options_from_environment()) as client:
            client.send("/queue/a", b"3", receipt=True)
        assert broker.call(lambda inner: inner.depth("/queue/a")) == 3
