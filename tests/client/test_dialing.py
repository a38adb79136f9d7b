"""Each way in which connecting can fail is told apart."""

from __future__ import annotations

from typing import Unpack

import anyio
import pytest
import trio

import trio_stomp
from tests.client.clients import client_of_peer
from tests.client.connecting import Credentials
from tests.kit.loops import lasting, on_loops
from tests.kit.peer import PeerOptions
from tests.kit.reconnecting import Host, reconnecting
from tests.kit.streams import ByteStream
from tests.kit.tapped_stream import TappedStream, frames_of
from trio_stomp import AuthenticationError, BrokerError, ConnectError
from trio_stomp.testing import AnswerConnect, Broker, BrokerOptions, open_broker
from trio_stomp.types import ConnectOptions, ProfileName, Version

pytestmark = [pytest.mark.anyio, on_loops("trio")]


async def refused(*hosts: Host | Broker, **options: Unpack[ConnectOptions]) -> ConnectError:
    """Connect in vain, and return the error."""
    options.setdefault("reconnect", None)
    with pytest.raises(ConnectError) as caught:
        async with reconnecting(*hosts, **options):
            raise AssertionError
    return caught.value


async def test_dial_when_the_passcode_is_wrong_then_authentication_error() -> None:
    """Rows 1x-CONN-3, 1x-CONN-4."""
    options = BrokerOptions(logins={"guest": "guest"})
    async with open_broker(listen=False, options=options) as broker:
        error = await refused(broker, login="guest", passcode="hush-hush")
    assert isinstance(error, AuthenticationError)
    assert isinstance(error.failures[0].cause, BrokerError)
    assert "hush-hush" not in str(error)
    assert "guest" in str(error)
    assert "are login and passcode right, in the URL or as arguments?" in str(error)


async def test_dial_when_the_brokers_refusal_ends_with_a_full_stop_then_the_hint_follows_without_it() -> None:
    # ActiveMQ Classic refuses a login in these words.
    refusal = b"ERROR\nmessage:User name [null] or password is invalid.\n\n\0"
    async with open_broker(listen=False) as broker:
        broker.faults.plan(AnswerConnect(data=refusal))
        error = await refused(broker)
    assert "User name [null] or password is invalid; are login and passcode right" in str(error)


async def test_dial_when_the_virtual_host_is_unknown_then_refused() -> None:
    """Row 1x-CONN-11."""
    async with open_broker(listen=False, options=BrokerOptions(vhosts={"/"})) as strict:
        error = await refused(strict, vhost="other")
        assert "other" in str(error)
        assert "name one that exists and that this user may use, by vhost=" in str(error)
        async with trio_stomp.connect_stream(strict.connect_stream(), vhost="/"):
            pass


async def test_dial_when_no_version_is_common_then_the_brokers_are_shown() -> None:
    """Rows 12-NEG-4, 1x-NEG-5."""
    async with open_broker(listen=False, options=BrokerOptions(versions=(Version.V1_0,))) as broker:
        error = await refused(broker, versions=["1.2"])
    assert "1.0" in str(error)


async def test_dial_when_the_broker_says_nothing_then_timeout_and_the_link_is_closed(broker: Broker) -> None:
    broker.faults.plan(AnswerConnect())
    error = await refused(broker, connect_timeout=7)
    assert error.failures[0].step == "timeout"
    assert "no answer within 7 s (connect_timeout)" in str(error)
    with trio.fail_after(1):
        await broker.wait_until(lambda: broker.statistics().open_connections == 0)


async def test_dial_when_connected_is_of_a_version_not_offered_then_refused(broker: Broker) -> None:
    """Row 1x-NEG-6."""
    broker.faults.plan(AnswerConnect(data=b"CONNECTED\nversion:1.0\n\n\0"))
    assert "offered only 1.1,1.2" in str(await refused(broker, versions=["1.2", "1.1", "1.2"]))


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
    given: dict[str, str], version: str
) -> None:
    """Row 1x-CONN-12."""
    async with open_broker(listen=False, options=BrokerOptions(logins=None)) as broker:
        stream = TappedStream(broker.connect_stream())
        async with trio_stomp.connect_stream(stream, versions=[version], **given):  # type: ignore[arg-type]  # versions are literals
            pass
    frames, _ = frames_of(stream.sent)
    sent = {name: value for name, value in frames[0].headers.items() if name in ("login", "passcode")}
    assert sent == given


async def test_dial_when_the_profile_unescapes_connect_then_a_backslash_is_doubled() -> None:
    options = BrokerOptions(logins={"guest": "a\\\\b"})
    async with (
        open_broker(listen=False, options=options) as broker,
        trio_stomp.connect_stream(broker.connect_stream(), login="guest", passcode="a\\b", profile="rabbitmq"),
    ):
        pass


CLOSED = "the broker closed the connection instead of answering CONNECT"
NO_STOMP = "the answer to CONNECT is not STOMP"


@pytest.mark.parametrize(
    ("given", "what", "hint"),
    [
        (b"\x15\x03\x03\x00\x02\x02\x0a", "", "this is a TLS port: use stomps://"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", NO_STOMP, "a URL like ws://host:port/ws"),
        (b"AMQP\x00\x00\x09\x01", "", "this port speaks AMQP"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "", "this port speaks SSH"),
        (b"\x00\x00\x01\xa4\x01ActiveMQ\x00\x00\x00\x0c", "", "this port speaks OpenWire"),
        # Nothing is known of these.
        (b"", CLOSED, "is it a TLS port?"),
        (b"CONNECTED\n", CLOSED, "is it a TLS port?"),
        (b"\x16\x03", CLOSED, "is it a TLS port?"),
        (b"H", CLOSED, "is it a TLS port?"),
        (b"ActiveMQ", CLOSED, "is it a TLS port?"),
    ],
)
async def test_dial_when_the_answer_is_not_connected_then_said_so_and_other_protocols_are_named(
    broker: Broker, given: bytes, what: str, hint: str
) -> None:
    broker.faults.plan(AnswerConnect(data=given, close=True))
    (failure,) = (await refused(broker)).failures
    assert failure.step == "connect"
    assert failure.reason.startswith(what)
    assert hint in failure.reason


# --- several hosts at a time -----------------------------------------------------------------------------------------


async def test_race_when_the_first_host_is_silent_then_the_next_is_dialed_too_and_wins(broker: Broker) -> None:
    async with open_broker(listen=False) as other:
        began = trio.current_time()
        async with reconnecting(Host(broker, silent=60), other, reconnect=None, connect_attempt_delay=2) as client:
            assert trio.current_time() - began == 2
            await client.send("/queue/a", b"", receipt=True)
        assert other.depth("/queue/a") == 1
        # The loser's attempt was cancelled, and never came to a connection.
        await trio.sleep(100)
        assert broker.statistics().connections == 0


async def test_race_when_a_host_fails_early_then_the_next_does_not_wait_for_its_delay(broker: Broker) -> None:
    with lasting(0):
        async with reconnecting(Host(broker, refuses=True), broker, reconnect=None, connect_attempt_delay=5):
            pass


async def test_race_when_the_first_answers_late_then_it_still_wins_over_a_slower_one(broker: Broker) -> None:
    async with open_broker(listen=False) as other:
        first, second = Host(broker, silent=3), Host(other, silent=10)
        async with reconnecting(first, second, reconnect=None, connect_attempt_delay=2) as client:
            await client.send("/queue/a", b"", receipt=True)
        assert broker.depth("/queue/a") == 1


async def test_race_when_both_stand_at_the_same_moment_then_one_is_used_and_the_other_closed(broker: Broker) -> None:
    async with open_broker(listen=False) as other:
        async with reconnecting(Host(broker, silent=2), other, reconnect=None, connect_attempt_delay=2) as client:
            await client.send("/queue/a", b"", receipt=True)
            await trio.sleep(1)
            assert len(broker.sessions) + len(other.sessions) == 1


async def test_race_when_all_fail_then_the_causes_are_in_the_order_of_the_list(broker: Broker) -> None:
    slow, quick = Host(broker, refuses=True, silent=5), Host(broker, refuses=True)
    error = await refused(slow, quick, connect_attempt_delay=1)
    assert [failure.address for failure in error.failures] == ["stomp://h0:61613", "stomp://h1:61613"]


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


async def test_race_when_cancelled_at_any_step_then_no_winner_is_left_open(broker: Broker) -> None:
    step, reached = 0, True
    while reached:
        step += 1
        # All of them are connected within the same turn of the scheduler.
        hosts = [Host(broker, silent=10 - number) for number in range(4)]
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


async def test_race_when_the_credentials_cannot_be_had_then_each_attempt_has_failed_by_that(broker: Broker) -> None:
    mine = LookupError("the vault is sealed")
    error = await refused(broker, broker, credentials=Credentials(mine, mine))
    assert "credentials= failed: the vault is sealed" in str(error)
    assert [(failure.step, failure.cause) for failure in error.failures] == [("credentials", mine)] * 2
    assert error.__cause__ is mine


async def test_dial_when_the_credentials_are_no_pair_then_said_so_and_not_shown(broker: Broker) -> None:
    error = str(await refused(broker, credentials=Credentials("me:hush-hush")))
    assert "must return a login and a passcode, both str; it returned str" in error
    assert "hush-hush" not in error


async def test_dial_when_the_credentials_function_is_not_async_then_said_so(broker: Broker) -> None:
    def credentials() -> tuple[str, str]:
        return "me", "hush-hush"

    error = str(await refused(broker, credentials=credentials))  # type: ignore[arg-type]  # what is refused
    assert "credentials= failed: it must be an async function; it returned tuple, which cannot be awaited" in error
    assert "hush-hush" not in error


async def test_dial_when_the_credentials_do_not_come_then_timeout_names_them(broker: Broker) -> None:
    async def credentials() -> tuple[str, str]:
        await trio.sleep(1000)
        return "me", "x"

    error = str(await refused(broker, credentials=credentials))
    assert "at this step: credentials; the function given as credentials= has not" in error


@pytest.mark.parametrize("crash", [KeyboardInterrupt, SystemExit])
async def test_dial_when_credentials_end_the_program_then_that_goes_through(
    broker: Broker, crash: type[BaseException]
) -> None:
    with pytest.raises(BaseExceptionGroup) as caught:  # noqa: ASYNC401  # its member is looked at
        async with reconnecting(broker, credentials=Credentials(crash())):
            raise AssertionError
    assert caught.group_contains(crash)


async def test_race_when_an_attempt_fails_by_a_mistake_in_the_program_then_raised_at_once(broker: Broker) -> None:
    class Mistaken(Host):
        async def open_stream(self) -> ByteStream:
            await trio.lowlevel.checkpoint()
            raise KeyError("mine")

    with lasting(2), pytest.raises(KeyError, match="mine"):
        async with reconnecting(Host(broker, silent=60), Mistaken(broker), reconnect=None, connect_attempt_delay=2):
            raise AssertionError


@pytest.mark.parametrize(
    ("cause", "said"), [(ConnectionResetError(104, "Connection reset by peer"), "reset by peer"), (None, "it is gone")]
)
async def test_dial_when_the_link_breaks_before_connected_then_said_how(
    broker: Broker, cause: OSError | None, said: str
) -> None:
    class Breaking(TappedStream):
        async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
            await trio.lowlevel.checkpoint()
            raise anyio.BrokenResourceError("it is gone") from cause

    with pytest.raises(ConnectError, match=said):
        async with trio_stomp.connect_stream(Breaking(broker.connect_stream())):
            raise AssertionError


@pytest.mark.parametrize("profile", [None, "rabbitmq"])
@pytest.mark.parametrize(("server", "count"), [("RabbitMQ/4.2.9", 2), ("RabbitMQ/4.3.6", 4), ("RabbitMQ/10.0.1", 4)])
async def test_dial_when_rabbitmq_tells_its_version_then_deliveries_are_counted_as_that_version_does(
    profile: ProfileName | None, server: str, count: int
) -> None:
    counted = [("redelivered", "true"), ("x-delivery-count", "1"), ("x-acquired-count", "3")]
    async with client_of_peer(PeerOptions(server=server), profile=profile) as (client, peer):
        async with client.subscribe("/queue/a", id="s", ack="auto") as subscription:
            peer.deliver("s", headers=counted)
            assert (await anext(subscription)).delivery_count == count
