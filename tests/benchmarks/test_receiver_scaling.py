"""The throttled broker of the scaling run, and its table."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time

import pytest

from benchmarks.receiver_scaling import Run, ThrottlingProxy, table

DATA = bytes(range(256)) * 160


def serve(server: socket.socket) -> None:
    """Send the data to each that asks for it."""
    for _ in range(2):
        link, _address = server.accept()
        with link:
            assert link.recv(2) == b"go"
            link.sendall(DATA)


def read(port: int, found: list[bytes]) -> None:
    with socket.create_connection(("127.0.0.1", port)) as link:
        link.sendall(b"go")
        text = b""
        while data := link.recv(65536):
            text += data
        found.append(text)


def test_proxy_when_two_connections_read_then_each_gets_all_and_no_faster_than_its_share() -> None:
    found: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        proxy = ThrottlingProxy(server.getsockname()[1], len(DATA) * 4)
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        begun = time.monotonic()
        readers = [threading.Thread(target=read, args=(proxy.port, found)) for _ in range(2)]
        for each in readers:
            each.start()
        for each in readers:
            each.join()
        took = time.monotonic() - begun
        proxy.close()

    assert found == [DATA, DATA]
    # A quarter of a second each, and both at once.
    assert took > 0.2


def test_table_when_printed_then_it_says_how_nearly_linear_the_growth_is() -> None:
    runs = [Run(receivers=1, rate=2000, load=0.5), Run(receivers=4, rate=7600, load=1.5)]

    assert table(runs).splitlines()[2:] == ["| 1 | 2,000 | 1.00 | 0.5 |", "| 4 | 7,600 | 0.95 | 1.5 |"]


@pytest.mark.slow
@pytest.mark.spark
def test_run_when_small_then_it_prints_its_table() -> None:
    command = [sys.executable, "-m", "benchmarks.receiver_scaling", "--seconds", "4", "--counts", "1"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    # Where the machine is busy, half of the rows may come in one batch.
    assert "| 1 | " in done.stdout or "set more --seconds" in done.stderr, done.stderr
