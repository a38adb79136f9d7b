"""JMS services at the other end: a Java program that answers requests, with the JMS client of each broker."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio

import trio_stomp
from tests.interop.bench import PATIENCE
from tests.interop.broker_facts import Broker

pytestmark = pytest.mark.parametrize("broker", ["activemq", "artemis"], indirect=True)


class Service:
    """A JMS service that runs.

    Attributes:
        queue: The destination of its requests.
    """

    def __init__(self, queue: str, process: trio.Process) -> None:
        self.queue = queue
        self._process = process
        self._said = b""

    async def line(self, *, within: float = PATIENCE) -> str:
        """What it says next: the type of the message that it got, and its JMSReplyTo."""
        assert self._process.stdout is not None
        with trio.fail_after(within):
            while b"\n" not in self._said:
                octets = await self._process.stdout.receive_some()
                assert octets, "the JMS service has ended"
                self._said += octets
        line, _, self._said = self._said.partition(b"\n")
        return line.decode()


@asynccontextmanager
async def serving(broker: Broker) -> AsyncGenerator[Service]:
    """A JMS service at a queue of its own, which answers "echo: " and the text of each request."""
    assert broker.jms_responder, f"the JMS service is not built; run: scripts/brokers install {broker.name}"
    name = f"interop.{uuid.uuid4().hex[:12]}.jms"
    async with trio.open_nursery() as nursery:
        run = partial(trio.run_process, [*broker.jms_responder, name], stdout=subprocess.PIPE, check=False)
        process: trio.Process = await nursery.start(run)
        service = Service(f"/queue/{name}", process)
        # A Java machine with many jars, beside all else that the machine has to do.
        assert await service.line(within=60) == "ready"
        yield service
        process.kill()


async def test_request_when_a_jms_service_answers_then_its_reply_is_returned(broker: Broker) -> None:
    async with serving(broker) as service, trio_stomp.connect(broker.url()) as client:
        for question in ("one", "two"):
            reply = await client.request(service.queue, question, timeout=PATIENCE)
            assert reply.text == f"echo: {question}"


async def test_request_when_many_are_under_way_at_a_jms_service_then_each_gets_its_own_reply(broker: Broker) -> None:
    replies: dict[str, str] = {}

    async with serving(broker) as service, trio_stomp.connect(broker.url()) as client, trio.open_nursery() as nursery:

        async def ask(question: str) -> None:
            replies[question] = (await client.request(service.queue, question, timeout=PATIENCE)).text

        for number in range(20):
            nursery.start_soon(ask, str(number))
    assert replies == {str(number): f"echo: {number}" for number in range(20)}


async def test_request_when_it_says_where_replies_go_then_a_jms_service_sends_them_there(broker: Broker) -> None:
    mine = f"/topic/interop.{uuid.uuid4().hex[:12]}.replies"
    async with serving(broker) as service, trio_stomp.connect(broker.url()) as client:
        reply = await client.request(service.queue, "here", timeout=PATIENCE, reply_to=mine)
        assert reply.text == "echo: here"
        assert mine.removeprefix("/topic/") in await service.line()


async def test_request_when_the_acceptor_has_no_prefixes_then_the_reply_comes_too(broker: Broker) -> None:
    if broker.name != "artemis":
        pytest.skip("the names of ActiveMQ Classic always begin with /queue/ or /topic/")
    async with serving(broker) as service, trio_stomp.connect(broker.url("bare")) as client:
        queue = service.queue.removeprefix("/queue/")
        reply = await client.request(queue, "bare", timeout=PATIENCE, headers={"destination-type": "ANYCAST"})
        assert reply.text == "echo: bare"


async def test_text_when_a_jms_program_put_a_nul_into_it_then_the_client_ends_and_what_came_before_is_handled(
    broker: Broker,
) -> None:
    # ActiveMQ sends a JMS text without content-length, so that its NUL looks like the end of the frame.
    if broker.name != "activemq":
        pytest.skip("Artemis sends content-length")
    answers = f"/queue/interop.{uuid.uuid4().hex[:12]}.answers"
    headers = {"reply-to": answers, "correlation-id": "1"}
    got: list[str] = []

    async def take_all(client: trio_stomp.Client) -> None:
        async with client.subscribe(answers) as subscription:
            async for message in subscription:
                got.append(message.text)
                await message.ack()

    async with serving(broker) as service:
        with pytest.raises(trio_stomp.RemoteProtocolError):
            async with trio_stomp.connect(broker.url(), reconnect=trio_stomp.Reconnect(first_delay=0.01)) as client:
                for question in ("good", "with\\0nul"):
                    await client.send(service.queue, question, headers=headers, receipt=True)
                    await service.line()
                with trio.fail_after(PATIENCE):
                    await take_all(client)
        assert got == ["echo: good"]


async def test_body_when_empty_then_jms_sees_bytes_or_text_as_it_was_given(broker: Broker) -> None:
    async with serving(broker) as service:
        for version in ("1.0", "1.1", "1.2"):
            seen: list[str] = []
            async with trio_stomp.connect(broker.url(), **broker.options(version)) as client:
                for body in (b"", b"x", "", "x"):
                    await client.send(service.queue, body, receipt=True)
                    kind, _, _ = (await service.line()).partition(" ")
                    seen.append("bytes" if "Bytes" in kind else "text" if "Text" in kind else kind)
            assert seen == ["bytes", "bytes", "text", "text"], version
