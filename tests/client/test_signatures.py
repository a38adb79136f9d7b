"""The signatures that editors show, and the mistakes that newcomers make: each error says what to type."""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
import trio.testing

import trio_stomp
import trio_stomp.blocking
from tests.client.clients import client_of
from trio_stomp import (
    Client,
    OutgoingMessage,
    Reconnect,
)
from trio_stomp.session.settings import Settings
from trio_stomp.types import ConnectOptions


async def run(wrong: str, **names: object) -> None:
    """Run what type checkers would refuse."""
    exec(f"async def main():\n    {wrong}", names)  # noqa: S102  # as above
    main = names["main"]
    assert inspect.iscoroutinefunction(main)
    await main()


@pytest.mark.parametrize("function", [trio_stomp.connect, trio_stomp.connect_stream, trio_stomp.blocking.connect])
def test_signature_when_shown_then_each_option_is_spelled_with_its_default(function: object) -> None:
    assert callable(function)
    parameters = list(inspect.signature(function).parameters.values())
    assert {each.kind for each in parameters[1:]} == {inspect.Parameter.KEYWORD_ONLY}
    assert all(each.default is not inspect.Parameter.empty for each in parameters[1:])
    documented = set(re.findall(r"^    (\w+): ", inspect.getdoc(function) or "", re.MULTILINE))
    assert {each.name for each in parameters} <= documented


def test_signature_when_compared_with_the_checks_then_defaults_are_the_same() -> None:
    parameters = inspect.signature(trio_stomp.connect).parameters
    assert set(parameters) - {"urls"} == set(ConnectOptions.__annotations__)
    options = {name: each.default for name, each in parameters.items() if name != "urls"}
    assert Settings.of("stomp://b", options) == Settings.of("stomp://b", {})


def test_signature_when_compared_between_the_two_doors_then_defaults_are_the_same() -> None:
    parameters = inspect.signature(trio_stomp.connect).parameters
    for name, parameter in inspect.signature(trio_stomp.connect_stream).parameters.items():
        assert name == "stream" or parameter.default == parameters[name].default


def test_option_when_it_is_misspelled_then_type_error_names_it() -> None:
    with pytest.raises(TypeError, match="heartbeat"):
        trio_stomp.connect("stomp://b", heartbeat=(1, 1))  # type: ignore[call-arg]  # the mistake


@pytest.mark.parametrize("function", ["connect", "connect_stream"])
def test_connect_when_no_loop_runs_then_the_error_names_what_runs_one(function: str) -> None:
    stream, _ = trio.testing.memory_stream_pair()
    connecting = trio_stomp.connect("stomp://b") if function == "connect" else trio_stomp.connect_stream(stream)

    with pytest.raises(
        RuntimeError, match=rf"{function}\(\) needs .* asyncio\.run\(main\(\)\) or trio\.run\(main\), .*blocking"
    ):
        connecting.__aenter__().send(None)


def test_connect_stream_when_it_is_trios_and_asyncio_runs_then_type_error_names_it() -> None:
    async def main() -> None:
        stream, _ = trio.testing.memory_stream_pair()
        async with trio_stomp.connect_stream(stream):
            raise AssertionError

    with pytest.raises(TypeError, match=r"byte stream of anyio.* got trio\.StapledStream"):
        asyncio.run(main())


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("await trio_stomp.connect('stomp://b')", "connect() cannot be awaited"),
        ("with trio_stomp.connect('stomp://b'): pass", "connect() requires 'async with'"),
        ("async for _ in trio_stomp.connect('stomp://b'): pass", "connect() cannot be iterated"),
        ("trio_stomp.connect('stomp://b').send", "connect() has no attribute 'send'"),
        ("await trio_stomp.connect_stream(None)", "connect_stream() cannot be awaited"),
        ("async for _ in client.subscribe('/queue/a'): pass", "subscribe() cannot be iterated"),
        ("for _ in client.subscribe('/queue/a'): pass", "subscribe() cannot be iterated"),
        ("await anext(client.subscribe('/queue/a'))", "subscribe() cannot be iterated"),
        ("await client.subscribe('/queue/a')", "subscribe() cannot be awaited"),
        ("await client.publisher()", "publisher() cannot be awaited"),
        ("await client.transaction()", "transaction() cannot be awaited"),
        ("await client.transaction().send('/queue/a', b'')", "transaction() has no attribute 'send'"),
    ],
)
async def test_context_when_used_without_async_with_then_the_error_shows_how(
    client: Client, wrong: str, words: str, autojump_clock: trio.testing.MockClock
) -> None:
    with pytest.raises((TypeError, AttributeError), match=re.escape(words)) as caught:
        await run(wrong, client=client, trio_stomp=trio_stomp)
    assert "Write: async with " in str(caught.value)


def test_reconnect_when_true_then_the_default_policy() -> None:
    assert Settings.of("stomp://b", {"reconnect": True}).reconnect == Reconnect()
    assert Settings.of("stomp://b", {"reconnect": False}).reconnect is None


def test_version_when_asked_then_that_of_the_package() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", trio_stomp.__version__)


@pytest.mark.parametrize(
    "wrong",
    [
        "await client.send('/queue/a', b'', queue_arguments=arguments)",
        "await client.send('/queue/a', b'', receipt=True, queue_arguments=arguments)",
        "await client.send('/queue/a', Path(__file__), queue_arguments=arguments)",
        "await client.send_many([OutgoingMessage('/queue/a', b'', queue_arguments=arguments)])",
        "await client.request('/queue/a', b'', timeout=1, queue_arguments=arguments)",
        "client.subscribe('/queue/a', queue_arguments=arguments)",
        "async with client.publisher() as publisher: await publisher.send('/queue/a', b'', queue_arguments=arguments)",
        "async with client.transaction() as tx: await tx.send('/queue/a', b'', queue_arguments=arguments)",
    ],
)
@pytest.mark.parametrize("server", ["RabbitMQ/4.1.4", "ActiveMQ/6.1.8"])
async def test_queue_arguments_when_a_dict_then_type_error_says_what_was_expected(
    wrong: str, server: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with client_of(server) as (client, broker):
        arguments = {"x-queue-type": "quorum"}
        names = {"Path": Path, "__file__": __file__, "OutgoingMessage": OutgoingMessage}
        with pytest.raises(TypeError, match=r"must be QueueArguments, such as .*\(type='quorum'\), got dict"):
            await run(wrong, client=client, arguments=arguments, **names)
        assert client.state.healthy
        assert broker.depth("/queue/a") == 0


@pytest.mark.parametrize("spread", [copy.copy, copy.deepcopy, pickle.dumps])
async def test_client_and_message_when_copied_or_pickled_then_the_error_says_what_to_do(
    client: Client, spread: Callable[[object], object]
) -> None:
    async with client.subscribe("/queue/orders") as subscription:
        await client.send("/queue/orders", "tea")
        message = await anext(subscription)
        for each, words in ((client, "open one in each process"), (message, r"pass on message\.body and dict")):
            with pytest.raises(TypeError, match=words):
                spread(each)
