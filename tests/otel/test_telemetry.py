"""Spans and metrics of what a client does."""

from __future__ import annotations

import subprocess
import sys

import pytest
import trio
import trio.testing
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

import trio_stomp
from tests.kit.loops import on_loops
from tests.otel.conftest import Telemetry
from trio_stomp import Client, Message, Retry, StompError
from trio_stomp.otel import OpenTelemetryHooks
from trio_stomp.testing import Broker

pytestmark = [pytest.mark.anyio, on_loops("trio")]


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    number: int = span.context.span_id
    return number


def trace_of(span: ReadableSpan) -> int:
    assert span.context is not None
    number: int = span.context.trace_id
    return number


async def test_message_when_sent_and_handled_then_one_trace_with_the_conventions_names(
    client: Client, telemetry: Telemetry
) -> None:
    with telemetry.tracer.start_as_current_span("order"):
        await client.send("/queue/a", b"12345", headers={"correlation-id": "c-1"}, receipt=True)
    async with client.subscribe("/queue/a") as orders:
        async with await anext(orders) as message:
            assert trace.get_current_span().get_span_context().trace_id
            await client.send("/queue/b", b"")
    spans = telemetry.spans
    sent, handled, acked = spans["send /queue/a"], spans["process /queue/a"], spans["ack /queue/a"]
    assert telemetry.names == ["send /queue/a", "order", "send /queue/b", "process /queue/a", "ack /queue/a"]
    assert parent_of(sent) == id_of(spans["order"])
    assert parent_of(handled) == parent_of(acked) == id_of(sent)
    assert parent_of(spans["send /queue/b"]) == id_of(handled)
    assert len({trace_of(span) for span in spans.values()}) == 1
    assert [link.context.span_id for link in handled.links] == [id_of(sent)]
    assert (sent.kind, handled.kind, acked.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER, SpanKind.CLIENT)
    assert sent.attributes == {
        "messaging.system": "stomp",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "/queue/a",
        "messaging.message.body.size": 5,
        "messaging.message.conversation_id": "c-1",
    }
    assert handled.attributes is not None
    assert acked.attributes is not None
    assert handled.attributes["messaging.message.id"] == message.stable_id == message.headers["dedup-id"]
    assert handled.attributes["messaging.message.body.size"] == len(b"12345")
    assert handled.attributes["messaging.message.conversation_id"] == "c-1"
    assert handled.attributes["messaging.operation.type"] == "process"
    assert acked.attributes["messaging.operation.type"] == "settle"
    assert sent.end_time is not None
    assert sent.status.status_code is StatusCode.UNSET


async def test_message_when_its_sender_has_no_hooks_then_handling_retrying_and_settling_are_one_trace(
    broker: Broker, telemetry: Telemetry
) -> None:
    attempts: list[str] = []

    async def handle(message: Message) -> None:
        await trio.sleep(1)
        attempts.append(message.text)
        await client.send("/queue/b", b"")
        if attempts.count(message.text) < 3:
            raise ValueError("again")

    async with (
        trio_stomp.connect_stream(broker.connect_stream()) as sender,
        trio_stomp.connect_stream(broker.connect_stream(), hooks=telemetry.hooks) as client,
    ):
        for body in ("1", "2"):
            await sender.send("/queue/a", body, receipt=True)
        async with client.subscribe("/queue/a") as orders:
            with trio.move_on_after(60):
                await orders.work(handle, workers=1)
        await sender.send("/queue/c", b"", receipt=True)
        async with client.subscribe("/queue/c") as others:
            async with await anext(others):
                pass
    finished = telemetry.exporter.get_finished_spans()
    traces = [sorted(span.name for span in finished if trace_of(span) == each) for each in {*map(trace_of, finished)}]
    of_one_order = ["ack /queue/a", *["process /queue/a"] * 3, *["send /queue/b"] * 3]
    assert sorted(traces) == [of_one_order, of_one_order, ["ack /queue/c", "process /queue/c"]]


async def test_handling_when_it_is_over_then_the_span_before_is_current_again(
    client: Client, telemetry: Telemetry
) -> None:
    await client.send("/queue/a", b"")
    async with client.subscribe("/queue/a") as orders:
        with telemetry.tracer.start_as_current_span("loop") as loop:
            async with await anext(orders):
                assert trace.get_current_span() is not loop
            assert trace.get_current_span() is loop
    # What was current in the consumer is linked, not lost.
    linked = {link.context.span_id for link in telemetry.spans["process /queue/a"].links}
    assert linked == {id_of(telemetry.spans["send /queue/a"]), id_of(telemetry.spans["loop"])}
    assert parent_of(telemetry.spans["ack /queue/a"]) == id_of(telemetry.spans["loop"])


async def test_work_when_a_handler_fails_for_good_then_each_attempt_has_its_error_and_the_dead_letter_its_trace(
    client: Client, telemetry: Telemetry
) -> None:
    async def fail(_message: Message) -> None:
        await trio.lowlevel.checkpoint()
        raise OSError("the shop is closed")

    await client.send("/queue/a", b"")
    async with client.subscribe("/queue/a") as orders:
        with trio.move_on_after(60):
            await orders.work(fail, retry=Retry(attempts=2), dead_letter="/queue/dead")
    async with client.subscribe("/queue/dead") as dead:
        async with await anext(dead):
            pass
    assert telemetry.names.count("process /queue/a") == 2
    failed, sent = telemetry.spans["process /queue/a"], telemetry.spans["send /queue/a"]
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.status.description == "the shop is closed"
    assert failed.attributes is not None
    assert failed.attributes["error.type"] == "OSError"
    assert [event.name for event in failed.events] == ["exception"]
    # The dead letter keeps the context that its message had; its own send is linked to that.
    buried = telemetry.spans["send /queue/dead"]
    assert buried.kind is SpanKind.CLIENT
    assert [link.context.span_id for link in buried.links] == [id_of(sent)]
    assert parent_of(telemetry.spans["process /queue/dead"]) == id_of(sent)


async def test_handling_when_cancelled_then_the_span_ends_without_an_error(
    client: Client, telemetry: Telemetry
) -> None:
    await client.send("/queue/a", b"")
    async with client.subscribe("/queue/a") as orders:
        with trio.move_on_after(1):
            async with await anext(orders):
                await trio.sleep_forever()
    assert telemetry.spans["process /queue/a"].status.status_code is StatusCode.UNSET


async def test_request_when_answered_by_a_worker_then_question_and_answer_are_one_trace(
    broker: Broker, telemetry: Telemetry
) -> None:
    answering = Telemetry()
    async with (
        trio_stomp.connect_stream(broker.connect_stream(), hooks=answering.hooks) as answerer,
        answerer.subscribe("/queue/ask") as questions,
        trio.open_nursery() as nursery,
        trio_stomp.connect_stream(broker.connect_stream(), hooks=telemetry.hooks) as client,
    ):

        async def answer(question: Message) -> None:
            headers = {"correlation-id": question.headers["correlation-id"]}
            await answerer.send(question.headers["reply-to"], "42", headers=headers)

        nursery.start_soon(questions.work, answer)
        reply = await client.request("/queue/ask", "?", timeout=5)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    asked, handled, answered = (
        telemetry.spans["request /queue/ask"],
        answering.spans["process /queue/ask"],
        # The reply's queue has another name each time: it is said in an attribute, and not in the name.
        answering.spans["send"],
    )
    assert parent_of(handled) == id_of(asked)
    assert parent_of(answered) == id_of(handled)
    assert format(trace_of(asked), "032x") in reply.headers["traceparent"]
    assert format(id_of(answered), "016x") in reply.headers["traceparent"]
    assert answered.attributes is not None
    assert answered.attributes["messaging.destination.temporary"] is True
    assert answered.attributes["messaging.message.conversation_id"] == reply.headers["correlation-id"]
    assert all("replies" not in str(told) for points in answering.metrics().values() for told, _ in points)


async def test_baggage_when_set_by_the_sender_then_there_for_the_handler(client: Client) -> None:
    token = context.attach(baggage.set_baggage("shop", "7"))
    await client.send("/queue/a", b"")
    context.detach(token)
    async with client.subscribe("/queue/a") as orders:
        async with await anext(orders):
            assert baggage.get_baggage("shop") == "7"
        assert baggage.get_baggage("shop") is None


async def test_send_when_the_caller_has_set_a_context_itself_then_that_is_kept(
    broker: Broker, client: Client, telemetry: Telemetry
) -> None:
    own = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await client.send("/queue/a", b"", headers={"traceparent": own}, receipt=True)
    (message,) = broker.messages("/queue/a")
    assert message.headers.get_all("traceparent") == (own,)
    span = telemetry.spans["send /queue/a"]
    assert [format(link.context.span_id, "016x") for link in span.links] == ["b7ad6b7169203331"]


async def test_send_when_refused_or_never_sent_then_the_span_says_so(broker: Broker, telemetry: Telemetry) -> None:
    with pytest.raises(StompError):
        async with trio_stomp.connect_stream(broker.connect_stream(), hooks=telemetry.hooks) as client:
            with pytest.raises(StompError):
                await client.send("/queue/never", b"", headers={"a": "\0"})
            await client.send("nowhere at all", b"", receipt=True)
    never, refused = telemetry.spans["send /queue/never"], telemetry.spans["send nowhere at all"]
    assert never.attributes is not None
    assert never.attributes["error.type"] == "trio_stomp.errors.LocalProtocolError"
    assert refused.attributes is not None
    assert refused.attributes["error.type"] == "trio_stomp.errors.BrokerError"
    metrics = telemetry.metrics()
    ((told, count),) = metrics["messaging.client.sent.messages"]
    assert (told["messaging.destination.name"], count) == ("nowhere at all", 1)
    assert metrics["stomp.client.connection.losses"] == [({"error.type": "trio_stomp.errors.BrokerError"}, 1)]


async def test_metrics_when_messages_flow_then_counted_by_destination(broker: Broker, telemetry: Telemetry) -> None:
    async with trio_stomp.connect_stream(broker.connect_stream(), hooks=telemetry.hooks) as client:
        for _ in range(3):
            await client.send("/queue/a", b"x")
        async with client.subscribe("/queue/a") as orders:
            async with await anext(orders):
                pass
            await (await anext(orders)).ack()
            await (await anext(orders)).nack()
        assert telemetry.metrics()["stomp.client.connections"] == [({}, 1)]
    metrics = telemetry.metrics()
    told = {"messaging.system": "stomp", "messaging.destination.name": "/queue/a"}
    send = {**told, "messaging.operation.name": "send", "messaging.operation.type": "send"}
    assert metrics["messaging.client.sent.messages"] == [(send, 3)]
    ((consumed, count),) = metrics["messaging.client.consumed.messages"]
    assert (consumed["messaging.operation.name"], count) == ("receive", 3)
    ((processed, times),) = metrics["messaging.process.duration"]
    assert (processed["messaging.operation.name"], times) == ("process", 1)
    operations = metrics["messaging.client.operation.duration"]
    assert {point["messaging.operation.name"]: times for point, times in operations} == {"send": 3, "ack": 2, "nack": 1}
    assert metrics["stomp.client.connections"][0][1] == 0


async def test_settle_spans_when_not_wanted_then_only_counted(broker: Broker, telemetry: Telemetry) -> None:
    hooks = OpenTelemetryHooks(
        tracer_provider=telemetry.traces, meter_provider=telemetry.meters, settle_spans=False, clock=trio.current_time
    )
    async with trio_stomp.connect_stream(broker.connect_stream(), hooks=hooks) as client:
        await client.send("/queue/a", b"x")
        async with client.subscribe("/queue/a") as orders:
            async with await anext(orders):
                pass
    assert telemetry.names == ["send /queue/a", "process /queue/a"]
    assert len(telemetry.metrics()["messaging.client.operation.duration"]) == 2


def test_room_when_opentelemetry_is_missing_then_the_error_names_the_extra() -> None:
    program = "import sys; sys.modules['opentelemetry'] = None; import trio_stomp, trio_stomp.otel"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "ModuleNotFoundError: trio_stomp.otel requires OpenTelemetry" in done.stderr
    assert "pip install 'trio-stomp[otel]'" in done.stderr
