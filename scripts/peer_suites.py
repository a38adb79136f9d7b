#!/usr/bin/env python3
"""Run another client's own tests against the embedded broker, and against RabbitMQ where that runs.

    scripts/peer_suites.py                the embedded broker, and RabbitMQ if `scripts/brokers` has started it
    scripts/peer_suites.py embedded       that one

The client is stompest: of the Python clients its package alone brings tests that talk to a broker. A version that does
not change is installed into `.venv-peers`. All of these tests have to pass but for those that are left out, each with
its reason.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

ROOT: Final = Path(__file__).resolve().parents[1]
VENV: Final = ROOT / ".venv-peers"
NEEDED: Final = ("stompest==2.3.0", "pytest==9.0.1")
SUITE: Final = "stompest.tests.sync_client_integration_test"
PATIENCE: Final = 300
# What is left out, and why.
LEFT_OUT: Final = {
    "SSL": "wants a certificate and a port that only their author has",
    "test_3_timeout": "dials port 61613 of localhost, whatever the settings say",
}
# The settings of its tests are names in a module, which other modules import; a plugin is there before they do.
PLUGIN: Final = """
import os
import stompest.tests as settings

settings.HOST, settings.PORT, settings.BROKER = "127.0.0.1", int(os.environ["PEER_PORT"]), "rabbitmq"
settings.LOGIN, settings.PASSCODE, settings.VIRTUALHOST = "guest", "guest", "/"
"""


def prepare() -> Path:
    """The Python of the environment with the client, which is built at the first run."""
    python = VENV / "bin" / "python"
    stamp = VENV / ".stamp"
    wanted = " ".join(NEEDED)
    if not stamp.exists() or stamp.read_text("utf-8") != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *NEEDED], check=True)
        stamp.write_text(wanted, "utf-8")
    return python


@contextmanager
def embedded() -> Generator[int]:
    """The port of an embedded broker in a process of its own."""
    command = [sys.executable, "-m", "trio_stomp.cli", "broker", "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as broker:
        try:
            said = "" if broker.stdout is None else broker.stdout.readline()
            yield int(said.rpartition(":")[2])
        finally:
            broker.terminate()


def rabbitmq() -> int | None:
    """The port of RabbitMQ, or None where it does not run."""
    asked: list[str | Path] = [ROOT / "scripts" / "brokers", "env", "rabbitmq"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    if done.returncode:
        return None
    found = json.loads(done.stdout)["rabbitmq"]
    return int(found["ports"]["stomp"]) if found["running"] else None


def run(python: Path, target: str, port: int) -> bool:
    """Run the tests against a broker; returns whether they pass."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "peer_settings.py").write_text(PLUGIN, "utf-8")
        results = Path(folder) / "results.xml"
        chosen = " and ".join(f"not {name}" for name in LEFT_OUT)
        command: list[str | Path] = [
            python,
            "-m",
            "pytest",
            "-q",
            "-p",
            "peer_settings",
            "-p",
            "no:cacheprovider",
            "-k",
            chosen,
        ]
        command += ["--tb=short", f"--junitxml={results}", "--pyargs", SUITE]
        environment = {**os.environ, "PYTHONPATH": folder, "PEER_PORT": str(port)}
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        if not results.exists():
            print(done.stdout + done.stderr)
            return False
        cases = list(ET.parse(results).getroot().iter("testcase"))  # noqa: S314  # pytest has just written it
    failed = sum(case.find("failure") is not None or case.find("error") is not None for case in cases)
    print(f"{target}: {len(cases) - failed} of {len(cases)} pass")
    if failed:
        print(done.stdout)
    return bool(cases) and not failed


def main() -> int:
    """Run the command; returns its exit status."""
    targets = sys.argv[1:] or ["embedded", "rabbitmq"]
    python = prepare()
    good = True
    if "embedded" in targets:
        with embedded() as port:
            good &= run(python, "embedded", port)
    if "rabbitmq" in targets:
        real = rabbitmq()
        if real is None:
            print("rabbitmq: does not run; start it with: scripts/brokers start rabbitmq")
            good &= not sys.argv[1:]
        else:
            good &= run(python, "rabbitmq", real)
    return int(not good)


if __name__ == "__main__":
    raise SystemExit(main())
