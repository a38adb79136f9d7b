"""Examples that are web services, each in a process of its own."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from http.client import HTTPConnection

from tests.examples.started import DEADLINE

__all__ = ["Answer", "Service", "serving"]

Answer = tuple[int, dict[str, object]]


class Service:
    """A service in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port

    def ask(self, method: str, path: str, body: object = None, *, form: str | None = None) -> Answer:
        """Send a request, with a body of JSON or a form, and return the status and the JSON of the response."""
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)) as connection:
            headers = {"content-type": "application/json" if form is None else "application/x-www-form-urlencoded"}
            connection.request(method, path, form if body is None else json.dumps(body), headers)
            with connection.getresponse() as answer:
                found: dict[str, object] = json.loads(answer.read())
                return answer.status, found

    def wait_for(self, path: str, wanted: Callable[[Answer], bool]) -> None:
        deadline = time.monotonic() + DEADLINE
        while not wanted(found := self.ask("GET", path)):
            assert time.monotonic() < deadline, found
            time.sleep(0.05)


@contextmanager
def serving(command: list[str], address: re.Pattern[str]) -> Generator[Service]:
    """Run a service whose first line says its port."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = address.fullmatch(process.stdout.readline())
            assert found is not None
            yield Service(process, int(found[1]))
        finally:
            process.kill()
