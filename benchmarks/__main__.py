"""The command line: ``make bench``, or ``python -m benchmarks`` in an environment that has the peers."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final

from benchmarks.bench import Bench, Peer
from benchmarks.chart import PICTURE, SECTION, drawn
from benchmarks.compare import comparison, earlier
from benchmarks.contenders import ROOT, Contender, ContenderFailed, contenders, own
from benchmarks.groups import brokers, codec, growth, scale, spark, traffic, waiting
from benchmarks.page import PAGE, inserted, report
from benchmarks.results import OURS

__all__ = ["PARTS", "main"]

# What `--only` names, in the order in which it is run.
PARTS: Final[dict[str, Callable[[Bench], None]]] = {
    "codec": codec.measure,
    **{scenario: partial(traffic.measure_rate, scenario=scenario) for scenario in traffic.RATES},
    "latency": traffic.measure_latency,
    "blocking": traffic.measure_synchronous,
    "asyncio": traffic.measure_asyncio,
    "brokers": brokers.measure,
    "tls": brokers.measure_secure,
    "connections": scale.measure_connections,
    "subscriptions": scale.measure_subscriptions,
    "memory": scale.measure_memory,
    "start": waiting.measure_start,
    "parting": waiting.measure_parting,
    "flooded": waiting.measure_flooded,
    "held": waiting.measure_held,
    "growth": growth.measure,
    "spark": spark.measure,
    "spark-brokers": spark.measure_on_brokers,
}

# On a machine that is busy with something else, a run takes longer, and its figures are worth less.
_PATIENCE: Final = 18 * 60.0
# What a machine does by itself; above it, ratios still hold, rates do not.
_QUIET: Final = 0.7
# What `--compare` runs if `--only` names nothing else: where the client alone is the limit.
_COMPARED: Final = ("codec", *traffic.RATES, "latency")
_RESULTS: Final = ROOT / "build" / "benchmarks.json"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--only", default="", help=f"parts, with commas; default: {','.join(PARTS)}")
    parser.add_argument(
        "--rounds", type=int, default=3, help="how often each measurement is made; default: %(default)s"
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="how long one is; default: %(default)s")
    parser.add_argument("--contenders", default="", help="only these, with commas, such as trio_stomp,stomp.py")
    parser.add_argument("--quick", action="store_true", help="one short round: does everything work?")
    parser.add_argument(
        "--compare", metavar="COMMIT", default="", help="time this checkout against an older commit, and leave the page"
    )
    parser.add_argument(
        "--no-page", action="store_true", help=f"leave {PAGE.relative_to(ROOT)} as it is, as --only does"
    )
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run what the command line asks for; returns 0 where nothing failed."""
    parser = _parser()
    given = parser.parse_args(arguments)
    wanted = str(given.only).split(",") if given.only else list(_COMPARED if given.compare else PARTS)
    if strange := [name for name in wanted if name not in PARTS]:
        parser.error(f"there is no part {strange[0]!r}; there are {', '.join(PARTS)}")
    if given.compare:
        try:
            with earlier(str(given.compare)) as older:
                bench = _measured(given, wanted, [own(OURS, "ours"), older])
        except ValueError as error:
            parser.error(str(error))
        print(comparison(bench.results, older.name))
        return 1 if bench.results.troubles else 0
    whole = not (given.only or given.contenders or given.quick or given.no_page)
    if whole and (missing := brokers.not_running()):
        parser.error(
            f"{PAGE.relative_to(ROOT)} has tables of brokers that do not run: {', '.join(missing)}. Start them with "
            f"`scripts/brokers start {' '.join(missing)}`, or leave the page as it is with --no-page"
        )
    taking_part, missing = contenders()
    if given.contenders:
        chosen = str(given.contenders).split(",")
        taking_part = [each for each in taking_part if each.name in chosen]
    elif missing:
        print(f"not installed, so left out: {', '.join(missing)}", file=sys.stderr)
    begun = time.monotonic()
    bench = _measured(given, wanted, taking_part)
    minutes = (time.monotonic() - begun) / 60
    options = " ".join(arguments)
    command = f'make bench ARGS="{options}"' if options else "make bench"
    when = datetime.now(UTC).date().isoformat()
    length = f"medians of at most {bench.rounds} rounds of {bench.seconds:g} s each, in {minutes:.0f} minutes"
    text = report(bench.results, taking_part, f"`{command}`, {when}: {length}.")
    print(text)
    bench.results.save(_RESULTS)
    if whole:
        page = inserted(PAGE.read_text("utf-8"), text)
        PAGE.write_text(page, encoding="utf-8")
        if SECTION in page:
            PICTURE.write_text(drawn(page), encoding="utf-8")
    return 1 if bench.results.troubles else 0


def _measured(given: argparse.Namespace, wanted: Sequence[str], taking_part: Sequence[Contender]) -> Bench:
    quick: bool = given.quick
    busy = os.getloadavg()[0]
    with Peer() as peer:
        bench = Bench(
            contenders=taking_part,
            peer=peer,
            rounds=1 if quick else int(given.rounds),
            seconds=0.05 if quick else float(given.seconds),
            warm_up=0.05 if quick else 0.3,
            deadline=time.monotonic() + _PATIENCE,
            quick=quick,
        )
        for name in wanted:
            print(f"{name}:", file=sys.stderr, flush=True)
            try:
                PARTS[name](bench)
            except ContenderFailed as failure:
                # The other parts took half an hour.
                bench.trouble(f"{name}: {failure}")
    if busy > _QUIET:
        bench.note(f"the machine was busy with something else: its load was {busy:.1f} before the run")
    return bench


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
