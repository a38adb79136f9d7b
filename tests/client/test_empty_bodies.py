"""What headers say of a body: JMS brokers take a message with a ``content-length`` for bytes, and others for text."""

from __future__ import annotations

import pytest
import trio

import trio_stomp
from tests.client.clients import client_of_peer
from tests.client.ways import EACH_WAY, Send, confirmed, plain
from tests.kit.loops import on_loops
from tests.kit.peer import PeerOptions
from trio_stomp import Hooks
from trio_stomp.types import Command, Frame

pytestmark = [pytest.mark.anyio, on_loops("trio")]


WAYS: list[tuple[Send, dict[str, object]]] = [
    *((send, {}) for send in EACH_WAY),
    (plain, {"headers": {"k": "a\\b"}}),
    (confirmed, {"headers": {"k": "a\\b"}}),
    (plain, {"content_type": "text/plain"}),
]


@pytest.mark.parametrize("hooks", [(), (Hooks(),)], ids=["plain", "hooks"])
@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
@pytest.mark.parametrize("server", ["ActiveMQ/6.1.8", "ActiveMQ-Artemis/2.44", "RabbitMQ/3.13", "other/1"])
@pytest.mark.parametrize(("send", "options"), WAYS)
async def test_body_when_empty_then_bytes_have_a_length_and_text_has_none(
    send: Send, options: dict[str, object], server: str, version: str, hooks: tuple[Hooks, ...]
) -> None:
    async with client_of_peer(PeerOptions(server=server), versions=[version], hooks=hooks) as (client, peer):
        for body in (b"", ""):
            await send(client, "/queue/a", body, **options)
        await peer.wait_for(Command.SEND, 2)
    lengths = [frame.headers.get("content-length") for frame in peer.of(Command.SEND)]
    assert lengths == ["0", None]


@pytest.mark.parametrize(
    ("headers", "body", "is_text"),
    [
        ({}, b"", True),
        ({"content-length": "0"}, b"", False),
        ({}, b"a", True),
        ({"content-length": "1"}, b"a", False),
        ({"content-length": "1", "content-type": "text/plain"}, b"a", True),
        ({"content-length": "1", "content-type": "application/json"}, b"a", False),
        ({"content-type": "application/json"}, b"a", True),
        ({"content-type": "text/plain;charset=latin-1"}, b"a", False),
        ({}, b"\xff", False),
    ],
)
async def test_dead_letter_when_sent_then_it_is_a_text_message_where_jms_would_say_so(
    headers: dict[str, str], body: bytes, *, is_text: bool
) -> None:
    frame = await dead_letter_of("ActiveMQ/6.1.8", headers, body)
    assert frame.body == body
    assert frame.headers.get("content-length") == (None if is_text else str(len(body)))


@pytest.mark.parametrize(
    ("server", "given", "sent", "original"),
    [
        ("ActiveMQ/6.1.8", "json", None, "json"),
        ("RabbitMQ/3.13", "json", None, "json"),
        ("RabbitMQ/3.13", "", None, ""),
        ("RabbitMQ/3.13", "a/b;c=caf\udce9", r"a/b;c=caf\udce9", "a/b;c=caf?"),
    ],
)
async def test_dead_letter_when_no_send_can_carry_its_content_type_then_it_is_sent_with_another(
    server: str, given: str, sent: str | None, original: str
) -> None:
    """Brokers pass on what others have written, and the message must not come again for ever."""
    headers = (await dead_letter_of(server, {"content-type": given}, b"\xff")).headers
    assert (headers.get("content-type"), headers["x-original-content-type"]) == (sent, original)


async def dead_letter_of(server: str, headers: dict[str, str], body: bytes) -> Frame:
    """Return the dead letter of a message that has these headers, besides those that every message has."""

    async def fail(_message: object) -> None:
        await trio.lowlevel.checkpoint()
        raise ValueError

    async with (
        client_of_peer(PeerOptions(server=server)) as (client, peer),
        client.subscribe("/q", id="s") as subscription,
    ):
        await peer.wait_for(Command.SUBSCRIBE)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: subscription.work(fail, retry=trio_stomp.Retry(attempts=1), dead_letter="/dead"))
            sent = peer.ledger.deliver("s", body)
            own = {"subscription": "s", "message-id": sent.message_id, "ack": sent.ack_id, "destination": "/q"}
            lines = [f"{name}:{value}" for name, value in {**own, **headers}.items()]
            peer.put("\n".join(["MESSAGE", *lines, "", ""]).encode(errors="surrogateescape") + body + b"\0")
            frame = await peer.wait_for(Command.SEND)
            await peer.wait_for(Command.COMMIT)
            nursery.cancel_scope.cancel()
    return frame
