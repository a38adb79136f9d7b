"""The command: small changes to the source, one at a time, and the tests run against each.

    scripts/mutants                                   a sample of 200 mutants of all packages
    scripts/mutants --seed 7 --count 50               another sample, a smaller one
    scripts/mutants --modules cli spark               of some packages, with their own tests
    scripts/mutants --modules receipts session/session.py
    scripts/mutants --list                            only say how many mutants there are

The tests are run once, to record which run which lines. A mutant in a function meets the tests that run its line; one
that runs at import (a constant, a default, an attribute of a class) meets all tests of its package, the likeliest
first. The recording takes several minutes and is kept until the source or a test changes. Tests that need Java are left
out.

A mutant that no test notices has survived: either a test is missing, or the change makes no difference. The second
kind goes into `scripts/mutants_lib/equivalent.toml` with the reason. Exits with 1 when fewer than the goal are killed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from mutants_lib.sample import Candidate, candidates, choose, modules_named
from mutants_lib.trial import Tree, Verdict, record, suites_of

__all__ = ["main"]

ROOT: Final = Path(__file__).resolve().parents[2]


def _arguments(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "scripts/mutants", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1, help="which sample (default 1)")
    parser.add_argument("--count", type=int, default=200, help="how many mutants (default 200)")
    parser.add_argument("--minutes", type=float, default=15, help="try no further ones after this (default 15)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at a time (default: cores)")
    parser.add_argument("--goal", type=float, default=97, help="percent that have to be killed (default 97)")
    parser.add_argument("--modules", nargs="*", default=[], help="folders or modules (default: all)")
    parser.add_argument(
        "--tests", nargs="*", default=[], help="folders or files with tests (default: those of the package)"
    )
    parser.add_argument("--list", action="store_true", help="only count the mutants of each module")
    return parser.parse_args(given)


def main(given: Sequence[str], root: Path = ROOT) -> int:
    """Run the command over the project in a folder; returns its exit status."""
    arguments = _arguments(given)
    began = time.monotonic()
    try:
        modules = modules_named(root, arguments.modules)
        every = candidates(root, modules)
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if arguments.list:
        for module, count in Counter(each.module for each in every).items():
            print(f"{count:6} {module}")
        print(f"{len(every):6} in all")
        return 0
    chosen = choose(root, every, arguments.count, arguments.seed)
    print(f"{len(chosen)} of {len(every)} mutants of {len(modules)} modules, seed {arguments.seed}", flush=True)
    try:
        verdicts = _try_all(root, chosen, arguments, deadline=began + 60 * arguments.minutes)
    except RuntimeError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    finally:
        for tree in _folder(root).glob("tree-*"):
            shutil.rmtree(tree, ignore_errors=True)
    return _report(verdicts, len(chosen), arguments.goal, time.monotonic() - began)


def _folder(root: Path) -> Path:
    """Where copies of the project go, and what was recorded of it."""
    return root / "build" / "mutants"


def _try_all(
    root: Path, chosen: Sequence[Candidate], arguments: argparse.Namespace, deadline: float
) -> list[tuple[Candidate, Verdict]]:
    trees: SimpleQueue[Tree] = SimpleQueue()
    folder = _folder(root)
    first = Tree(root, folder / "tree-0")
    chosen_tests = {test: None for each in chosen for test in arguments.tests or suites_of(each.module)}
    coverage = record(first, folder, [test for test in chosen_tests if (root / test).exists()], arguments.jobs)
    print(f"{len(coverage.tests)} tests run them", flush=True)
    trees.put(first)
    for number in range(1, arguments.jobs):
        # The project may have been edited meanwhile.
        trees.put(Tree(first.folder, folder / f"tree-{number}"))
    verdicts: list[tuple[Candidate, Verdict]] = []

    def attempt(candidate: Candidate) -> None:
        if time.monotonic() > deadline:
            return
        tree = trees.get()
        try:
            verdict = tree.try_out(candidate, coverage, arguments.tests or suites_of(candidate.module))
        finally:
            trees.put(tree)
        verdicts.append((candidate, verdict))
        if verdict in {Verdict.SURVIVED, Verdict.NOT_RUN}:
            print(f"{verdict.value}: {candidate}", flush=True)
        elif len(verdicts) % 25 == 0:
            print(f"... {len(verdicts)} tried", flush=True)

    with ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(attempt, chosen))
    return verdicts


def _report(verdicts: Sequence[tuple[Candidate, Verdict]], wanted: int, goal: float, seconds: float) -> int:
    counts = Counter(verdict for _, verdict in verdicts)
    alive = [candidate for candidate, verdict in verdicts if verdict in {Verdict.SURVIVED, Verdict.NOT_RUN}]
    if len(verdicts) < wanted:
        print(f"\nout of time: {wanted - len(verdicts)} were not tried")
    if not verdicts:
        return 2
    score = 100 * (len(verdicts) - len(alive)) / len(verdicts)
    said = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict])
    print(f"\n{score:.1f} % of {len(verdicts)} mutants killed in {seconds:.0f} s: {said} (goal {goal:g} %)")
    # Killed, unless the machine was too busy: then a smaller --jobs tells.
    late = [candidate for candidate, verdict in verdicts if verdict is Verdict.TIMED_OUT]
    for title, found in (("timed out", late), ("survivors", alive)):
        if found:
            print(f"\n{title}:")
        for candidate in sorted(found, key=lambda each: (each.module, each.mutant)):
            print(candidate)
    return int(score < goal)
