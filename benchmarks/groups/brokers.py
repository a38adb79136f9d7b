"""The traffic of `traffic.py` against real brokers, those that ``scripts/brokers start`` has started."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypedDict

from benchmarks.bench import Bench
from benchmarks.contenders import ROOT, Contender, ContenderFailed, own
from benchmarks.groups.traffic import RATES
from benchmarks.order import Order
from benchmarks.results import OURS, RAW, Row

__all__ = [
    "BROKER_RATES",
    "PROCESSOR",
    "SECURE",
    "SECURE_PROCESSOR",
    "SECURE_RATES",
    "TITLES",
    "Target",
    "broker_pid",
    "measure",
    "measure_secure",
    "not_running",
    "running_brokers",
]

TITLES: Final = {"rabbitmq": "RabbitMQ", "activemq": "ActiveMQ Classic", "artemis": "ActiveMQ Artemis"}
BROKER_RATES: Final = {
    (broker, scenario): Row(f"{title}: messages a second", row.name)
    for broker, title in TITLES.items()
    for scenario, row in RATES.items()
}
# What the client itself costs, where the broker is the limit of the rate.
PROCESSOR: Final = {
    (broker, scenario): Row(f"{title}: processor time of the client for a message", row.name, "µs")
    for broker, title in TITLES.items()
    for scenario, row in RATES.items()
}
_MICRO: Final = 1e6

_MESSAGES: Final = 10_000
_MESSAGES_QUICK: Final = 500
# Some stay behind, because a broker may keep one back for a consumer that has just gone.
_RECEIVED_PART: Final = 0.9
# Longer than any of them takes for that many messages.
_PATIENCE: Final = 10.0
# ActiveMQ takes long for tens of thousands of messages that it has stored.
_EMPTYING: Final = 60.0
_SENDING: Final = ("send", "receipts", "publisher")
# Two rounds of all scenarios, clients and brokers take a third of the time that the whole run may take. Two commits, or
# a client or two that were asked for, take as many rounds as elsewhere.
_ROUNDS: Final = 2
_FEW: Final = 2


# What users of TLS pay, on the broker that puts each message into a record of its own.
SECURE: Final = {"stomps": "RabbitMQ over TLS", "wss": "RabbitMQ over WebSocket and TLS"}
SECURE_RATES: Final = {
    (scheme, scenario): Row(f"{title}: messages a second", row.name)
    for scheme, title in SECURE.items()
    for scenario, row in RATES.items()
}
SECURE_PROCESSOR: Final = {
    (scheme, scenario): Row(f"{title}: processor time of the client for a message", row.name, "µs")
    for scheme, title in SECURE.items()
    for scenario, row in RATES.items()
}
_LISTENERS: Final = {"stomps": "stomp+ssl", "wss": "wss"}
# Those that can be told of a certificate; and the one beside ours that speaks WebSocket.
_SECURE_PEERS: Final = {"stomps": ("stomp.py", "stompest", "stompman"), "wss": ("stomp.py",)}


class _Described(TypedDict):
    """What ``scripts/brokers env`` prints of one broker, as far as it is read here."""

    name: str
    running: bool
    pid: int | None
    ports: dict[str, int]
    tls: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Where clients connect to, and how; see `Order`."""

    port: int
    host: str = "127.0.0.1"
    scheme: str = "stomp"
    ca_file: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """One broker, the queue of this measurement on it, and the rows for what is measured.

    Attributes:
        bench: The run.
        broker: The broker.
        port: Its plain port.
        rates: The rows for rates, by scenario.
        processor: Those for processor time.
        listener: Where the clients that are measured connect to; None: to the plain port, as the bare loop does.
    """

    bench: Bench
    broker: str
    port: int
    rates: Mapping[str, Row] = field(default_factory=dict[str, Row])
    processor: Mapping[str, Row] = field(default_factory=dict[str, Row])
    listener: Listener | None = None

    def order(self, scenario: str, limit: int = 0, *, of_client: bool = False) -> Order:
        """An order on that queue, for a client that is measured or for the bare loop."""
        to = self.listener if of_client and self.listener is not None else Listener(port=self.port)
        return replace(
            self.bench.order(scenario, "/queue/benchmark.trio-stomp"),
            host=to.host,
            port=to.port,
            scheme=to.scheme,
            ca_file=to.ca_file,
            limit=limit,
            # What was sent before has to be taken off again, and what is received is counted from the first on.
            warm_up=0.0 if limit else self.bench.warm_up,
            seconds=_PATIENCE if limit else self.bench.seconds,
            patience=_PATIENCE,
        )

    def fill(self, messages: int) -> None:
        """Put so many messages into the queue."""
        own(RAW, "raw").run(self.order("fill", messages))

    def empty(self, messages: int = 0) -> None:
        """Take so many messages out of the queue, or all that there are."""
        own(RAW, "raw").run(replace(self.order("drain", messages), patience=_EMPTYING))

    def tidy(self) -> None:
        """Empty the queue; a failure is noted, and the run goes on."""
        try:
            self.empty()
        except ContenderFailed as failure:
            self.bench.trouble(f"{self.broker}: {failure}")


def _described() -> dict[str, _Described]:
    printed = subprocess.run([ROOT / "scripts" / "brokers", "env"], check=True, capture_output=True, text=True).stdout
    described: dict[str, _Described] = json.loads(printed)
    return described


def not_running() -> list[str]:
    """The brokers that have tables, and do not run."""
    described = _described()
    return [name for name in TITLES if not described[name]["running"]]


def running_brokers(bench: Bench) -> dict[str, int]:
    """The STOMP ports of the brokers that run, and a note if there is none."""
    # Spring's simple broker has a WebSocket only, which few of the contenders speak.
    found = {name: each["ports"]["stomp"] for name, each in _described().items() if each["running"] and name in TITLES}
    if not found:
        bench.note("no real broker was running; start them with scripts/brokers start")
    return found


def broker_pid(broker: str) -> int:
    """The process of a broker; 0 where it does not run."""
    return _described()[broker]["pid"] or 0


def measure(bench: Bench) -> None:
    """Every contender but the bare loop, and ours but once, against every broker that runs."""
    clients = [each for each in bench.contenders if each.name != RAW]
    rounds = bench.rounds if len(clients) <= _FEW else _ROUNDS
    for broker, port in running_brokers(bench).items():
        rates = {scenario: BROKER_RATES[broker, scenario] for scenario in RATES}
        processor = {scenario: PROCESSOR[broker, scenario] for scenario in RATES}
        _measure(Target(bench, broker, port, rates, processor), clients, rounds)


def measure_secure(bench: Bench) -> None:
    """The same over TLS, and over WebSocket and TLS, for those that can."""
    running_brokers(bench)
    broker = _described()["rabbitmq"]
    if not broker["running"]:
        return
    for scheme in SECURE:
        clients = [each for each in bench.contenders if each.name in (OURS, *_SECURE_PEERS[scheme])]
        target = Target(
            bench,
            broker["name"],
            broker["ports"]["stomp"],
            {scenario: SECURE_RATES[scheme, scenario] for scenario in RATES},
            {scenario: SECURE_PROCESSOR[scheme, scenario] for scenario in RATES},
            Listener(
                port=broker["ports"][_LISTENERS[scheme]],
                host=broker["tls"]["server_name"],
                scheme=scheme,
                ca_file=broker["tls"]["ca"],
            ),
        )
        _measure(target, clients, bench.rounds if len(clients) <= _FEW else _ROUNDS)


def _measure(target: Target, clients: Sequence[Contender], rounds: int) -> None:
    for scenario in RATES:
        for contender in target.bench.turns(clients, most=rounds):
            _one(target, scenario, contender)
        target.tidy()


def _one(target: Target, scenario: str, contender: Contender) -> None:
    bench = target.bench
    row = target.rates[scenario]
    sends = scenario in _SENDING
    # Unconfirmed messages are counted by the broker's answer to one more: what lies in buffers is not sent.
    limit = 0 if sends and scenario != "send" else _MESSAGES_QUICK if bench.quick else _MESSAGES
    try:
        if sends:
            result = bench.rate(row, contender, target.order(scenario, limit, of_client=True))
        else:
            target.fill(limit)
            order = target.order(scenario, int(limit * _RECEIVED_PART), of_client=True)
            result = bench.rate(row, contender, order)
        # An older commit does not say it.
        if result is not None and "processor" in result:
            bench.results.add(target.processor[scenario], contender.name, result["processor"] * _MICRO)
        if result is not None and sends:
            target.empty(int(result["total"]) + (limit > 0))
    except ContenderFailed as failure:
        bench.trouble(f"{target.broker}: {failure}")
