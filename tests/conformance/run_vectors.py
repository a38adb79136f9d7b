"""Run vector files: ``python -m tests.conformance.run_vectors FILE...``.

A line for each failure, then how the ambiguous and the lenient ones fared, which the last line counts too:
``N passed, M failed``. The exit code is 1 where anything failed.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.other_checks import check
from tests.conformance.vectors import Vector, read_vectors

__all__ = ["main"]


def _problems(vector: Vector) -> list[str]:
    try:
        return check(vector)
    except Exception as error:  # noqa: BLE001  # whatever a vector makes the library raise is that vector's failure
        return [f"raised {type(error).__name__}: {error}"]


def main(arguments: Sequence[str]) -> int:
    """Run the files, print the report, return the exit code."""
    if not arguments:
        print("usage: python -m tests.conformance.run_vectors FILE...", file=sys.stderr)
        return 2
    counts: Counter[tuple[str, bool]] = Counter()
    for argument in arguments:
        for vector in read_vectors(Path(argument)):
            problems = _problems(vector)
            groups = ["all", *(["ambiguous"] if vector.ambiguous else []), *(["lenient"] if vector.lenient else [])]
            counts.update((group, not problems) for group in groups)
            for problem in problems:
                print(f"FAILED {vector.id} {vector.title}: {problem}")
    for group in ("ambiguous", "lenient"):
        print(f"{group}: {counts[group, True]} passed, {counts[group, False]} failed")
    print(f"{counts['all', True]} passed, {counts['all', False]} failed")
    return 1 if counts["all", False] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
