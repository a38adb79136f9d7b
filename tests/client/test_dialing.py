"""Each way in which connecting can fail is told apart."""

from __future__ import annotations

import socket
from pathlib import Path

import anyio
import pytest
import trio
import trio.testing
import trustme

import trio_stomp
from tests.kit.certificates import client_context, server_context
from tests.kit.reconnecting import Host, reconnecting
from tests.kit.streams import ByteStream
from tests.kit.tapped_stream import TappedStream, frames_of
from trio_stomp import AuthenticationError, BrokerError, ConnectError
from trio_stomp.testing import AnswerConnect, Broker, BrokerOptions, ScriptedPeer, open_broker, open_scripted_peer
from trio_stomp.types import Command, ProfileName, Version


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


async def refused(url: str | list[str], **options: object) -> ConnectError:
    with pytest.raises(ConnectError) as caught:
        async with trio_stomp.connect(url, **options):  # type: ignore[arg-type]  # passed on as given
            raise AssertionError
    return caught.value


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def test_dial_when_nothing_listens_then_tcp() -> None:
    error = await refused(f"stomp://u:hush@127.0.0.1:{closed_port()}")
    assert [failure.step for failure in error.failures] == ["tcp"]
    assert "refused" in str(error)
    assert "hush" not in str(error)


async def test_dial_when_the_name_is_unknown_then_dns() -> None:
    error = await refused("stomp://no-such-host.invalid")
    assert error.failures[0].step == "dns"
    assert "'no-such-host.invalid' cannot be looked up" in str(error)


async def test_dial_when_the_passcode_is_wrong_then_authentication_error() -> None:
    """Rows 1x-CONN-3, 1x-CONN-4."""
    async with open_broker(options=BrokerOptions(logins={"guest": "guest"})) as broker:
        error = await refused(f"stomp://guest:hush-hush@127.0.0.1:{broker.port}")
    assert isinstance(error, AuthenticationError)
    assert isinstance(error.failures[0].cause, BrokerError)
    assert "hush-hush" not in str(error)
    assert "guest" in str(error)
    assert "are login and passcode right, in the URL or as arguments?" in str(error)


async def test_dial_when_the_broker_refuses_the_default_vhost_then_the_name_of_its_host_is_tried(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Row 1x-CONN-10. CoilMQ, in 1.2."""
    async with open_broker(options=BrokerOptions(vhosts={"127.0.0.1"})) as broker:
        async with trio_stomp.connect(f"stomp://guest:guest@127.0.0.1:{broker.port}") as client:
            await client.send("/queue/a", b"x", receipt=True)
        # A virtual host that the user has named is the one that counts.
        error = await refused(f"stomp://guest:guest@127.0.0.1:{broker.port}/other")
        assert "'other'" in str(error)
    async with open_broker(options=BrokerOptions(vhosts={"elsewhere"})) as broker:
        error = await refused(f"stomp://guest:guest@127.0.0.1:{broker.port}")
        # What is told is the first refusal.
        assert "'/'" in str(error)
        assert "name one that exists" in str(error)


async def test_dial_when_the_virtual_host_is_unknown_then_refused(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    """Row 1x-CONN-11."""
    del broker
    async with open_broker(options=BrokerOptions(vhosts={"/"})) as strict:
        error = await refused(f"{strict.url}/other")
        assert "other" in str(error)
        assert "name one that exists and that this user may use, by vhost=" in str(error)
        async with trio_stomp.connect(strict.url, vhost="/"):
            pass


async def test_dial_when_no_version_is_common_then_the_brokers_are_shown() -> None:
    """Rows 12-NEG-4, 1x-NEG-5."""
    async with open_broker(options=BrokerOptions(versions=(Version.V1_0,))) as broker:
        error = await refused(broker.url, versions=["1.2"])
    assert "1.0" in str(error)


async def test_dial_when_first_host_fails_then_the_next_is_used() -> None:
    async with (
        open_broker() as broker,
        trio_stomp.connect([f"stomp://127.0.0.1:{closed_port()}", broker.url]) as client,
    ):
        await client.send("/queue/a", b"1", receipt=True)


async def test_dial_when_all_hosts_fail_then_one_cause_for_each() -> None:
    error = await refused([f"stomp://127.0.0.1:{closed_port()}", "stomp://no-such-host.invalid"])
    assert [failure.step for failure in error.failures] == ["tcp", "dns"]


async def test_dial_when_the_broker_says_nothing_then_timeout(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    broker.faults.plan(AnswerConnect())
    with pytest.raises(ConnectError, match=r"no answer within 7 s \(connect_timeout\)") as caught:
        async with trio_stomp.connect_stream(broker.connect_stream(), connect_timeout=7):
            raise AssertionError
    assert caught.value.failures[0].step == "timeout"


async def test_dial_when_the_broker_closes_instead_of_answering_then_said_so(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    broker.faults.plan(AnswerConnect(data=b"", close=True))
    with pytest.raises(ConnectError, match="closed the connection instead of answering CONNECT"):
        async with trio_stomp.connect_stream(broker.connect_stream()):
            raise AssertionError


async def test_dial_when_the_answer_is_not_stomp_then_said_so(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    broker.faults.plan(AnswerConnect(data=b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    with pytest.raises(ConnectError, match="the answer to CONNECT is not STOMP"):
        async with trio_stomp.connect_stream(broker.connect_stream()):
            raise AssertionError


async def test_dial_when_the_answer_is_a_tls_alert_then_hint_at_tls(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    broker.faults.plan(AnswerConnect(data=b"\x15\x03\x01\x00\x02\x02\x0a", close=True))
    with pytest.raises(ConnectError, match="this is a TLS port: use stomps://"):
        async with trio_stomp.connect_stream(broker.connect_stream()):
            raise AssertionError


async def test_dial_when_connected_is_of_a_version_not_offered_then_refused(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    """Row 1x-NEG-6."""
    broker.faults.plan(AnswerConnect(data=b"CONNECTED\nversion:1.0\n\n\0"))
    with pytest.raises(ConnectError, match=r"offered only 1\.1,1\.2"):
        async with trio_stomp.connect_stream(broker.connect_stream(), versions=["1.1", "1.2"]):
            raise AssertionError


async def test_dial_when_refused_then_the_broker_sees_the_link_closed(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    broker.faults.plan(AnswerConnect(error="Access refused"))
    with pytest.raises(AuthenticationError):
        async with trio_stomp.connect_stream(broker.connect_stream(), login="guest", passcode="wrong"):
            raise AssertionError
    await broker.wait_until(lambda: broker.statistics().open_connections == 0)


async def test_dial_when_cancelled_then_the_broker_sees_the_link_closed(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    broker.faults.plan(AnswerConnect())
    with trio.move_on_after(1):
        async with trio_stomp.connect_stream(broker.connect_stream()):
            raise AssertionError
    await broker.wait_until(lambda: broker.statistics().open_connections == 0)


async def test_dial_when_credentials_are_a_callable_then_it_is_asked(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    async def credentials() -> tuple[str, str]:
        await trio.lowlevel.checkpoint()
        return "guest", "guest"

    async with trio_stomp.connect_stream(broker.connect_stream(), credentials=credentials):
        pass


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"login": "joe"},
        {"passcode": "hush"},
        {"login": "", "passcode": ""},
        {"login": "joe", "passcode": "hush"},
    ],
)
@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
async def test_dial_when_login_or_passcode_is_not_given_then_its_header_is_not_sent(
    given: dict[str, str], version: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Row 1x-CONN-12."""
    async with open_broker(listen=False, options=BrokerOptions(logins=None)) as broker:
        stream = TappedStream(broker.connect_stream())
        async with trio_stomp.connect_stream(stream, versions=[version], **given):  # type: ignore[arg-type]  # versions are literals
            pass
    frames, _ = frames_of(stream.sent)
    sent = {name: value for name, value in frames[0].headers.items() if name in ("login", "passcode")}
    assert sent == given


async def test_dial_when_the_profile_unescapes_connect_then_a_backslash_is_doubled(
    autojump_clock: trio.testing.MockClock,
) -> None:
    options = BrokerOptions(logins={"guest": "a\\\\b"})
    async with (
        open_broker(listen=False, options=options) as broker,
        trio_stomp.connect_stream(broker.connect_stream(), login="guest", passcode="a\\b", profile="rabbitmq"),
    ):
        pass


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (b"AMQP\x00\x00\x09\x01", "this port speaks AMQP"),
        (b"\x00\x00\x01\xa4\x01ActiveMQ\x00\x00\x00\x0c", "this port speaks OpenWire"),
    ],
)
async def test_dial_when_the_port_is_another_protocols_then_it_is_named(
    broker: Broker, autojump_clock: trio.testing.MockClock, given: bytes, words: str
) -> None:
    broker.faults.plan(AnswerConnect(data=given, close=True))
    with pytest.raises(ConnectError, match=words) as caught:
        async with trio_stomp.connect_stream(broker.connect_stream()):
            raise AssertionError
    assert caught.value.failures[0].step == "connect"


@pytest.mark.parametrize("websocket", [True, False])
async def test_dial_when_a_unix_socket_or_a_websocket_is_closed_then_no_hint_at_tls(
    tmp_path: Path, websocket: bool
) -> None:
    path = None if websocket else tmp_path / "s"
    async with open_broker(websocket=websocket, unix_socket=path) as broker:
        broker.faults.plan(AnswerConnect(data=b"", close=True))
        error = await refused(broker.url)
    assert error.failures[0].step == "connect"
    assert "is it a STOMP broker?" in str(error)
    assert "TLS" not in str(error)


async def test_tls_when_the_certificate_is_trusted_then_connected(authority: trustme.CA) -> None:
    async with open_broker(tls=server_context(authority)) as broker:
        assert broker.url.startswith("stomps://")
        async with trio_stomp.connect(broker.url, tls=client_context(authority)) as client:
            await client.send("/queue/a", b"1", receipt=True)
            assert await client.disconnect() is trio_stomp.DisconnectResult.RECEIPT
        # A context with a stomp:// URL is TLS that was asked for, too.
        async with trio_stomp.connect(broker.url.replace("stomps://", "stomp://"), tls=client_context(authority)):
            pass


async def test_tls_when_the_certificate_is_not_trusted_then_tls(authority: trustme.CA) -> None:
    async with open_broker(tls=server_context(authority)) as broker:
        error = await refused(broker.url, tls=client_context(trustme.CA()))
        assert error.failures[0].step == "tls"
        assert "certificate is not trusted" in str(error)
        error = await refused(broker.url, tls=True)
        assert "certificate is not trusted" in str(error)


async def test_tls_when_the_port_is_plain_then_never_plaintext(authority: trustme.CA) -> None:
    async with open_broker() as broker:
        error = await refused(f"stomps://guest:guest@127.0.0.1:{broker.port}", tls=client_context(authority))
        assert error.failures[0].step in ("tls", "timeout")
        assert "plain" in str(error)
        assert broker.statistics().received == {}


async def test_tls_when_the_port_wants_it_and_we_do_not_then_hint(authority: trustme.CA) -> None:
    async with open_broker(tls=server_context(authority)) as broker:
        error = await refused(f"stomp://guest:guest@127.0.0.1:{broker.port}")
    assert "TLS port" in str(error)


# --- several hosts at a time -----------------------------------------------------------------------------------------


async def test_race_when_the_first_host_is_silent_then_the_next_is_dialed_too_and_wins(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_broker(listen=False) as other:
        silent, second = Host(broker), Host(other)
        silent.silent = 60
        began = trio.current_time()
        async with reconnecting(silent, second, reconnect=None, connect_attempt_delay=2) as client:
            assert trio.current_time() - began == 2
            await client.send("/queue/a", b"", receipt=True)
        assert other.depth("/queue/a") == 1
        # The loser's attempt was cancelled, and never came to a connection.
        await trio.sleep(100)
        assert broker.statistics().connections == 0


async def test_race_when_a_host_fails_early_then_the_next_does_not_wait_for_its_delay(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    first, second = Host(broker), Host(broker)
    first.refuses = True
    began = trio.current_time()
    async with reconnecting(first, second, reconnect=None, connect_attempt_delay=5):
        assert trio.current_time() == began


async def test_race_when_the_first_answers_late_then_it_still_wins_over_a_slower_one(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_broker(listen=False) as other:
        first, second = Host(broker), Host(other)
        first.silent, second.silent = 3, 10
        async with reconnecting(first, second, reconnect=None, connect_attempt_delay=2) as client:
            await client.send("/queue/a", b"", receipt=True)
        assert broker.depth("/queue/a") == 1


async def test_race_when_both_stand_at_the_same_moment_then_one_is_used_and_the_other_closed(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_broker(listen=False) as other:
        first, second = Host(broker), Host(other)
        first.silent = 2
        async with reconnecting(first, second, reconnect=None, connect_attempt_delay=2) as client:
            await client.send("/queue/a", b"", receipt=True)
            await trio.sleep(1)
            assert len(broker.sessions) + len(other.sessions) == 1


async def test_race_when_all_fail_then_the_causes_are_in_the_order_of_the_list(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    slow, quick = Host(broker), Host(broker)
    slow.silent, slow.refuses, quick.refuses = 5, True, True
    with pytest.raises(ConnectError) as caught:
        async with reconnecting(slow, quick, reconnect=None, connect_attempt_delay=1):
            raise AssertionError
    assert [failure.address for failure in caught.value.failures] == ["stomp://h0:61613", "stomp://h1:61613"]


async def test_race_when_cancelled_then_every_link_is_closed(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    broker.faults.plan(AnswerConnect(data=b""), connections=None)
    with trio.move_on_after(5) as scope:
        async with reconnecting(broker, broker, broker, reconnect=None, connect_attempt_delay=1):
            raise AssertionError
    assert scope.cancelled_caught
    await trio.sleep(1)
    assert broker.sessions == ()


class _CancelAtStep(trio.abc.Instrument):
    """Cancels a scope before the n-th step that any task makes."""

    def __init__(self, step: int, scope: trio.CancelScope) -> None:
        self._left = step
        self._scope = scope

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._left -= 1
        if not self._left:
            self._scope.cancel()

    @property
    def reached(self) -> bool:
        return self._left <= 0


async def test_race_when_cancelled_at_any_step_then_no_winner_is_left_open(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    step, reached = 0, True
    while reached:
        step += 1
        hosts = [Host(broker) for _ in range(4)]
        for number, host in enumerate(hosts):
            # All of them are connected within the same turn of the scheduler.
            host.silent = 10 - number
        scope = trio.CancelScope()
        at_step = _CancelAtStep(step, scope)
        with scope:
            trio.lowlevel.add_instrument(at_step)
            try:
                async with reconnecting(*hosts, reconnect=None, connect_attempt_delay=1):
                    pass
            finally:
                trio.lowlevel.remove_instrument(at_step)
        reached = at_step.reached
        with trio.fail_after(1):
            await broker.wait_until(lambda: broker.statistics().open_connections == 0)
    assert step > 50


async def test_race_when_the_credentials_cannot_be_had_then_each_attempt_has_failed_by_that(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    mine = LookupError("the vault is sealed")

    async def credentials() -> tuple[str, str]:
        await trio.lowlevel.checkpoint()
        raise mine

    with pytest.raises(ConnectError, match="credentials= failed: the vault is sealed") as caught:
        async with reconnecting(broker, broker, reconnect=None, credentials=credentials):
            raise AssertionError
    assert [(failure.step, failure.cause) for failure in caught.value.failures] == [("credentials", mine)] * 2
    assert caught.value.__cause__ is mine


async def test_dial_when_the_credentials_are_no_pair_then_said_so_and_not_shown(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    async def credentials() -> tuple[str, str]:
        await trio.lowlevel.checkpoint()
        return "me:hush-hush"  # type: ignore[return-value]  # what is refused

    with pytest.raises(ConnectError, match="must return a login and a passcode, both str; it returned str") as caught:
        async with reconnecting(broker, reconnect=None, credentials=credentials):
            raise AssertionError
    assert "hush-hush" not in str(caught.value)


async def test_dial_when_the_credentials_do_not_come_then_timeout_names_them(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    async def credentials() -> tuple[str, str]:
        await trio.sleep(1000)
        return "me", "x"

    with pytest.raises(ConnectError, match="at this step: credentials; the function given as credentials= has not"):
        async with reconnecting(broker, reconnect=None, credentials=credentials):
            raise AssertionError


@pytest.mark.parametrize("crash", [KeyboardInterrupt, SystemExit])
async def test_dial_when_credentials_end_the_program_then_that_goes_through(
    broker: Broker, autojump_clock: trio.testing.MockClock, crash: type[BaseException]
) -> None:
    async def credentials() -> tuple[str, str]:
        await trio.lowlevel.checkpoint()
        raise crash

    with pytest.raises(BaseExceptionGroup) as caught:  # noqa: ASYNC401  # its member is looked at
        async with reconnecting(broker, credentials=credentials):
            raise AssertionError
    assert caught.group_contains(crash)


async def test_race_when_the_delay_is_nothing_then_it_is_refused() -> None:
    with pytest.raises(trio_stomp.LocalProtocolError, match="connect_attempt_delay must be more than 0 seconds"):
        async with trio_stomp.connect("stomp://localhost", connect_attempt_delay=0):
            raise AssertionError


async def test_race_when_an_attempt_fails_by_a_mistake_in_the_program_then_raised_at_once(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    class Mistaken(Host):
        async def open_stream(self) -> ByteStream:
            await trio.lowlevel.checkpoint()
            raise KeyError("mine")

    silent = Host(broker)
    silent.silent = 60
    began = trio.current_time()
    with pytest.raises(KeyError, match="mine"):
        async with reconnecting(silent, Mistaken(broker), reconnect=None, connect_attempt_delay=2):
            raise AssertionError
    assert trio.current_time() - began == 2


@pytest.mark.parametrize(
    ("cause", "said"), [(ConnectionResetError(104, "Connection reset by peer"), "reset by peer"), (None, "it is gone")]
)
async def test_dial_when_the_link_breaks_before_connected_then_said_how(
    broker: Broker, cause: OSError | None, said: str, autojump_clock: trio.testing.MockClock
) -> None:
    class Breaking(TappedStream):
        async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
            await trio.lowlevel.checkpoint()
            raise anyio.BrokenResourceError("it is gone") from cause

    class BreakingHost(Host):
        async def open_stream(self) -> ByteStream:
            return Breaking(await super().open_stream())

    with pytest.raises(ConnectError, match=said):
        async with reconnecting(BreakingHost(broker), reconnect=None):
            raise AssertionError


@pytest.mark.parametrize("profile", [None, "rabbitmq"])
@pytest.mark.parametrize(("server", "count"), [("RabbitMQ/4.2.9", 2), ("RabbitMQ/4.3.6", 4), ("RabbitMQ/10.0.1", 4)])
async def test_dial_when_rabbitmq_tells_its_version_then_deliveries_are_counted_as_that_version_does(
    profile: ProfileName | None, server: str, count: int
) -> None:
    counted = {"redelivered": "true", "x-delivery-count": "1", "x-acquired-count": "3"}

    async def serve(peer: ScriptedPeer) -> None:
        await peer.accept_connect(server=server)
        await peer.confirm(await peer.expect(Command.SUBSCRIBE))
        await peer.send(Command.MESSAGE, {"subscription": "s", "message-id": "1", "destination": "/queue/a", **counted})
        await peer.expect(Command.UNSUBSCRIBE)
        await peer.expect_disconnect()

    async with open_scripted_peer() as peer, trio.open_nursery() as nursery:
        nursery.start_soon(serve, peer)
        async with (
            trio_stomp.connect_stream(peer.connect_stream(), profile=profile) as client,
            client.subscribe("/queue/a", id="s", ack="auto") as subscription,
        ):
            assert (await anext(subscription)).delivery_count == count
