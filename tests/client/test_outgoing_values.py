"""Messages as values, JSON in place of bodies, and replies: the same for each verb that sends, on both loops."""

from __future__ import annotations

import decimal
import json
import math
from collections.abc import AsyncGenerator

import anyio
import pytest

import trio_stomp
from tests.client.ways import EACH_VERB, Send
from trio_stomp import Client, LocalProtocolError, Message, OutgoingMessage, StompError, Subscription

pytestmark = pytest.mark.anyio

QUEUE = "/queue/values"


@pytest.fixture
async def subscription(client: Client) -> AsyncGenerator[Subscription]:
    async with client.subscribe(QUEUE) as opened:
        yield opened


async def taken(subscription: Subscription) -> Message:
    with anyio.fail_after(10):
        message = await anext(subscription)
        await message.ack()
    return message


@EACH_VERB
async def test_send_when_given_a_message_then_all_that_it_says_is_sent(
    send: Send, client: Client, subscription: Subscription
) -> None:
    message = OutgoingMessage(QUEUE, "č", headers={"k": "v"}, content_type="text/x", persistent=True, ttl=60)
    await send(client, message)
    came = await taken(subscription)
    assert (came.text, came.content_type, came.headers["k"]) == ("č", "text/x", "v")
    assert came.headers["persistent"] == "true"


@EACH_VERB
async def test_send_when_given_json_then_it_is_encoded_and_its_type_is_named(
    send: Send, client: Client, subscription: Subscription
) -> None:
    value = {"id": 7, "name": "č", "items": [1.5, None, True]}
    await send(client, QUEUE, json=value)
    came = await taken(subscription)
    assert came.body == '{"id":7,"name":"č","items":[1.5,null,true]}'.encode()
    assert came.content_type == "application/json"
    assert came.json() == value


@EACH_VERB
async def test_send_when_given_an_encoder_then_it_makes_the_body(
    send: Send, client: Client, subscription: Subscription
) -> None:
    def encode(value: object) -> str:
        return json.dumps(value, default=str)

    await send(client, QUEUE, json={"price": decimal.Decimal("1.10")}, encode=encode, content_type="a/b+json")
    came = await taken(subscription)
    assert (came.text, came.content_type) == ('{"price": "1.10"}', "a/b+json")


WRONG: list[tuple[tuple[object, ...], dict[str, object], type[Exception], str]] = [
    ((QUEUE,), {}, TypeError, "needs a body, or json="),
    ((QUEUE, b"1"), {"json": 1}, TypeError, "a body and json="),
    ((QUEUE, b"1"), {"encode": str}, TypeError, "encode= without json="),
    ((OutgoingMessage(QUEUE, b"1"), b"2"), {}, TypeError, "an OutgoingMessage and more besides"),
    ((OutgoingMessage(QUEUE, b"1"),), {"headers": {"a": "b"}}, TypeError, "an OutgoingMessage and more besides"),
    ((OutgoingMessage(QUEUE, b"1"),), {"persistent": True}, TypeError, "an OutgoingMessage and more besides"),
    (
        (QUEUE,),
        {"json": {1, 2}},
        LocalProtocolError,
        "json= cannot be encoded: .*set is not JSON serializable; pass encode=",
    ),
    ((QUEUE, 5), {}, LocalProtocolError, "a body must be bytes"),
    ((QUEUE,), {"json": math.nan}, LocalProtocolError, "json= cannot be encoded"),
    (
        (QUEUE,),
        {"json": 1, "encode": id},
        LocalProtocolError,
        "encode= must return bytes or str, got a value of type int",
    ),
    ((None, b"1"), {}, LocalProtocolError, "^destination must be a str such as '/queue/orders', got None$"),
    (([QUEUE], b"1"), {}, LocalProtocolError, r"^destination must be a str such as '/queue/orders', got \['/queue/"),
    ((None,), {"json": 1}, LocalProtocolError, "destination must be a str .*, got None"),
    (("", b"1"), {}, LocalProtocolError, "^destination must be a str such as '/queue/orders', got ''$"),
    (("", "č"), {"persistent": True}, LocalProtocolError, "destination must be a str .*, got ''"),
    ((b"1" * 1000, QUEUE), {}, LocalProtocolError, "destination must be a str .*, got b'1{78}... of type bytes$"),
    ((QUEUE, b"1"), {"persistent": "false"}, LocalProtocolError, "^persistent must be True or False, got 'false'$"),
    ((QUEUE, "č"), {"persistent": 1, "headers": [("a", "b")]}, LocalProtocolError, "persistent must be .*, got 1"),
    ((QUEUE, b"1"), {"ttl": "5"}, LocalProtocolError, "^ttl must be a number of seconds, more than 0, got '5'$"),
    ((QUEUE, b"1"), {"priority": "5"}, LocalProtocolError, "priority must be an integer from 0 to 9 .*, got '5'"),
    ((QUEUE, b"1"), {"priority": True}, LocalProtocolError, "priority must be an integer from 0 to 9 .*, got True"),
    ((QUEUE, b"1"), {"headers": "a:b"}, LocalProtocolError, "^headers must be a mapping .* got a value of type str"),
    ((QUEUE, b"1"), {"headers": 5}, LocalProtocolError, "headers must be a mapping .* got a value of type int"),
    ((QUEUE, b"1"), {"headers": [("a",)]}, LocalProtocolError, "or a list of pairs .* got a value of type list"),
]


@EACH_VERB
@pytest.mark.parametrize(("args", "options", "kind", "words"), WRONG)
async def test_send_when_given_too_much_or_too_little_then_it_says_what_and_nothing_is_sent(
    send: Send,
    args: tuple[object, ...],
    options: dict[str, object],
    kind: type[Exception],
    words: str,
    client: Client,
    subscription: Subscription,
) -> None:
    with pytest.raises(kind, match=words):
        await send(client, *args, **options)
    await client.send(QUEUE, b"next", receipt=True)
    assert (await taken(subscription)).body == b"next"


async def test_send_when_an_encoder_raises_then_its_exception_comes_out_as_it_is(client: Client) -> None:
    own = RuntimeError("mine")

    def encode(_value: object) -> bytes:
        raise own

    with pytest.raises(RuntimeError) as caught:
        await client.send(QUEUE, json=1, encode=encode)
    assert caught.value is own


def test_outgoing_message_when_json_is_given_then_its_body_is_made_where_it_is_written() -> None:
    message = OutgoingMessage(QUEUE, json=[1])
    assert (message.body, message.content_type) == (b"[1]", "application/json")
    assert OutgoingMessage(QUEUE, json=[1], headers={"content-type": "a/b"}).content_type is None
    with pytest.raises(LocalProtocolError, match="cannot be encoded"):
        OutgoingMessage(QUEUE, json=object())
    with pytest.raises(TypeError, match="body"):
        OutgoingMessage(QUEUE)


class Order:
    """As a Pydantic model: it parses itself."""

    def __init__(self, number: int) -> None:
        self.number = number

    @classmethod
    def model_validate_json(cls, json_data: bytes, /) -> Order:
        return cls(int(json.loads(json_data)["number"]))


async def test_json_when_given_a_model_then_it_reads_the_body(client: Client, subscription: Subscription) -> None:
    await client.send(QUEUE, json={"number": 7})
    came = await taken(subscription)
    assert came.json(Order).number == 7
    assert came.json(len) == len(came.body)
    with pytest.raises(trio_stomp.DecodeError, match="cannot be decoded by int"):
        came.json(int)


@pytest.mark.parametrize("receipt", [False, True])
async def test_reply_when_to_a_request_then_the_requester_gets_it(
    client: Client, subscription: Subscription, *, receipt: bool
) -> None:
    async with anyio.create_task_group() as group:

        async def serve() -> None:
            async with await anext(subscription) as request:
                await request.reply(json={"twice": 2 * int(request.text)}, receipt=receipt, headers={"k": "v"})

        group.start_soon(serve)
        reply = await client.request(QUEUE, "21", timeout=10)
        assert (reply.json(), reply.headers["k"]) == ({"twice": 42}, "v")


async def test_reply_when_it_cannot_be_sent_then_says_why(client: Client, subscription: Subscription) -> None:
    await client.send(QUEUE, b"no request", receipt=True)
    with pytest.raises(LocalProtocolError, match="has no reply-to header: it is not a request"):
        await (await taken(subscription)).reply("x")
    await client.send(QUEUE, b"", headers={"reply-to": "/queue/answers", "correlation-id": "7"}, receipt=True)
    request = await taken(subscription)
    with pytest.raises(LocalProtocolError, match="set by reply\\(\\) itself"):
        await request.reply("x", headers={"correlation-id": "8"})
    with pytest.raises(TypeError, match="reply\\(\\) needs a body"):
        await request.reply()
    await request.reply("a", receipt=True)
    async with client.subscribe("/queue/answers") as answers:
        answer = await taken(answers)
        assert (answer.text, answer.headers["correlation-id"]) == ("a", "7")


async def test_reply_when_a_reply_is_answered_then_it_goes_back(client: Client, subscription: Subscription) -> None:
    async with client.subscribe("/queue/more") as more:
        async with anyio.create_task_group() as group:

            async def serve() -> None:
                async with await anext(subscription) as request:
                    await request.reply("what more?", headers={"reply-to": "/queue/more"})

            group.start_soon(serve)
            reply = await client.request(QUEUE, "1", timeout=10)
            await reply.reply("nothing", receipt=True)
            assert (await taken(more)).text == "nothing"


async def test_reply_when_the_client_is_closed_then_says_so(client: Client, subscription: Subscription) -> None:
    await client.send(QUEUE, b"", headers={"reply-to": "/queue/answers"}, receipt=True)
    request = await taken(subscription)
    await client.disconnect()
    with pytest.raises(StompError, match="closed"):
        await request.reply("late")
