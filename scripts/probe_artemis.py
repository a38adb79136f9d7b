#!/usr/bin/env python3
"""Check, statement by statement, what the documentation says of ActiveMQ Artemis against the running broker.

    scripts/brokers start artemis
    scripts/probe_artemis.py [--only PATTERN] [--quiet]

It prints a line for each statement: `agrees` or `DIFFERS`, where, what was expected and what was seen. It uses nothing
but raw sockets, so that no error of a client library can hide. It takes about two minutes, most of them idle: some
brokers wait that long before they drop a silent client. `--broker activemq` checks in the same way what is said of
ActiveMQ Classic.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from brokers_lib.probe import activemq, artemis  # noqa: E402 - the path had to be set first
from brokers_lib.probe.statements import Target, run  # noqa: E402 - the path had to be set first


def target(broker: str) -> tuple[Target, str]:
    """Ask `scripts/brokers` where the broker is, and what it calls itself."""
    command = [str(HERE / "brokers"), "env", broker]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    told = json.loads(done.stdout)[broker]
    if not told["server"]:
        raise SystemExit(f"probe: {broker} does not answer; start it with `scripts/brokers start {broker}`")
    return Target(host=told["host"], ports=told["ports"], ca=Path(told["tls"]["ca"])), str(told["server"])


def main(arguments: Sequence[str]) -> int:
    """Run the checks. Returns 0 where every statement held, 1 where one did not."""
    parser = argparse.ArgumentParser(description="Check what is said of a broker against the broker.")
    parser.add_argument("--broker", choices=("artemis", "activemq"), default="artemis")
    parser.add_argument("--only", default="", metavar="PATTERN", help="a regular expression for the statements wanted")
    parser.add_argument("--quiet", action="store_true", help="print only what differs, and the count")
    parsed = parser.parse_args(arguments)
    where, server = target(parsed.broker)
    print(f"probing {server} at {where.host}:{where.ports['stomp']}", flush=True)
    statements = artemis.STATEMENTS if parsed.broker == "artemis" else activemq.STATEMENTS
    agreed = differed = 0
    for verdict in run(statements, where, parsed.only):
        agreed, differed = agreed + verdict.seen.agrees, differed + (not verdict.seen.agrees)
        if not (parsed.quiet and verdict.seen.agrees):
            print(verdict, flush=True)
    print(f"{agreed} agree, {differed} differ")
    return 1 if differed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
