"""An S3-compatible server, and a proxy in front of it that can refuse and delay.

The server is moto's, in a process of its own. pyarrow's S3 client talks to it over HTTP, as it talks to S3.
"""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from trio_stomp.spark.spool_store import SpoolLocation

__all__ = ["BUCKET", "S3Proxy", "run_s3_server"]

BUCKET = "bucket"
_PATIENCE = 120.0
_HOST = "127.0.0.1"
# The proxy speaks for itself here.
_OF_THE_HOP = {"connection", "content-length", "expect", "transfer-encoding"}


class S3Proxy:
    """What stands between a client and the server.

    Attributes:
        port: Where it listens.
        is_open: Segments are written while this is set; otherwise they wait.
        is_waiting: Set once a segment has waited.
        refuses: Whether segments are refused, as by a store that is overloaded.
        loses_answers: How many more segments are written without an answer.
        conflicts: How many more conditional writes are refused, as while another write of the object is under way.
        writes: What was asked to write segments: the method, the path and the query.
        signed: For each request, whether it was signed with a key.
    """

    def __init__(self) -> None:
        self.port = 0
        self.is_open = threading.Event()
        self.is_open.set()
        self.is_waiting = threading.Event()
        self.refuses = False
        self.loses_answers = 0
        self.conflicts = 0
        self.writes: list[str] = []
        self.signed: list[bool] = []

    def admits(self, write: str) -> bool:
        """Let a write of a segment in, perhaps later."""
        self.writes.append(write)
        if not self.is_open.is_set():
            self.is_waiting.set()
            self.is_open.wait(_PATIENCE)
        return not self.refuses

    def location(self, folder: str) -> SpoolLocation:
        """A spool in the bucket, reached through this proxy."""
        settings = {
            "endpoint_override": f"{_HOST}:{self.port}",
            "scheme": "http",
            "region": "us-east-1",
            "access_key": "x",
            "secret_key": "y",
        }
        return SpoolLocation.of(f"s3://{BUCKET}/{folder}", settings.items())


@contextmanager
def _server() -> Generator[int]:
    with socket.create_server((_HOST, 0)) as free:
        port: int = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", _HOST, "-p", str(port)]
    # It logs each request.
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + _PATIENCE
            while not _made_bucket(port):
                assert process.poll() is None, "moto's server has ended"
                assert time.monotonic() < until, "moto's server does not answer"
                time.sleep(0.02)
            yield port
        finally:
            process.terminate()


def _made_bucket(port: int) -> bool:
    connection = http.client.HTTPConnection(_HOST, port, timeout=_PATIENCE)
    try:
        # Requests without a key may write to it too.
        connection.request("PUT", f"/{BUCKET}", headers={"x-amz-acl": "public-read-write"})
        return connection.getresponse().status == http.HTTPStatus.OK
    except ConnectionError:
        return False
    finally:
        connection.close()


def _body_of(request: BaseHTTPRequestHandler) -> bytes:
    stream = request.rfile
    if request.headers.get("Transfer-Encoding") != "chunked":
        return stream.read(int(request.headers.get("Content-Length", 0)))
    body = b""
    while size := int(stream.readline(), 16):
        body += stream.read(size)
        stream.readline()
    stream.readline()
    return body


def _handler(s3: S3Proxy, port: int) -> type[BaseHTTPRequestHandler]:
    """Passes requests on, but for what the proxy holds up."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass(self) -> None:
            body = _body_of(self)
            s3.signed.append("Authorization" in self.headers)
            is_segment = self.command in {"PUT", "POST"} and "/segments/" in self.path
            if is_segment and not s3.admits(f"{self.command} {self.path}"):
                self._answer(503, [], b"<Error><Code>SlowDown</Code><Message>Reduce your rate</Message></Error>")
                return
            if "If-None-Match" in self.headers and s3.conflicts:
                s3.conflicts -= 1
                self._answer(409, [], b"<Error><Code>ConditionalRequestConflict</Code></Error>")
                return
            connection = http.client.HTTPConnection(_HOST, port, timeout=_PATIENCE)
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _OF_THE_HOP}
            connection.request(self.command, self.path, body, {**headers, "Content-Length": str(len(body))})
            found = connection.getresponse()
            answer = found.read()
            connection.close()
            if is_segment and s3.loses_answers:
                s3.loses_answers -= 1
                self.close_connection = True
            else:
                self._answer(found.status, found.getheaders(), answer)

        def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
            self.send_response(status)
            given = {name.lower() for name, _ in headers}
            for name, value in headers:
                if name.lower() not in _OF_THE_HOP - {"content-length"}:
                    self.send_header(name, value)
            if "content-length" not in given:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass  # noqa: N815  # http.server's names

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # http.server's name
            pass

    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True


@contextmanager
def run_s3_server() -> Generator[S3Proxy]:
    """Run the server, with a bucket."""
    s3 = S3Proxy()
    with _server() as port, _Server((_HOST, 0), _handler(s3, port)) as server:
        s3.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield s3
        finally:
            server.shutdown()
            thread.join()
