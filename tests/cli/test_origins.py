import pytest

from trio_stomp.cli.origins import origin_of


@pytest.mark.parametrize(
    ("headers", "lies_in", "expected"),
    [
        ({"x-original-destination": "/queue/a", "x-first-death-queue": "b"}, "/queue/dlq", "/queue/a"),
        ({"x-first-death-queue": "a"}, "/queue/dlq", "/amq/queue/a"),
        ({"original-destination": "/queue/a"}, "/queue/ActiveMQ.DLQ", "/queue/a"),
        ({"_AMQ_ORIG_ADDRESS": "a"}, "/queue/DLQ", "/queue/a"),
        ({"_AMQ_ORIG_ADDRESS": "a"}, "DLQ", "a"),
        ({"dead-letter-source": "/queue/a"}, "/queue/dead-letter", "/queue/a"),
        ({"shop": "7"}, "/queue/dlq", None),
    ],
)
def test_origin_when_a_dead_letter_tells_it_then_found(
    headers: dict[str, str], lies_in: str, expected: str | None
) -> None:
    assert origin_of(headers, lies_in) == expected
