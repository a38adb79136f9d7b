"""The context of a trace comes through every broker: to workers, to whoever answers a request, and back."""

from __future__ import annotations

import trio
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind

from tests.interop.bench import Bench, Destination
from tests.otel.conftest import Telemetry
from trio_stomp import Message

SYSTEMS = {"rabbitmq": "rabbitmq", "activemq": "activemq", "artemis": "activemq"}
PATIENCE = 20


def spans_of(span: ReadableSpan) -> tuple[int, int]:
    """The trace of a span, and the span that counts here: of processing its parent, of sending itself."""
    context = span.parent if span.kind is SpanKind.CONSUMER else span.context
    assert context is not None
    return context.trace_id, context.span_id


async def test_context_when_sent_through_a_broker_then_the_worker_goes_on_with_the_trace(
    bench: Bench, destination: Destination
) -> None:
    telemetry, handled = Telemetry(), trio.Event()
    jobs = destination("jobs")

    async def handle(_message: Message) -> None:
        await trio.lowlevel.checkpoint()
        handled.set()

    async with bench.connect(hooks=telemetry.hooks) as client:
        await client.send(jobs, b"12345", receipt=True)
        if bench.version == "1.0":
            # No client-individual there, so no work().
            async with client.subscribe(jobs, ack="client") as subscription:
                with trio.fail_after(PATIENCE):
                    async with await anext(subscription):
                        pass
        else:
            async with client.subscribe(jobs) as subscription, trio.open_nursery() as nursery:
                nursery.start_soon(subscription.work, handle)
                with trio.fail_after(PATIENCE):
                    await handled.wait()
                nursery.cancel_scope.cancel()
    sent, processed = telemetry.spans[f"send {jobs}"], telemetry.spans[f"process {jobs}"]
    assert spans_of(processed) == spans_of(sent)
    assert processed.attributes is not None
    assert processed.attributes["messaging.system"] == SYSTEMS[bench.broker.name]
    assert processed.attributes["messaging.message.body.size"] == 5


async def test_context_when_a_request_is_answered_then_the_reply_bears_the_same_trace(
    newest: Bench, destination: Destination
) -> None:
    asking, answering = Telemetry(), Telemetry()
    questions = destination("questions")
    async with (
        newest.connect(hooks=answering.hooks) as answerer,
        answerer.subscribe(questions) as subscription,
        trio.open_nursery() as nursery,
        newest.connect(hooks=asking.hooks) as asker,
    ):

        async def answer(question: Message) -> None:
            headers = {"correlation-id": question.headers["correlation-id"]}
            await answerer.send(question.headers["reply-to"], "42", headers=headers)

        nursery.start_soon(subscription.work, answer)
        reply = await asker.request(questions, "?", timeout=PATIENCE)
        nursery.cancel_scope.cancel()
    asked = asking.spans[f"request {questions}"]
    assert spans_of(answering.spans[f"process {questions}"]) == spans_of(asked)
    # The name of the queue for replies is in no span's name.
    assert "send" in answering.spans
    assert asked.context is not None
    assert format(asked.context.trace_id, "032x") in reply.headers["traceparent"]
