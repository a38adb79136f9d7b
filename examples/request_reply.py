"""Many questions in flight over one connection, each answered to whoever asked.

    python examples/request_reply.py                                    an embedded broker
    python examples/request_reply.py stomp://guest:guest@localhost      a broker of your own

Answers go to a queue with a name of its own, which works on every broker. Where the broker is RabbitMQ the queue is
private and goes away with the connection; docs/how-to/request-reply.md has a table for the others.
"""

from __future__ import annotations

import itertools
import sys
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

import trio_stomp
from trio_stomp.testing import open_broker

QUESTIONS = "/queue/double"
# Longer than any answer should take: nobody may be there to answer.
PATIENCE_SECONDS = 10


class Asker:
    """Asks, and gives each answer to the task that waits for it.

    Args:
        client: The connection.
        reply_to: Where the answers are to go.
    """

    def __init__(self, client: trio_stomp.Client, reply_to: str) -> None:
        self._client = client
        self._reply_to = reply_to
        self._numbers = itertools.count(1)
        self._waiting: dict[str, trio.MemorySendChannel[str]] = {}

    async def ask(self, question: str) -> str:
        """Send a question and wait for its answer.

        Raises:
            trio.TooSlowError: No answer came in time.

        Cancellation: the question may have been sent; its answer is dropped.
        """
        number = str(next(self._numbers))
        send, receive = trio.open_memory_channel[str](1)
        self._waiting[number] = send
        try:
            with trio.fail_after(PATIENCE_SECONDS):
                headers = {"reply-to": self._reply_to, "correlation-id": number}
                await self._client.send(QUESTIONS, question, headers=headers)
                return await receive.receive()
        finally:
            self._waiting.pop(number, None)

    async def listen(self, answers: trio_stomp.Subscription) -> None:
        """Hand out answers for as long as the subscription lasts."""
        async for answer in answers:
            await answer.ack()
            # An answer may come twice, or too late; then nobody waits for it.
            asker = self._waiting.pop(answer.headers.get("correlation-id") or "", None)
            if asker is not None:
                asker.send_nowait(answer.text)


@asynccontextmanager
async def open_asker(url: str) -> AsyncGenerator[Asker]:
    """Connect somebody who asks, for the length of a block."""
    name = f"answers-{uuid.uuid4()}"
    async with trio_stomp.connect(url) as client:
        reply_to, private = f"/queue/{name}", dict[str, str]()
        if client.profile.name == "RabbitMQ":
            reply_to = f"/reply-queue/{name}"
            private = {"exclusive": "true", "auto-delete": "true", "durable": "false"}
        async with client.subscribe(f"/queue/{name}", headers=private) as answers:
            asker = Asker(client, reply_to)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(asker.listen, answers)
                yield asker
                nursery.cancel_scope.cancel()


async def answer_questions(client: trio_stomp.Client, questions: trio_stomp.Subscription) -> None:
    """Double every number that comes."""
    async for question in questions:
        async with question:
            headers = {"correlation-id": question.headers["correlation-id"]}
            await client.send(question.headers["reply-to"], str(2 * int(question.text)), headers=headers)


async def ask_and_print(asker: Asker, number: int) -> None:
    """Ask one question."""
    print(f"twice {number} is {await asker.ask(str(number))}")


async def run(url: str) -> None:
    """Let several tasks ask at once."""
    async with (
        trio_stomp.connect(url) as answerer,
        answerer.subscribe(QUESTIONS) as questions,
        trio.open_nursery() as answering,
    ):
        answering.start_soon(answer_questions, answerer, questions)
        async with open_asker(url) as asker, trio.open_nursery() as asking:
            for number in range(5):
                asking.start_soon(ask_and_print, asker, number)
        answering.cancel_scope.cancel()


async def main() -> None:
    """Use the broker that was named, or an embedded one."""
    if len(sys.argv) > 1:
        await run(sys.argv[1])
        return
    async with open_broker() as broker:
        await run(broker.url)


if __name__ == "__main__":
    trio.run(main)
