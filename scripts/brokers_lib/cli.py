"""The command line: a verb, then the brokers it is for."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from brokers_lib.activemq import ActiveMQ
from brokers_lib.artemis import Artemis
from brokers_lib.broker import Broker
from brokers_lib.rabbitmq import RabbitMQ
from brokers_lib.rabbitmq4 import RabbitMQ4
from brokers_lib.settings import Settings, from_environment, make_state
from brokers_lib.spring import Spring

BROKERS: Final[tuple[type[Broker], ...]] = (RabbitMQ, RabbitMQ4, ActiveMQ, Artemis, Spring)
# What `status` says where a broker does not run: the number that init scripts use for it.
NOT_RUNNING: Final = 3

HELP: Final = """\
verbs:
  install   fetch the programs: apt for RabbitMQ, debootstrap for RabbitMQ 4, Maven Central for the others
  start     install where needed, start, and wait until STOMP is answered
  stop      shut down in order
  restart   stop, then start
  kill      end with SIGKILL, as a crash would
  status    tell whether they run; exit status 3 where one does not
  env       print ports, URLs, users and certificates as JSON
  log       print the ends of the logs
  wipe      stop, and delete data, configuration and logs
  ctl       pass the rest to rabbitmqctl (ctl rabbitmq ..., ctl rabbitmq4 ...) or artemis (ctl artemis ...)

brokers: rabbitmq, rabbitmq4, activemq, artemis, spring; all where none is named, except for those that cannot run
here: rabbitmq4 needs root on Debian. All listen on 127.0.0.1 alone.

environment:
  TRIO_STOMP_BROKERS_DIR             where everything is kept (.brokers in the project)
  TRIO_STOMP_{RABBITMQ,ACTIVEMQ,ARTEMIS,SPRING,RABBITMQ4}_PORT
                                     the first of the broker's ports (41613, 42613, 43613, 45613, 46613)
  TRIO_STOMP_JAVA                    the java to run, 17 or newer
  TRIO_STOMP_RABBITMQ_CONF           further lines for rabbitmq.conf, of both
  TRIO_STOMP_RABBITMQ_ADVANCED_CONF  an Erlang term for advanced.config, of both
  TRIO_STOMP_RABBITMQ4_SUITE         the suite of Debian that rabbitmq4 is taken from (sid)
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/brokers",
        description="Private brokers for the interop tests.",
        epilog=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("verb", choices=[*ACTIONS, "status", "env", "log"], metavar="VERB")
    parser.add_argument(
        "brokers", nargs="*", metavar="BROKER", help="rabbitmq, rabbitmq4, activemq, artemis, spring; default: all"
    )
    return parser


def _chosen(names: Sequence[str], settings: Settings) -> list[Broker]:
    known = {kind.name: kind for kind in BROKERS}
    if strange := [name for name in names if name not in known]:
        raise SystemExit(f"brokers: no broker is called {strange[0]!r}; there are {', '.join(known)}")
    return [kind(settings) for name, kind in known.items() if not names or name in names]


ACTIONS: Final[Mapping[str, Callable[[Broker], str]]] = {
    "install": Broker.install_alone,
    "start": Broker.start,
    "stop": Broker.stop,
    "restart": Broker.restart,
    "kill": Broker.kill,
    "wipe": Broker.wipe,
}


def _act_on_all(verb: str, brokers: Sequence[Broker]) -> int:
    """Deal with the brokers side by side; one that fails does not keep the others from starting."""
    failed: list[Broker] = []
    if verb in {"install", "start", "restart"}:
        for broker in brokers:  # in turn: apt and Maven each want to be alone
            try:
                broker.install_alone()
            except SystemExit as problem:
                print(problem, file=sys.stderr, flush=True)
                failed.append(broker)
    with ThreadPoolExecutor(max_workers=len(BROKERS)) as pool:
        jobs = {broker: pool.submit(ACTIONS[verb], broker) for broker in brokers if broker not in failed}
        for broker, done in jobs.items():
            try:
                print(done.result(), flush=True)
            except SystemExit as problem:
                print(problem, file=sys.stderr, flush=True)
                failed.append(broker)
    return 1 if failed else 0


def _possible(brokers: Sequence[Broker]) -> list[Broker]:
    """Skip brokers that cannot run here, with a message. Only if the user has named none."""
    possible: list[Broker] = []
    for broker in brokers:
        if reason := broker.unavailable():
            print(f"{reason}\n{broker.name}: left out", file=sys.stderr)
        else:
            possible.append(broker)
    return possible


def _status(brokers: Sequence[Broker]) -> int:
    told = [broker.status() for broker in brokers]
    print("\n".join(line for _, line in told))
    return 0 if all(running for running, _ in told) else NOT_RUNNING


def main(arguments: Sequence[str]) -> int:
    """Do what the command line asks.

    Args:
        arguments: The command line without the program's name.

    Returns:
        The exit status: 0, 3 where `status` found a broker that does not run, else 1 or 2.
    """
    settings = from_environment(os.environ)
    if arguments and arguments[0] == "ctl":
        name, rest = (arguments[1], list(arguments[2:])) if len(arguments) > 1 else ("rabbitmq", [])
        if name not in {kind.name for kind in BROKERS}:
            name, rest = "rabbitmq", list(arguments[1:])
        return _chosen([name], settings)[0].control(rest)
    parsed = _parser().parse_args(arguments)
    verb, brokers = str(parsed.verb), _chosen([str(name) for name in parsed.brokers], settings)
    match verb:
        case "status":
            return _status(brokers)
        case "env":
            print(json.dumps({broker.name: broker.env() for broker in brokers}, indent=2))
            return 0
        case "log":
            print("\n".join(broker.log() for broker in brokers))
            return 0
        case _:
            make_state(settings.state)
            return _act_on_all(verb, brokers if parsed.brokers else _possible(brokers))
