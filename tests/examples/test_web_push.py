"""The web application: what the broker has reaches every browser, and a slow one holds up nobody."""

from __future__ import annotations

import re
import signal
from collections.abc import Generator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse

import pytest
import trio
import web_push

from tests.examples.started import DEADLINE, command_of
from tests.examples.web_service import Answer, Service, serving
from trio_stomp.testing import run_broker_in_thread

ADDRESS = re.compile(r"open http://127\.0\.0\.1:(\d+)/ and stop with Ctrl-C\n")


@contextmanager
def running(*arguments: str) -> Generator[Service]:
    """The application, told to end in the end."""
    with serving(command_of("web_push.py", "--port", "0", *arguments), ADDRESS) as service:
        yield service
        service.process.send_signal(signal.SIGTERM)
        _, errors = service.process.communicate(timeout=DEADLINE)
        assert service.process.returncode == 0, errors


@contextmanager
def asked(service: Service, path: str) -> Generator[HTTPResponse]:
    with closing(HTTPConnection("127.0.0.1", service.port, timeout=DEADLINE)) as connection:
        connection.request("GET", path)
        with connection.getresponse() as answer:
            yield answer


def is_connected(answer: Answer) -> bool:
    return answer[0] == 200 and str(answer[1]["broker"]).startswith("connected to ")


def is_away(answer: Answer) -> bool:
    return answer[0] == 503 and str(answer[1]["broker"]).split()[0] in {"lost", "connecting"}


@pytest.mark.slow
def test_application_when_run_by_itself_then_two_browsers_are_pushed_to_and_it_ends_by_a_signal() -> None:
    with running() as service:
        with asked(service, "/") as page:
            assert 'new EventSource("/events")' in page.read().decode()

        with asked(service, "/events") as gone:
            assert gone.headers["content-type"].startswith("text/event-stream")
            assert gone.readline().startswith(b"data: coffee ")
        connection = HTTPConnection("127.0.0.1", service.port, timeout=DEADLINE)
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
    with run_broker_in_thread() as broker, running("--url", broker.url) as shop, asked(shop, "/events") as browser:
        shop.wait_for("/ready", is_connected)

        broker.call(lambda inner: inner.stop_listening())
        broker.call(lambda inner: inner.drop_connections())
        shop.wait_for("/ready", is_away)

        broker.call(lambda inner: inner.start_listening())
        shop.wait_for("/ready", is_connected)
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
