"""What the brokers have in common: verbs, ports, state, and the wait until one answers."""

import contextlib
import fcntl
import itertools
import re
import shutil
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import ClassVar

from brokers_lib import ping
from brokers_lib.processes import Daemon, resident_bytes
from brokers_lib.settings import BASE_PORTS, HOST, LIBRARY, USERS, Settings, make_state

# Generous: on a loaded machine with two cores a start can take ten times its usual 3 to 10 seconds.
START_SECONDS = 120.0
POLL_SECONDS = 0.2
# The default ports are among those that a system gives to outgoing connections, so one may be taken for a while.
ATTEMPTS = 5
PORT_TAKEN = re.compile("address already in use|eaddrinuse", re.IGNORECASE)
RETRY_SECONDS = 5.0
LOG_LINES = 60
# URL scheme and path by what a port speaks, for those that a STOMP client dials.
SCHEMES: Mapping[str, tuple[str, str]] = {
    "stomp": ("stomp", ""),
    "stomp+ssl": ("stomps", ""),
    "stomp+nio": ("stomp", ""),
    "stomp+nio+ssl": ("stomps", ""),
    "bare": ("stomp", ""),
    "mtls": ("stomps", ""),
    "small": ("stomp", ""),
    "ws": ("ws", "/ws"),
    "wss": ("wss", "/ws"),
}


def make_certificates(folder: Path) -> None:
    """Make the certificates that all brokers share, where they are missing or about to expire.

    Raises:
        SystemExit: openssl is missing or failed; its own words are in the message.
    """
    command = ["sh", str(LIBRARY / "certs.sh"), str(folder)]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        # Brokers start side by side, and each comes here: one that read while another wrote would get half a key store.
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"brokers: the certificates could not be made; is openssl installed?\n{done.stderr}")


def tail(path: Path, lines: int = LOG_LINES) -> str:
    """The end of a text file, empty where there is none."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return "".join(text.splitlines(keepends=True)[-lines:])


class Broker(ABC):
    """A private broker: how to install, configure, start and stop it."""

    name: ClassVar[str]
    # What each port speaks, as an offset from the base: the `ports` of `env`.
    offsets: ClassVar[Mapping[str, int]]
    # The broker whose folder of config/ this one is configured from, and the places that its container has.
    configured_as: ClassVar[str]
    container_folders: ClassVar[Mapping[str, str]] = {}

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.base = settings.base_ports[self.name]
        self.state = settings.state / self.name
        self.daemon = Daemon(pid_file=self.state / "pid")
        self.output = self.state / "log" / "output.log"

    @abstractmethod
    def install(self) -> None:
        """Make the broker's programs available; quick and silent where they are."""

    def unavailable(self) -> str | None:
        """Why this broker cannot run on this machine, and what to do instead; None where it can."""
        return None

    @abstractmethod
    def configure(self) -> None:
        """Write the configuration, anew at each start."""

    @abstractmethod
    def launch(self) -> None:
        """Start the processes, without waiting for anything."""

    def configuration(self, file: str) -> str:
        """A file of config/, which is the container's, with this broker's address, folders and ports."""
        first = BASE_PORTS[self.configured_as]
        values = {str(first + offset): str(self.base + offset) for offset in self.offsets.values()}
        values |= {place: str(self.state / below) for place, below in self.container_folders.items()}
        values |= {"0.0.0.0": HOST, "/certs/": f"{self.settings.certificates}/"}  # noqa: S104 - it is replaced
        text = (LIBRARY / "config" / self.configured_as / file).read_text(encoding="utf-8")
        return re.sub("|".join(map(re.escape, values)), lambda found: values[found[0]], text)

    @property
    def logs(self) -> tuple[Path, ...]:
        """The files that tell what went wrong."""
        return (self.output,)

    def after_stop(self) -> None:  # noqa: B027 - only RabbitMQ has anything to do here
        """End what runs beside the broker itself."""

    def control(self, arguments: list[str]) -> int:
        """Pass arguments to the broker's own administration tool, and its exit status back."""
        raise SystemExit(f"brokers: {self.name} has no command-line tool here ({' '.join(arguments)} was not run)")

    @property
    def ports(self) -> dict[str, int]:
        """The port of each listener, by what it speaks."""
        return {what: self.base + offset for what, offset in self.offsets.items()}

    @contextlib.contextmanager
    def alone(self) -> Generator[None, None, None]:
        """Hold off others who start or stop the same broker: a test run and a person, say."""
        make_state(self.settings.state)
        with (self.settings.state / f"{self.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def install_alone(self) -> str:
        """Install it while no other does."""
        with self.alone():
            self.install()
        return f"{self.name}: installed"

    def start(self) -> str:
        """Start the broker and wait until it answers. Returns one line that tells how it went."""
        with self.alone():
            pid = self.daemon.pid()
            if pid is not None and self.answer():
                return f"{self.name}: already running, pid {pid}, {self.url()}"
            if pid is not None:
                self.daemon.stop()
            self.install()
            for folder in (self.state, self.output.parent):
                folder.mkdir(parents=True, exist_ok=True)
            make_certificates(self.settings.certificates)
            self.configure()
            for attempt in itertools.count(1):
                started = time.monotonic()
                self.launch()
                trouble = self._wait_ready(started)
                if trouble is None:
                    seconds = time.monotonic() - started
                    told = f"{self.answer()} answers after {seconds:.1f} s, pid {self.daemon.pid()}"
                    return f"{self.name}: {told}, {self.url()}"
                log = self.log()
                self.daemon.stop()
                self.after_stop()
                if attempt == ATTEMPTS or not PORT_TAKEN.search(log):
                    raise SystemExit(f"brokers: {self.name} {trouble}; the end of its log:\n{log}")
                time.sleep(RETRY_SECONDS)
        raise AssertionError

    def _wait_ready(self, started: float) -> str | None:
        """Wait until the broker answers. Otherwise, return what went wrong."""
        while time.monotonic() - started < START_SECONDS:
            # The ports open one after the other, and the one that speaks plain STOMP need not be the last.
            if self.answer() and all(ping.accepts(HOST, port) for port in self.ports.values()):
                return None
            if self.daemon.pid() is None:
                return "ended while it started"
            time.sleep(POLL_SECONDS)
        return f"did not answer within {START_SECONDS:.0f} s"

    def answer(self) -> str | None:
        """What the running broker calls itself, None where it does not answer."""
        return ping.server(HOST, self.ports["stomp"])

    def stop(self) -> str:
        """Shut the broker down in order."""
        with self.alone():
            stopped = self.daemon.stop()
            self.after_stop()
        return f"{self.name}: stopped" if stopped else f"{self.name}: was not running"

    def restart(self) -> str:
        """Stop it, and start it again."""
        self.stop()
        return self.start()

    def kill(self) -> str:
        """End the broker with SIGKILL, as a crash would."""
        with self.alone():
            killed = self.daemon.kill()
            self.after_stop()
        return f"{self.name}: killed" if killed else f"{self.name}: was not running"

    def status(self) -> tuple[bool, str]:
        """Whether the broker runs and answers, and one line about it. One that cannot run here is not missed."""
        pid = self.daemon.pid()
        if pid is None and (reason := self.unavailable()):
            return True, reason
        if pid is None:
            return False, f"{self.name}: not running"
        server = self.answer()
        memory = resident_bytes(pid) / 2**20
        told = f"answers as {server}" if server else "does not answer"
        return server is not None, f"{self.name}: pid {pid}, {memory:.0f} MiB, {told}, {self.url()}"

    def wipe(self) -> str:
        """Stop the broker and delete its data, its configuration and its logs, but not what was downloaded."""
        told = self.stop()
        shutil.rmtree(self.state, ignore_errors=True)
        return f"{told}, its data deleted"

    def log(self) -> str:
        """The end of each log."""
        return "\n".join(f"==> {path} <==\n{text}" for path in self.logs if (text := tail(path)))

    def jms_responder(self) -> list[str]:
        """The command of a JMS service that answers requests, but for its queue; empty where there is none."""
        return []

    def url(self) -> str:
        """The address of the plain STOMP port."""
        return f"stomp://{HOST}:{self.ports['stomp']}"

    def env(self) -> dict[str, object]:
        """All that a test needs to know to talk to this broker."""
        ports, certificates = self.ports, self.settings.certificates
        pid = self.daemon.pid()
        unavailable = self.unavailable() if pid is None else None
        # Where it cannot be started from here, docker compose may have done so.
        server = self.answer() if pid is not None or unavailable else None
        return {
            "name": self.name,
            "running": pid is not None or server is not None,
            "server": server,
            "pid": pid,
            "unavailable": unavailable,
            "ports": ports,
            "urls": {
                what: f"{scheme}://{HOST}:{ports[what]}{path}"
                for what, (scheme, path) in SCHEMES.items()
                if what in ports
            },
            "users": dict(USERS),
            "tls": {
                "ca": str(certificates / "ca.pem"),
                "other_ca": str(certificates / "otherca.pem"),
                "client_cert": str(certificates / "client.pem"),
                "client_key": str(certificates / "client.key"),
                "server_name": "localhost",
            },
            "jms_responder": self.jms_responder(),
        }
