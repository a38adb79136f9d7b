"""Arguments of the wrong type, as programs without a type checker pass them: refused in the thread that calls."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Protocol, cast

import pytest

import trio_stomp.blocking
from tests.blocking.conftest import bodies
from trio_stomp import Hooks, LocalProtocolError, OutgoingMessage
from trio_stomp.blocking import Client, Message, Subscription
from trio_stomp.testing import ThreadedBroker

QUEUE = "/queue/orders"
TUPLE = (QUEUE, "x")
NO_MESSAGE = r"each message must be an OutgoingMessage, got \('/queue/orders', 'x'\): use OutgoingMessage\("


class Send(Protocol):
    def __call__(self, client: Client, /, *args: object, **options: object) -> None: ...


def entered(manager: AbstractContextManager[object]) -> None:
    with manager:
        raise AssertionError


def published(client: Client, *args: object, **options: object) -> None:
    with client.publisher() as publisher:
        publisher.send(*args, **options)  # type: ignore[arg-type]  # what is refused


def transacted(client: Client, *args: object, **options: object) -> None:
    with client.transaction() as transaction:
        transaction.send(*args, **options)  # type: ignore[arg-type]  # what is refused


def sent(client: Client, *args: object, **options: object) -> None:
    client.send(*args, **options)  # type: ignore[arg-type]  # what is refused


def confirmed(client: Client, *args: object, **options: object) -> None:
    client.send(*args, receipt=True, **options)  # type: ignore[arg-type]  # what is refused


def requested(client: Client, *args: object, **options: object) -> None:
    client.request(*args, timeout=1, **options)  # type: ignore[arg-type]  # what is refused


@pytest.mark.parametrize("send", [sent, confirmed, published, transacted, requested])
@pytest.mark.parametrize("hooks", [(), (Hooks(),)], ids=["without hooks", "with hooks"])
@pytest.mark.parametrize(
    ("args", "options", "words"),
    [
        ((None, b""), {}, "destination must be a str such as '/queue/orders', got None"),
        (([QUEUE], b""), {}, "destination must be a str such as '/queue/orders', got "),
        (("", b""), {}, "destination must be a str such as '/queue/orders', got ''"),
        ((QUEUE, b""), {"persistent": "false"}, "persistent must be True or False, got 'false'"),
        ((QUEUE, b""), {"ttl": "5"}, "ttl must be a number of seconds, more than 0, got '5'"),
        ((QUEUE, b""), {"headers": "a:b"}, "headers must be a mapping .*, got a value of type str"),
        ((QUEUE, b""), {"headers": {"a": "\0"}}, "cannot carry: .*x00"),
    ],
)
def test_send_when_an_argument_is_of_the_wrong_type_then_the_call_raises_and_nothing_is_sent(
    broker: ThreadedBroker,
    send: Send,
    hooks: tuple[Hooks, ...],
    args: tuple[object, ...],
    options: dict[str, object],
    words: str,
) -> None:
    with trio_stomp.blocking.connect(broker.url, hooks=hooks) as client:
        with pytest.raises(LocalProtocolError, match=words):
            send(client, *args, **options)
        client.send(QUEUE, b"next", receipt=True)
    assert bodies(broker, QUEUE) == [b"next"]


# What is done with a client, and what is said of it.
WRONG: dict[str, tuple[Callable[[Client], object], str]] = {
    "send, receipt": (
        lambda client: client.send(QUEUE, b"", receipt="r-1"),  # type: ignore[arg-type]  # wrong on purpose
        "receipt must be True or False, got 'r-1'",
    ),
    "send_many": (lambda client: client.send_many([TUPLE]), NO_MESSAGE),  # type: ignore[list-item]  # wrong on purpose
    "send_many, receipt": (
        lambda client: client.send_many([OutgoingMessage(QUEUE, b"")], receipt="r-1"),  # type: ignore[arg-type]  # wrong on purpose
        "receipt must be True or False, got 'r-1'",
    ),
    "publisher": (
        lambda client: entered(client.publisher(max_in_flight="5")),  # type: ignore[arg-type]  # wrong on purpose
        "max_in_flight must be an int of at least 1, got '5'",
    ),
    "subscribe": (lambda client: entered(client.subscribe(None)), "destination must be a str .*, got None"),  # type: ignore[arg-type]  # wrong on purpose
    "subscribe, prefetch": (
        lambda client: entered(client.subscribe(QUEUE, prefetch="10")),  # type: ignore[arg-type]  # wrong on purpose
        "prefetch must be an int of at least 1, got '10'",
    ),
    "run_transaction": (
        lambda client: client.run_transaction(lambda _transaction: None, attempts="3"),  # type: ignore[arg-type]  # wrong on purpose
        "attempts must be an int of at least 1, got '3'",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_call_when_an_argument_is_of_the_wrong_type_then_it_says_what_was_expected(client: Client, name: str) -> None:
    call, words = WRONG[name]
    with pytest.raises(LocalProtocolError, match=words):
        call(client)
    client.send(QUEUE, b"next", receipt=True)


async def not_plain(_message: Message) -> str:  # noqa: ASYNC124  # what is refused
    return QUEUE


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workers": "5"}, "workers must be an int of at least 1, got '5'"),
        ({"workers": 0}, "workers must be an int of at least 1, got 0"),
        ({"drain_timeout": "5"}, "drain_timeout must be a number of seconds, 0 or more, got '5'"),
        ({"retry": True}, r"retry must be a Retry, such as Retry\(attempts=3\), got True"),
        ({"key": 5}, "key must be the name of a header, or a plain .* function of the message, got 5"),
        ({"dead_letter": 5}, "dead_letter must be a destination, or a plain .* function of the message, got 5"),
        ({"dead_letter": ""}, "dead_letter must be a destination, or a plain .* function of the message, got ''"),
        ({"dead_letter": "/queue/idle"}, "dead_letter must not be what the subscription reads, got '/queue/idle': a "),
        ({"dead_letter": not_plain}, "dead_letter must be .* plain .* function .*, got <function not_plain"),
        ({"around": 5}, "around must be a list of functions of the message that return context managers, got 5"),
    ],
)
def test_work_when_a_policy_is_of_the_wrong_type_then_refused_with_an_idle_queue(
    client: Client, options: dict[str, object], words: str
) -> None:
    with client.subscribe("/queue/idle") as jobs, pytest.raises(LocalProtocolError, match=words):
        jobs.work(print, **options)  # type: ignore[arg-type]  # what is refused


@pytest.mark.parametrize("wrong", [{"max_messages": "5"}, {"max_messages": 0}, {"max_messages": 1, "linger": "1"}])
def test_receive_batch_when_an_argument_is_wrong_then_refused(client: Client, wrong: dict[str, object]) -> None:
    def receive(subscription: Subscription) -> None:
        subscription.receive_batch(**wrong)  # type: ignore[arg-type]  # what is refused

    with client.subscribe(QUEUE) as subscription, pytest.raises(LocalProtocolError, match="must be a"):
        receive(subscription)


def test_connect_when_its_credentials_are_no_function_then_refused(broker: ThreadedBroker) -> None:
    with pytest.raises(LocalProtocolError, match=r"credentials must be a function .* got a value of type tuple"):
        trio_stomp.blocking.open(broker.url, credentials=("me", "good"))  # type: ignore[arg-type]  # what is refused


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("trio_stomp.blocking.connect('stomp://b').send", "connect() has no attribute 'send'"),
        ("for _ in trio_stomp.blocking.connect('stomp://b'): pass", "connect() cannot be iterated"),
        ("client.subscribe('/queue/a').receive", "subscribe() has no attribute 'receive'"),
        ("for _ in client.subscribe('/queue/a'): pass", "subscribe() cannot be iterated"),
        ("next(client.subscribe('/queue/a'))", "subscribe() cannot be iterated"),
        ("client.publisher().send", "publisher() has no attribute 'send'"),
        ("client.transaction().send", "transaction() has no attribute 'send'"),
        ("trio_stomp.testing.run_broker_in_thread().url", "run_broker_in_thread() has no attribute 'url'"),
    ],
)
def test_context_when_used_without_with_then_the_error_shows_how(client: Client, wrong: str, words: str) -> None:
    with pytest.raises((TypeError, AttributeError), match=re.escape(words)) as caught:
        exec(wrong, {"client": client, "trio_stomp": trio_stomp})  # noqa: S102  # what type checkers would refuse
    assert ": it is a context manager. Write: with " in str(caught.value)


async def test_context_when_used_with_async_with_then_the_error_shows_how() -> None:
    connecting = trio_stomp.blocking.connect("stomp://b")

    with pytest.raises(TypeError, match=r"connect\(\) is not async: .* with trio_stomp\.blocking\.connect"):
        async with cast(AbstractAsyncContextManager[object], connecting):
            pass


@pytest.mark.parametrize("spread", [copy.copy, copy.deepcopy, pickle.dumps])
def test_client_and_message_when_copied_or_pickled_then_the_error_says_what_to_do(
    client: Client, spread: Callable[[object], object]
) -> None:
    with client.subscribe(QUEUE) as subscription:
        client.send(QUEUE, "tea")
        message = subscription.receive(timeout=5)
        for each, words in ((client, "open one in each process"), (message, r"pass on message\.body and dict")):
            with pytest.raises(TypeError, match=words):
                spread(each)
