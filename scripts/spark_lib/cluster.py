"""A standalone Spark master and two workers, each on a loopback address of its own, as if they were three machines.

The workers are processes of this machine and share its files, so a spool in a local folder is shared storage to them.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from brokers_lib.processes import Daemon

_WHERE = "import importlib.util as u; print(u.find_spec('pyspark').submodule_search_locations[0])"
ROOT = Path(__file__).resolve().parent.parent.parent
HOME = ROOT / "build" / "spark-cluster"
PYTHON = ROOT / ".venv" / "bin" / "python"
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
START_SECONDS = 60.0
POLL_SECONDS = 0.2
STOPPED, FAILED = 3, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One process of the cluster.

    Attributes:
        name: Its name, for people and for its files.
        main_class: What of Spark it runs.
        host: The address that it listens on.
        port: Its port.
        arguments: More of its command line.
    """

    name: str
    main_class: str
    host: str
    port: int
    arguments: tuple[str, ...] = ()

    @property
    def daemon(self) -> Daemon:
        """Its process."""
        return Daemon(pid_file=HOME / f"{self.name}.pid")

    @property
    def log(self) -> Path:
        """What it has written."""
        return HOME / f"{self.name}.log"

    def command(self, spark: Path) -> list[str]:
        """Its command line."""
        ports = ["--host", self.host, "--port", str(self.port), "--webui-port", str(self.port + 100)]
        return [str(spark / "bin" / "spark-class"), self.main_class, *ports, *self.arguments]

    def answers(self) -> bool:
        """Whether something listens on its port."""
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex((self.host, self.port)) == 0


PORT = int(os.environ.get("PORT", "44613"))
MASTER = Member(name="master", main_class="org.apache.spark.deploy.master.Master", host="127.0.0.1", port=PORT)
URL = f"spark://{MASTER.host}:{MASTER.port}"


def _worker(number: int, host: str) -> Member:
    folder = str(HOME / f"worker-{number}")
    return Member(
        name=f"worker-{number}",
        main_class="org.apache.spark.deploy.worker.Worker",
        host=host,
        port=MASTER.port + number,
        arguments=("--cores", os.environ.get("CORES", "1"), "--memory", "1g", "--work-dir", folder, URL),
    )


MEMBERS = (MASTER, _worker(1, "127.0.0.2"), _worker(2, "127.0.0.3"))


def spark_home() -> Path:
    """Where pyspark has Spark; leaves where it is not installed."""
    asked = [str(PYTHON), "-c", _WHERE]
    found = subprocess.run(asked, check=False, capture_output=True, text=True)
    if found.returncode:
        sys.exit("spark-cluster: pyspark is not installed in .venv; `make pipeline ROWS=1000` installs it")
    return Path(found.stdout.strip())


def start() -> int:
    """Start what does not run, and wait until it answers."""
    HOME.mkdir(parents=True, exist_ok=True)
    spark = spark_home()
    for member in MEMBERS:
        if member.daemon.pid() is None:
            environment = {
                **os.environ,
                "SPARK_HOME": str(spark),
                "SPARK_LOCAL_IP": member.host,
                "SPARK_DAEMON_MEMORY": "256m",
                "PYSPARK_PYTHON": str(PYTHON),
            }
            command = member.command(spark)
            member.daemon.spawn(command, environment=environment, folder=HOME, output=member.log)
        deadline = time.monotonic() + START_SECONDS
        while not member.answers():
            if member.daemon.pid() is None or time.monotonic() > deadline:
                print(f"{member.name} does not answer; see {member.log}", file=sys.stderr)
                return FAILED
            time.sleep(POLL_SECONDS)
    print(URL)
    return 0


def stop() -> int:
    """Stop what runs, the workers first."""
    for member in reversed(MEMBERS):
        if member.daemon.stop():
            print(f"{member.name}: stopped")
    return 0


def status() -> int:
    """Tell what runs; 3 where something does not."""
    missing = 0
    for member in MEMBERS:
        pid = member.daemon.pid()
        missing += pid is None
        print(f"{member.name} {member.host}:{member.port}: " + ("not running" if pid is None else f"pid {pid}"))
    for pid in executors():
        print(f"executor: pid {pid}")
    return STOPPED if missing else 0


def executors() -> list[int]:
    """The processes of our workers' executors, the oldest first."""
    workers = {pid for member in MEMBERS[1:] if (pid := member.daemon.pid()) is not None}
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
            parent = int((entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue  # it has ended meanwhile
        if EXECUTOR.encode() in arguments and parent in workers:
            found.append(int(entry.name))
    return sorted(found)


def kill_executor() -> int:
    """Kill one executor at once, as when its machine goes; the worker starts another one."""
    running = executors()
    if not running:
        print("no executor runs: is a job connected to this cluster?", file=sys.stderr)
        return FAILED
    os.kill(running[0], signal.SIGKILL)
    print(f"executor {running[0]} killed")
    return 0


ACTIONS = {"start": start, "stop": stop, "status": status, "kill-executor": kill_executor}


def main(arguments: Sequence[str]) -> int:
    """Run one action; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="spark-cluster",
        description="A Spark master on 127.0.0.1 and two workers on 127.0.0.2 and 127.0.0.3, one core each or CORES.",
        epilog=f"Submit to it with: make pipeline MASTER={URL} KILL_EXECUTOR=1",
    )
    parser.add_argument("action", choices=list(ACTIONS), help="what to do")
    action: str = parser.parse_args(arguments).action
    return ACTIONS[action]()
