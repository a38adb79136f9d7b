"""The tables, and their place in docs/performance.md."""

from __future__ import annotations

import os
import platform
import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.contenders import ROOT, Contender
from benchmarks.goals import GOALS
from benchmarks.results import OURS, PEERS, Results, Row

__all__ = ["BEGIN", "END", "PAGE", "inserted", "machine", "report"]

PAGE: Final = ROOT / "docs" / "performance.md"
BEGIN: Final = "<!-- begin: written by `make bench` -->"
END: Final = "<!-- end: written by `make bench` -->"
# Last, because it is for those who change the library.
GOALS_HEADING: Final = "### Goals for contributors"

_THREE_DIGITS: Final = 100
# Less than a hundredth is no difference.
_FASTER: Final = 1.01
# What is fast or slow; everything else is much or little.
_SPEEDS: Final = {"/s", "s", "ms", "µs"}


def machine() -> str:
    """The machine that was measured on: processor, cores and memory."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{_cpu()}, {os.cpu_count()} cores, {memory:.0f} GiB"


def _cpu() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    found = re.search(r"^model name\s*:\s*(.*)$", text, re.MULTILINE)
    return platform.machine() if found is None else found[1]


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= _THREE_DIGITS else f"{value:.3g}"


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = ["---", *["--:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rule, *lines))


def _goals(results: Results) -> str:
    lines: list[list[str]] = []
    for goal in GOALS:
        verdict = goal.verdict(results)
        if verdict is None:
            continue
        reached = "yes" if verdict.reached else "**not reached**"
        lines.append([goal.what, verdict.against, goal.text, _number(verdict.figure), reached])
    head = ["what", "compared with", "goal", "measured", "reached"]
    return _table(head, lines) if lines else ""


def _section(results: Results, section: str) -> str:
    rows = [row for row in results.values if row.section == section]
    names = list(dict.fromkeys(name for row in rows for name in results.values[row]))
    if len({row.unit for row in rows}) == 1:
        unit = "" if rows[0].unit in {"", "/s"} else f" [{rows[0].unit}]"
        lines = [[row.name, *(_number(results.median(row, name)) for name in names)] for row in rows]
        text = f"### {section}{unit}\n\n" + _table(["", *names], lines)
    else:
        lines = [[row.name, *(_with_unit(results, row, name) for name in names)] for row in rows]
        text = f"### {section}\n\n" + _table(["", *names], lines)
    return "\n\n".join([text, *_in_words(results, rows, names), *_spread(results, rows)])


def _spread(results: Results, rows: Sequence[Row]) -> list[str]:
    """Of how many rounds a table is, and how far they are apart."""
    spreads = [
        ((max(figures) - min(figures)) / 2 / abs(median), row.name, name)
        for row in rows
        for name, figures in results.values[row].items()
        if len(figures) > 1 and (median := statistics.median(figures))
    ]
    if not spreads:
        return ["Measured once."]
    rounds = max(len(figures) for row in rows for figures in results.values[row].values())
    middle = statistics.median(spread for spread, _, _ in spreads)
    most, row, name = max(spreads)
    return [f"Spread of {rounds} rounds: ±{middle:.0%} in the middle, at most ±{most:.0%} (*{row}*, {name})."]


def _in_words(results: Results, rows: Sequence[Row], names: Sequence[str]) -> list[str]:
    """What a table says of the others: where they are faster, and by how much."""
    peers = [name for name in names if name.partition(",")[0] in PEERS]
    if not peers:
        return []
    ahead = [line for row in rows if (line := _ahead(results, row, peers))]
    found = "; ".join(ahead) if ahead else "in no row of this table"
    are = "are faster" if {row.unit for row in rows} <= _SPEEDS else "do better"
    return [f"**Other clients {are} than trio_stomp** {found}."]


def _ahead(results: Results, row: Row, peers: Sequence[str]) -> str:
    faster = [(times, name) for name in peers if (times := _times(results, row, name) or 0) >= _FASTER]
    each = [
        f"{name} {times:.2f} times as fast" if row.unit in _SPEEDS else f"{name} {1 / times:.2f} times as much"
        for times, name in sorted(faster, reverse=True)
    ]
    return f"in *{row.name}*: {', '.join(each)}" if each else ""


def _as_shown(value: float | None) -> float:
    """A figure as the table has it, so that a reader who divides comes to the same."""
    return float(_number(value).replace(",", "") or 0)


def _times(results: Results, row: Row, name: str) -> float | None:
    """How many times as fast as trio_stomp another client is in a row."""
    ours, other = (_as_shown(results.median(row, each)) for each in (OURS, name))
    if not ours or not other:
        return None
    return other / ours if row.unit == "/s" else ours / other


def _with_unit(results: Results, row: Row, name: str) -> str:
    median = results.median(row, name)
    return "" if median is None else f"{_number(median)} {row.unit}"


def report(results: Results, contenders: Sequence[Contender], about: str) -> str:
    """The text between the markers: date and machine, a table for each group, and the goals."""
    versions = ", ".join(f"{each.name} {each.version}" for each in contenders)
    lines = [
        about,
        "",
        f"- Machine: {machine()}",
        f"- Software: CPython {platform.python_version()}, {platform.system()} {platform.release()}; {versions}",
        *(f"- Note: {note}" for note in results.notes),
        *(f"- Went wrong: {trouble}" for trouble in results.troubles),
    ]
    for section in results.sections():
        lines += ["", _section(results, section)]
    lines += ["", GOALS_HEADING, "", _goals(results)]
    return "\n".join(lines)


def inserted(page: str, text: str, *, begin: str = BEGIN, end: str = END) -> str:
    """A page with `text` between its markers.

    Raises:
        ValueError: The markers are not there.
    """
    before, begun, rest = page.partition(begin)
    _, ended, after = rest.partition(end)
    if not begun or not ended:
        raise ValueError(f"the page must have the lines {begin!r} and {end!r}, with the tables between them")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"
