"""A server of Spark Connect, in a process of its own."""

from __future__ import annotations

import html
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests.spark.recipes import DOCS

__all__ = ["ConnectServer", "connect_server"]

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectServer:
    """A server that runs.

    Attributes:
        url: What a client connects to.
        web: The address of its web UI.
        folder: Its log and the event log of Spark.
    """

    url: str
    web: str
    folder: Path

    def written(self) -> str:
        """What it has written into its logs."""
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return "".join(path.read_text("utf-8", "replace") for path in files)

    def shown(self) -> str:
        """What its web UI shows of Spark Connect: the list of sessions and statements, and a page for each session."""
        overview = self._page("/connect/")
        sessions = sorted(set(re.findall(r'/connect/session/\?id=[^"]+', overview)))
        return overview + "".join(map(self._page, sessions))

    def _page(self, path: str) -> str:
        with urllib.request.urlopen(self.web + path, timeout=PATIENCE) as response:  # noqa: S310  # it is http
            return html.unescape(response.read().decode())


def _redaction() -> str:
    """The setting of the manual that hides passwords."""
    text = (DOCS / "spark.md").read_text("utf-8")
    found = re.search(r"spark\.sql\.redaction\.string\.regex=(.*)'$", text, re.MULTILINE)
    assert found is not None
    return found[1]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


@contextmanager
def connect_server(folder: Path, settings: dict[str, str]) -> Generator[ConnectServer]:
    """Run a server with slots for four receivers and a query."""
    events = folder / "events"
    events.mkdir()
    spark = Path(pyspark.__file__).parent
    port, web_port = _free_port(), _free_port()
    command = [
        str(spark / "bin" / "spark-submit"),
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
    ]
    all_settings = {
        "spark.master": "local[5,4]",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.port": str(web_port),
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
        "spark.sql.redaction.string.regex": _redaction(),
        **settings,
    }
    for name, value in all_settings.items():
        command += ["--conf", f"{name}={value}"]
    environment = {
        **os.environ,
        "SPARK_HOME": str(spark),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
    }
    running = ConnectServer(url=f"sc://127.0.0.1:{port}", web=f"http://127.0.0.1:{web_port}", folder=folder)
    with (folder / "server.log").open("wb") as output:
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + PATIENCE
        while not _answers(port):
            runs = process.poll() is None and time.monotonic() < deadline
            assert runs, running.written()[-2000:]
            time.sleep(0.2)
        yield running
    finally:
        process.terminate()
        process.wait()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
