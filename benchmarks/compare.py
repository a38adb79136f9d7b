"""``--compare COMMIT``: this checkout next to an older commit of itself, in one interleaved run."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.contenders import ROOT, Contender, own
from benchmarks.results import OURS, Results

__all__ = ["comparison", "earlier"]

_COMMAND: Final = (sys.executable, "-P", "-m", "benchmarks.contestants.ours")
# Seven characters of a commit's hash, as git itself shows them.
_SHORT: Final = 7


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


@contextmanager
def earlier(commit: str) -> Generator[Contender]:
    """Check a commit out beside this one for the length of a block, and let it take part with its own benchmark code.

    Its own code, because names may have changed since. A commit from before an option of `Order` takes part in the rows
    that leave the option out.

    Raises:
        ValueError: git doesn't know the commit.
    """
    try:
        found = _git("rev-parse", "--verify", "--end-of-options", f"{commit}^{{commit}}")
    except subprocess.CalledProcessError as error:
        raise ValueError(f"git does not know the commit {commit!r}: {error.stderr.strip()}") from None
    with tempfile.TemporaryDirectory(prefix="trio-stomp-compare-") as folder:
        place = Path(folder) / found[:_SHORT]
        _git("worktree", "add", "--quiet", "--detach", str(place), found)
        try:
            yield Contender(f"commit {found[:_SHORT]}", own(OURS, "ours").version, _COMMAND, package=place)
        finally:
            _git("worktree", "remove", "--force", str(place))


def comparison(results: Results, older: str) -> str:
    """A table of every row that both have: medians, and the speed of now over then, round by round."""
    head = ["", older, "now", "now / then", "lowest", "highest"]
    lines = ["| " + " | ".join(head) + " |", "|---" + "|--:" * (len(head) - 1) + "|"]
    for row in results.values:
        then, now = results.figures(row, older), results.figures(row, OURS)
        if not then or not now:
            continue
        faster = [b / a if row.unit == "/s" else a / b for a, b in zip(then, now, strict=False)]
        shown = [statistics.median(then), statistics.median(now)]
        ratios = [statistics.median(faster), min(faster), max(faster)]
        cells = [f"{row.section}: {row.name}", *(f"{each:,.0f}" for each in shown), *(f"{each:.2f}" for each in ratios)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
