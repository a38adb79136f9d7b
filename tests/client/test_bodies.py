"""What bodies mean: by content-type, and by the decoders of users and of other libraries."""

# mypy takes the __init__ that Pydantic's models are given for an explicit Any; pyright does not.
# mypy: disallow-any-explicit=False

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import product

import msgspec
import pydantic
import pytest
import trio

from tests.kit.loops import on_loops
from trio_stomp import Client, DecodeError, Message, Retry
from trio_stomp.testing import Broker
from trio_stomp.types import Decode

pytestmark = [pytest.mark.anyio, on_loops("trio")]

ORDER = b'{"number": 7, "city": "\xc4\x8ca"}'


class Model(pydantic.BaseModel):
    number: int
    city: str


class Struct(msgspec.Struct, frozen=True):
    number: int
    city: str


async def received(
    client: Client, broker: Broker, body: bytes, content_type: str | None, decode: Decode[object] | None = None
) -> Message:
    broker.publish("/queue/a", body, [] if content_type is None else [("content-type", content_type)])
    async with client.subscribe("/queue/a", ack="auto", decode=decode) as subscription:
        return await anext(subscription)


@pytest.mark.parametrize(
    ("body", "content_type", "value"),
    [
        (b'{"a": 1}', "application/json", {"a": 1}),
        (b"[]", "Application/JSON; charset=utf-8", []),
        (b'"x"', "application/vnd.shop.order+json", "x"),
        (b"[]", "text/json", []),
        (b"\xc4\x8ca", "text/plain", "Ča"),
        (b"\xe9", "text/plain;charset=iso-8859-1", "é"),
        (b"a;b", "text/csv", "a;b"),
        (b"<a/>", "application/xml;charset=utf-8", "<a/>"),
        (b"\xff\x00", "application/octet-stream", b"\xff\x00"),
        (b"\xff\x00", None, b"\xff\x00"),
        (b"\xff", "text/plain;charset=klingon", b"\xff"),
        (b"a", "text/plain;charset=punycode", b"a"),
    ],
)
async def test_value_when_nothing_was_chosen_then_the_content_type_decides(
    client: Client, broker: Broker, body: bytes, content_type: str | None, value: object
) -> None:
    assert (await received(client, broker, body, content_type)).value == value


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        (b"\xc4\x8daj", None, "čaj"),
        (b"\xc4\x8daj", "text/plain", "čaj"),
        ("čaj".encode("utf-16"), "text/html;charset=utf-16", "čaj"),
        (b"\xe9", 'text/plain; charset="iso-8859-1"', "é"),
    ],
)
async def test_text_when_read_then_by_the_charset_of_its_type(
    client: Client, broker: Broker, body: bytes, content_type: str | None, text: str
) -> None:
    """Rows 1x-CTYPE-3 to 8."""
    assert (await received(client, broker, body, content_type)).text == text


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
async def test_json_when_read_then_in_the_charset_that_it_is_in(
    client: Client, broker: Broker, body: bytes, content_type: str | None
) -> None:
    assert (await received(client, broker, body, content_type)).json() == {"a": "é"}


@pytest.mark.parametrize(
    ("decode", "body", "value"),
    [
        pytest.param(json.loads, b"[1]", [1], id="function"),
        pytest.param(Model, ORDER, Model(number=7, city="Ča"), id="pydantic model"),
        pytest.param(pydantic.TypeAdapter(list[int]), b"[1, 2]", [1, 2], id="pydantic type adapter"),
        pytest.param(msgspec.json.Decoder(Struct), ORDER, Struct(7, "Ča"), id="msgspec JSON"),
        pytest.param(msgspec.msgpack.Decoder(list[int]), msgspec.msgpack.encode([1]), [1], id="msgspec MessagePack"),
    ],
)
async def test_decode_when_given_then_values_are_what_it_makes_of_the_bytes(
    client: Client, broker: Broker, decode: Decode[object], body: bytes, value: object
) -> None:
    assert (await received(client, broker, body, None, decode)).value == value


async def test_decode_when_the_charset_is_not_unicode_then_it_gets_utf_8(client: Client, broker: Broker) -> None:
    body = '{"number": 7, "city": "é"}'.encode("latin-1")
    message = await received(client, broker, body, "application/json;charset=latin1", Model)
    assert message.value == Model(number=7, city="é")


@pytest.mark.parametrize(
    ("decode", "name"), [(json.loads, "loads"), (Model, "Model"), (msgspec.json.Decoder(Struct), "Decoder")]
)
async def test_decode_when_it_raises_then_decode_failed_says_what_and_why(
    client: Client, broker: Broker, decode: Decode[object], name: str
) -> None:
    message = await received(client, broker, b"nope", "text/x", decode)
    words = f"message {message.id!r}, 4 bytes of type 'text/x', cannot be decoded by {name}: "
    with pytest.raises(DecodeError, match=re.escape(words)) as e:
        _ = message.value
    assert isinstance(e.value.__cause__, Exception)


async def test_decode_when_nothing_was_chosen_and_it_fails_then_decode_failed_names_how_it_was_read(
    client: Client, broker: Broker
) -> None:
    message = await received(client, broker, b"\xff", "application/json")
    with pytest.raises(DecodeError, match="cannot be decoded by JSON: "):
        message.json()
    with pytest.raises(DecodeError, match="cannot be decoded by text: UnicodeDecodeError: "):
        _ = message.text
    with pytest.raises(DecodeError, match="cannot be decoded by its content-type: "):
        _ = message.value


async def test_decode_when_the_type_of_a_body_is_long_then_the_error_shows_80_characters_of_it(
    client: Client, broker: Broker
) -> None:
    message = await received(client, broker, b"{", "x" * 90)
    with pytest.raises(DecodeError, match=f"of type '{'x' * 80}', cannot be decoded by JSON"):
        message.json()


def as_text(message: Message) -> object:
    return message.text


def as_json(message: Message) -> object:
    return message.json()


NO_TEXT = {
    "charset that is not linear": (b"a", "text/plain;charset=punycode"),
    "charset that no Python knows": (b"a", "text/plain;charset=klingon"),
    "charset that is no text": (b"a", "text/plain;charset=zlib"),
    "content-type too long": (b"a", "text/plain;a=" + "b" * 2000),
    "not what it says": (b"\xff", "text/plain"),
}
NO_JSON = {
    **NO_TEXT,
    "nested too deep": (b"[" * 200_000, "application/json"),
    "number too long": (b"1" * 10_000, "application/json"),
    "not JSON": (b"{", "application/json"),
}


@pytest.mark.parametrize(("read", "case"), [*product([as_text], NO_TEXT), *product([as_json], NO_JSON)])
async def test_body_when_it_cannot_be_read_then_decode_failed_and_its_bytes_are_there(
    client: Client, broker: Broker, read: Callable[[Message], object], case: str
) -> None:
    body, content_type = NO_JSON[case]
    message = await received(client, broker, body, content_type)
    with pytest.raises(DecodeError, match=r"its bytes are in \.body$") as caught:
        read(message)
    assert len(str(caught.value)) < 500
    assert message.body == body


async def test_value_when_asked_for_twice_then_decoded_once_and_not_before(client: Client) -> None:
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


async def test_work_when_a_body_cannot_be_decoded_then_dead_lettered_without_another_try_and_the_rest_is_handled(
    client: Client, broker: Broker
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


async def test_work_when_the_policy_retries_bad_bodies_then_they_are_tried_as_often_as_it_says(client: Client) -> None:
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


async def test_work_when_nothing_was_chosen_then_bodies_are_not_looked_at(client: Client, broker: Broker) -> None:
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
