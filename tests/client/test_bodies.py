"""What bodies mean: by content-type, and by the decoders of users and of other libraries."""

# mypy takes the __init__ that Pydantic's models are given for an explicit Any; pyright does not.
# mypy: disallow-any-explicit=False

from __future__ import annotations

import json
from dataclasses import dataclass

import msgspec
import pydantic
import pytest
import trio
import trio.testing

import trio_stomp
from trio_stomp import Client, DecodeError, LocalProtocolError, Message, Retry
from trio_stomp.session.bodies import AS_JSON, AS_TEXT, codec_of, resent_body
from trio_stomp.testing import Broker
from trio_stomp.types import Codec

ORDER = b'{"number": 7, "city": "\xc4\x8ca"}'


class Model(pydantic.BaseModel):
    number: int
    city: str


class Struct(msgspec.Struct, frozen=True):
    number: int
    city: str


@dataclass(frozen=True)
class Order:
    number: int
    city: str


def read_order(body: bytes) -> Order:
    found = json.loads(body)
    return Order(found["number"], found["city"])


@pytest.mark.parametrize(
    ("body", "content_type", "value"),
    [
        (b'{"a": 1}', "application/json", {"a": 1}),
        (b"[]", "Application/JSON; charset=utf-8", []),
        (b'"x"', "application/vnd.shop.order+json", "x"),
        (b"[]", "text/json", []),
        ('"é"'.encode("latin-1"), "application/json;charset=iso-8859-1", "é"),
        ("[1]".encode("utf-16"), "application/json;charset=utf-16", [1]),
        (b"\xc4\x8ca", "text/plain", "Ča"),
        (b"\xe9", "text/plain;charset=iso-8859-1", "é"),
        (b"a;b", "text/csv", "a;b"),
        (b"<a/>", "application/xml;charset=utf-8", "<a/>"),
        (b"\xff\x00", "application/octet-stream", b"\xff\x00"),
        (b"\xff\x00", None, b"\xff\x00"),
        (b"\xff", "text/plain;charset=klingon", b"\xff"),
    ],
)
def test_value_when_nothing_was_chosen_then_the_content_type_decides(
    body: bytes, content_type: str | None, value: object
) -> None:
    codec = codec_of(None)

    assert codec.decode(body, content_type, "m-1") == value
    assert not codec.chosen


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b'{"a": "\xc3\xa9"}', None),
        (b'{"a": "\xc3\xa9"}', "application/json"),
        ('{"a": "é"}'.encode("utf-16-le"), "application/json;charset=utf-16-le"),
        ('{"a": "é"}'.encode("utf-32"), None),
        ('{"a": "é"}'.encode("latin-1"), "application/json;charset=iso-8859-1"),
    ],
)
def test_json_when_read_then_in_the_charset_that_it_is_in(body: bytes, content_type: str | None) -> None:
    assert AS_JSON.decode(body, content_type, "m-1") == {"a": "é"}


def test_decode_when_a_function_then_it_is_given_the_bytes() -> None:
    assert codec_of(read_order).decode(ORDER, None, "m-1") == Order(7, "Ča")


def test_decode_when_a_pydantic_model_then_values_are_models() -> None:
    assert codec_of(Model).decode(ORDER, "application/json", "m-1") == Model(number=7, city="Ča")


def test_decode_when_a_pydantic_type_adapter_then_values_are_of_its_type() -> None:
    assert codec_of(pydantic.TypeAdapter(list[int])).decode(b"[1, 2]", None, "m-1") == [1, 2]


def test_decode_when_a_msgspec_decoder_then_values_are_of_its_type() -> None:
    assert codec_of(msgspec.json.Decoder(Struct)).decode(ORDER, None, "m-1") == Struct(7, "Ča")
    packed = msgspec.msgpack.encode(Struct(8, "x"))
    assert codec_of(msgspec.msgpack.Decoder(Struct)).decode(packed, "application/msgpack", "m-1") == Struct(8, "x")


def test_decode_when_the_charset_is_not_unicode_then_it_gets_utf_8() -> None:
    body = '{"number": 7, "city": "é"}'.encode("latin-1")

    assert codec_of(Model).decode(body, "application/json;charset=latin1", "m-1").city == "é"


@pytest.mark.parametrize(
    ("decode", "name"), [(json.loads, "loads"), (Model, "Model"), (msgspec.json.Decoder(Struct), "Decoder")]
)
def test_decode_when_it_raises_then_decode_failed_says_what_and_why(decode: object, name: str) -> None:
    codec = codec_of(decode)  # type: ignore[arg-type]  # each is one of the kinds; the list of them is not

    with pytest.raises(
        DecodeError, match=rf"message 'm-1', 4 bytes of type 'text/x', cannot be decoded by {name}: "
    ) as e:
        codec.decode(b"nope", "text/x", "m-1")
    assert isinstance(e.value.__cause__, Exception)


@pytest.mark.parametrize(
    ("codec", "content_type", "name"),
    [
        (AS_JSON, "text/plain", "JSON"),
        (AS_TEXT, "text/plain", "text"),
        (codec_of(None), "application/json", "its content-type"),
    ],
)
def test_decode_when_nothing_was_chosen_and_it_fails_then_decode_failed_names_how_it_was_read(
    codec: Codec[object], content_type: str, name: str
) -> None:
    with pytest.raises(DecodeError, match=f"cannot be decoded by {name}: "):
        codec.decode(b"\xff", content_type, "m-1")


def test_decode_when_it_cannot_decode_then_refused_at_once() -> None:
    with pytest.raises(LocalProtocolError, match="decode must be a function of bytes"):
        codec_of(7)  # type: ignore[arg-type]  # what is refused


async def test_value_when_asked_for_twice_then_decoded_once_and_not_before(
    client: Client, autojump_clock: trio.testing.MockClock
) -> None:
    read: list[bytes] = []

    def note(body: bytes) -> list[bytes]:
        read.append(body)
        return read

    await client.send("/queue/a", b"x")
    async with client.subscribe("/queue/a", decode=note) as subscription:
        message = await anext(subscription)
        assert read == []
        first = message.value
        assert first is message.value is read
        assert read == [b"x"]


async def test_value_when_the_body_is_bad_then_raised_inside_the_block_of_the_message_and_the_loop_goes_on(
    client: Client, broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    for body in (b"{", ORDER):
        await client.send("/queue/a", body)
    failed = 0
    cities: list[str] = []
    async with client.subscribe("/queue/a", decode=Model) as orders:
        while not cities:
            try:
                async with await anext(orders) as message:
                    cities.append(message.value.city)
            except DecodeError:
                failed += 1
    assert (failed, cities) == (1, ["Ča"])


async def test_work_when_a_body_cannot_be_decoded_then_dead_lettered_without_another_try_and_the_rest_is_handled(
    client: Client, broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    for body in (b'{"number": "x"}', ORDER):
        await client.send("/queue/a", body, content_type="application/json")
    handled: list[Message[Model]] = []

    async def handle(message: Message[Model]) -> None:
        await trio.lowlevel.checkpoint()
        handled.append(message)

    async with client.subscribe("/queue/a", decode=Model) as orders:
        with trio.move_on_after(60):
            await orders.work(handle, dead_letter="/queue/dead")
    assert [message.value.number for message in handled] == [7]
    async with client.subscribe("/queue/dead") as dead:
        letter = await anext(dead)
        assert letter.body == b'{"number": "x"}'
        assert letter.headers["x-error-type"] == "trio_stomp.errors.DecodeError"
        assert "Model: ValidationError" in letter.headers["x-error-message"]
        assert letter.headers["x-attempts"] == "1"
    assert broker.depth("/queue/a") == 0


async def test_work_when_the_policy_retries_bad_bodies_then_they_are_tried_as_often_as_it_says(
    client: Client, autojump_clock: trio.testing.MockClock
) -> None:
    tried = 0

    def read(_body: bytes) -> object:
        nonlocal tried
        tried += 1
        raise ValueError("the schema registry is away")

    async def handle(_message: object) -> None:
        await trio.lowlevel.checkpoint()
        raise AssertionError  # nothing was decoded

    await client.send("/queue/a", b"x")
    async with client.subscribe("/queue/a", decode=read) as orders:
        with trio.move_on_after(60):
            retry = Retry(attempts=3, first_delay=0.1, retry_on=lambda error: isinstance(error, DecodeError))
            await orders.work(handle, dead_letter="/queue/dead", retry=retry)
    assert tried == 3


async def test_work_when_nothing_was_chosen_then_bodies_are_nobodys_business_but_the_handlers(
    client: Client, broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    await client.send("/queue/a", b"{", content_type="application/json")
    bodies: list[bytes] = []

    async def handle(message: Message) -> None:
        await trio.lowlevel.checkpoint()
        bodies.append(message.body)

    async with client.subscribe("/queue/a") as orders:
        with trio.move_on_after(60):
            await orders.work(handle, dead_letter="/queue/dead")
    assert bodies == [b"{"]
    assert broker.depth("/queue/dead") == 0


async def test_request_when_answered_then_the_reply_has_a_value_by_its_content_type(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    async with (
        trio_stomp.connect_stream(broker.connect_stream()) as client,
        client.subscribe("/queue/ask") as questions,
        trio.open_nursery() as nursery,
    ):

        @nursery.start_soon
        async def answer() -> None:
            async with await anext(questions) as question:
                headers = {"correlation-id": question.headers["correlation-id"]}
                await client.send(question.headers["reply-to"], "[1]", headers=headers, content_type="application/json")

        reply = await client.request("/queue/ask", b"", timeout=5)
        assert reply.value == [1]


def test_error_when_the_type_of_a_body_is_long_then_shows_80_characters_of_it() -> None:
    with pytest.raises(DecodeError, match=f"of type '{'x' * 80}', cannot be decoded by JSON"):
        AS_JSON.decode(b"{", "x" * 90, "m-1")


@pytest.mark.parametrize(
    ("headers", "body", "resent"),
    [
        ({}, b"a", "a"),
        ({"content-length": "1"}, b"a", b"a"),
        ({"content-length": "1", "content-type": "text/plain"}, b"a", "a"),
        ({"content-length": "1", "content-type": "application/json"}, b"a", b"a"),
        ({"content-type": "application/json"}, b"a", "a"),
        ({"content-type": "text/plain;charset=latin-1"}, b"a", b"a"),
        ({}, b"\xff", b"\xff"),
    ],
)
def test_body_when_sent_again_then_is_text_where_jms_would_say_so(
    headers: dict[str, str], body: bytes, resent: bytes | str
) -> None:
    assert resent_body(body, headers) == resent
