"""The web application: what the broker has reaches every browser, and a slow one holds up nobody."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import time
from collections.abc import Generator
from contextlib import closing, contextmanager

import pytest
import trio
import web_push

from tests.examples.started import DEADLINE, command_of
from trio_stomp.testing import run_broker_in_thread

ADDRESS = re.compile(r"open http://127\.0\.0\.1:(\d+)/ and stop with Ctrl-C\n")
POLL_SECONDS = 0.1


@contextmanager
def running(*arguments: str) -> Generator[int]:
    """The application in a process of its own, told to end in the end; gives its port."""
    process = subprocess.Popen(
        command_of("web_push.py", "--port", "0", *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        found = ADDRESS.fullmatch(process.stdout.readline())
        assert found is not None
        yield int(found[1])
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=DEADLINE)
        assert process.returncode == 0, errors
    finally:
        process.kill()
        process.wait()


@contextmanager
def asked(port: int, path: str) -> Generator[http.client.HTTPResponse]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)) as connection:
        connection.request("GET", path)
        with connection.getresponse() as answer:
            yield answer


def readiness(port: int) -> tuple[int, str]:
    with asked(port, "/ready") as answer:
        return answer.status, json.loads(answer.read())["broker"]


def wait_for_status(port: int, status: int) -> str:
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        found, text = readiness(port)
        if found == status:
            return text
        time.sleep(POLL_SECONDS)
    raise AssertionError(f"/ready did not answer {status} in time")


@pytest.mark.slow
def test_application_when_run_by_itself_then_two_browsers_are_pushed_to_and_it_ends_by_a_signal() -> None:
    with running() as port:
        with asked(port, "/") as page:
            assert 'new EventSource("/events")' in page.read().decode()

        with asked(port, "/events") as gone:
            assert gone.headers["content-type"].startswith("text/event-stream")
            assert gone.readline().startswith(b"data: coffee ")
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
        connection.request("GET", "/events")
        stays = connection.getresponse()
        assert stays.readline().startswith(b"data: coffee ")
        assert stays.readline() == b"\n"

    # The signal has ended its stream in order: the server did not wait for it, nor cut it.
    with closing(connection), stays:
        rest = stays.read()  # raises IncompleteRead where it was cut
        assert not rest or rest.endswith(b"\n\n")


@pytest.mark.slow
def test_application_when_its_broker_goes_and_comes_back_then_it_says_so_and_browsers_stay() -> None:
    with run_broker_in_thread() as broker, running("--url", broker.url) as port, asked(port, "/events") as browser:
        assert wait_for_status(port, 200).startswith("connected to ")

        broker.call(lambda inner: inner.stop_listening())
        broker.call(lambda inner: inner.drop_connections())
        assert wait_for_status(port, 503).split()[0] in {"lost", "connecting"}

        broker.call(lambda inner: inner.start_listening())
        wait_for_status(port, 200)
        broker.call(lambda inner: inner.publish(web_push.PRICES, "it is back\nreally"))
        lines = iter(browser.readline, b"")
        assert b"data: it is back\n" in lines
        assert next(lines) == b"data: really\n"


async def test_hub_when_a_browser_does_not_keep_up_then_it_has_the_newest_events() -> None:
    hub = web_push.Hub()
    with hub.join() as slow:
        for number in range(web_push.INBOX_EVENTS + 3):
            hub.publish(str(number))
        hub.close()

        events = [event async for event in slow.events]

    assert events == [f"data: {number}\n\n".encode() for number in range(3, web_push.INBOX_EVENTS + 3)]


def test_hub_when_a_browser_has_left_then_it_is_forgotten() -> None:
    hub = web_push.Hub()
    with hub.join() as inbox:
        pass

    hub.publish("nobody is here")

    with pytest.raises(trio.WouldBlock):
        inbox.events.receive_nowait()
