"""Request and reply: many concurrent requests on one connection.

    python examples/request_reply.py                                         an embedded broker
    python examples/request_reply.py --url stomp://guest:guest@localhost     your own broker

Replies need no setup: `request` chooses a destination that the broker supports.
"""

from __future__ import annotations

import argparse
import functools

import trio

import trio_stomp
from trio_stomp.testing import open_broker

QUESTIONS = "/queue/double"
# Longer than any reply should take.
PATIENCE_SECONDS = 10


async def answer_questions(questions: trio_stomp.Subscription) -> None:
    """Double every number."""
    async for question in questions:
        async with question:
            await question.reply(str(2 * int(question.text)))


async def ask_and_print(client: trio_stomp.Client, number: int) -> None:
    """Send one request."""
    reply = await client.request(QUESTIONS, str(number), timeout=PATIENCE_SECONDS)
    print(f"twice {number} is {reply.text}")


async def run(url: str) -> None:
    """Send requests from several tasks."""
    async with (
        trio_stomp.connect(url) as answerer,
        answerer.subscribe(QUESTIONS) as questions,
        trio_stomp.connect(url) as asker,
        trio.open_nursery() as answering,
    ):
        answering.start_soon(answer_questions, questions)
        async with trio.open_nursery() as asking:
            for number in range(5):
                asking.start_soon(ask_and_print, asker, number)
        answering.cancel_scope.cancel()


async def run_by_itself() -> None:
    """Run with an embedded broker."""
    async with open_broker() as broker:
        await run(broker.url)


def main(arguments: list[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="your own broker; default: an embedded one")
    url: str | None = parser.parse_args(arguments).url
    trio.run(run_by_itself if url is None else functools.partial(run, url))


if __name__ == "__main__":
    main()
