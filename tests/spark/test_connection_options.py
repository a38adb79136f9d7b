import pickle
import re
from pathlib import Path

import pytest
import trio
import trustme

from tests.kit.certificates import server_context, write_client_files
from trio_stomp.errors import AuthenticationError, ConnectError, StompError
from trio_stomp.spark import OptionError
from trio_stomp.spark.connection_options import ConnectionOptions
from trio_stomp.spark.option_reader import OptionReader
from trio_stomp.testing import BrokerOptions, open_broker, run_broker_in_thread


def read(**options: str) -> ConnectionOptions:
    return ConnectionOptions.read(OptionReader(options))


def test_brokers_when_they_are_a_list_then_tried_in_its_order() -> None:
    assert read(brokers="stomp://a:1, b:2,c").urls == ("stomp://a:1", "stomp://b:2", "stomp://c")


@pytest.mark.parametrize("brokers", ["http://a", "stomp://", "stomp://a?x=1", "stomp://a/vhost", "", ","])
def test_brokers_when_no_such_list_then_refused(brokers: str) -> None:
    with pytest.raises(OptionError, match="'brokers'"):
        read(brokers=brokers)


@pytest.mark.parametrize("brokers", ["localhost:abc", "a:1,localhost:abc", "localhost:99999", "stomp://[::1"])
def test_brokers_when_a_port_is_invalid_then_the_error_names_it(brokers: str) -> None:
    entry = brokers.rpartition(",")[2]
    with pytest.raises(OptionError) as caught:
        read(brokers=brokers)

    assert f"the option 'brokers' has an invalid host or port in '{entry}'; expected a list" in str(caught.value)


@pytest.mark.parametrize(
    "brokers",
    [
        "stomp://guest:hunter2@a",
        "stomp://hunter2@a",
        "stomp://guest:hunter2/@a:x",
        "stomp://guest:hunter2,3@a:61613",
        "stomp://guest:x,y:hunter2@a",
    ],
)
def test_secret_when_it_is_in_the_brokers_then_refused_and_not_shown(brokers: str) -> None:
    with pytest.raises(OptionError) as caught:
        read(brokers=brokers)

    assert "hunter2" not in str(caught.value)


def test_secrets_when_options_are_shown_then_hidden() -> None:
    headers = {"connectHeaders": '{"client-id": "a"}', "secretConnectHeaders": '{"token": "hunter3"}'}
    options = read(brokers="a", login="guest", password="hunter2", **headers)

    assert options.passcode == "hunter2"
    assert dict(options.headers) == {"client-id": "a", "token": "hunter3"}
    assert "hunter" not in repr(options)
    assert pickle.loads(pickle.dumps(options)) == options  # noqa: S301  # what was pickled the line before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"passcode": "hunter2"}, r"use .option\('password', ...\)"),
        ({"connectHeaders": '{"Authorization": "hunter2"}'}, "header 'Authorization'.* 'secretConnectHeaders'"),
        ({"connectHeaders": '{"x-api-key": "hunter2"}'}, "header 'x-api-key'.* 'secretConnectHeaders'"),
        ({"connectHeaders": "hunter2"}, "'connectHeaders' must be a JSON object"),
        ({"secretConnectHeaders": "hunter2"}, "'secretConnectHeaders' must be a JSON object"),
        (
            {"connectHeaders": '{"a": "hunter2"}', "secretConnectHeaders": '{"a": "hunter2"}'},
            "both have the header 'a'",
        ),
    ],
)
def test_secret_when_spark_would_print_it_then_refused_and_the_error_says_where_it_belongs(
    options: dict[str, str], said: str
) -> None:
    with pytest.raises(OptionError, match=said) as caught:
        read(brokers="a", **options)

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("option", ["connectHeaders", "secretConnectHeaders"])
@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("host", "use the option 'host'"),
        ("heart-beat", "use the option 'heartBeatMs'"),
        ("accept-version", "the client sets it itself"),
    ],
)
def test_header_of_connect_when_it_is_set_otherwise_then_refused(option: str, header: str, said: str) -> None:
    with pytest.raises(OptionError, match=f"'{option}' has the header '{header}'; {said}"):
        read(brokers="a", **{option: f'{{"{header}": "x"}}'})


def test_heart_beats_when_there_are_to_be_none_then_read() -> None:
    assert read(brokers="a", heartBeatMs="0").heart_beat == 0


@pytest.mark.parametrize("option", ["tlsCaFile", "tlsCertFile"])
async def test_tls_file_when_it_cannot_be_read_then_the_error_names_it_and_its_option(
    option: str, tmp_path: Path
) -> None:
    nowhere, nonsense = tmp_path / "none.pem", tmp_path / "nonsense.pem"
    nonsense.write_text("nonsense", "ascii")
    for file in (nowhere, nonsense):
        made = read(brokers="stomps://a", **{option: str(file)})
        with pytest.raises(OSError, match=re.escape(f"{option}={file}): ")):
            async with made.dial():
                raise AssertionError


def test_tls_files_when_brokers_are_plain_then_refused() -> None:
    with pytest.raises(OptionError, match="stomps://"):
        read(brokers="stomp://a", tlsCaFile="ca.pem")
    with pytest.raises(OptionError, match="'tlsCertFile'"):
        read(brokers="stomps://a", tlsKeyFile="key.pem")


async def test_dial_when_the_broker_answers_then_connected_as_that_user() -> None:
    options = BrokerOptions(logins={"alice": "s3cret"}, vhosts={"/", "/test"})
    async with open_broker(options=options) as broker:
        made = read(brokers=f"127.0.0.1:{broker.port}", login="alice", password="s3cret", host="/test")
        async with made.dial() as client:
            (session,) = broker.sessions
            assert (session.login, session.vhost) == ("alice", "/test")
            assert client.version == "1.2"


async def test_dial_when_nothing_listens_then_it_gives_up_at_the_deadline_and_tells_no_secret() -> None:
    async with open_broker() as broker:
        port = broker.port
    made = read(brokers=f"127.0.0.1:{port}", login="alice", password="s3cret", reconnectTimeoutMs="300")
    with trio.fail_after(60):
        with pytest.raises(Exception, match=f"127.0.0.1:{port}") as caught:
            async with made.dial():
                pass

    assert "s3cret" not in str(caught.value)
    assert re.search(r"attempts in 0\.\d s, the limit set by the option 'reconnectTimeoutMs': ", str(caught.value))


async def test_dial_when_the_broker_refuses_then_the_error_names_options_of_spark() -> None:
    options = BrokerOptions(logins={"alice": "s3cret"}, vhosts={"/"})
    async with open_broker(options=options) as broker:
        made = read(brokers=f"127.0.0.1:{broker.port}", login="alice", password="wrong")
        with pytest.raises(AuthenticationError, match=r"; are the options 'login' and 'password' right\?$"):
            async with made.dial():
                raise AssertionError
        made = read(brokers=f"127.0.0.1:{broker.port}", login="alice", password="s3cret", host="/other")
        with pytest.raises(ConnectError, match=r"this user may use, by the option 'host'$"):
            async with made.dial():
                raise AssertionError


def test_blocking_dial_when_the_broker_refuses_then_the_error_names_options_of_spark() -> None:
    with run_broker_in_thread(options=BrokerOptions(logins={"alice": "s3cret"})) as broker:
        made = read(brokers=f"127.0.0.1:{broker.port}", login="alice", password="wrong")
        with (
            pytest.raises(AuthenticationError, match="are the options 'login' and 'password' right"),
            made.dial_blocking(),
        ):
            raise AssertionError


async def test_dial_when_both_sides_are_checked_then_connected_with_tls_files_and_errors_name_their_options(
    tmp_path: Path,
) -> None:
    authority = trustme.CA()
    write_client_files(authority, tmp_path)
    async with open_broker(tls=server_context(authority, demands=authority)) as broker:
        given = {"brokers": f"stomps://localhost:{broker.port}"}
        with trio.fail_after(60):
            with pytest.raises(StompError, match="name the CA that signed its certificate by the option 'tlsCaFile'"):
                async with read(**given, reconnectTimeoutMs="1500").dial():
                    raise AssertionError
            given["tlsCaFile"] = str(tmp_path / "ca.pem")
            with pytest.raises(StompError, match="by the options 'tlsCertFile' and 'tlsKeyFile'"):
                async with read(**given, reconnectTimeoutMs="1500").dial():
                    raise AssertionError
        files = {"tlsCertFile": str(tmp_path / "client.pem"), "tlsKeyFile": str(tmp_path / "client.key")}
        async with read(**given, **files).dial() as client:
            assert client.server is not None
