"""The chart of docs/performance.md and README.md, drawn from the page's own table.

Run ``python -m benchmarks.chart`` after a change here; ``make bench`` draws it by itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from typing import Final

from benchmarks.contenders import ROOT
from benchmarks.page import PAGE
from benchmarks.results import OURS

__all__ = ["PICTURE", "drawn", "rates"]

PICTURE: Final = ROOT / "docs" / "images" / "throughput.svg"
SECTION: Final = "### One connection: messages a second"
# Rows of that table, with what the chart calls them.
GROUPS: Final = {
    "receive and ack, client-individual": "Receive and acknowledge",
    "send, 256 receipts on their way": "Send, confirmed by receipts",
    "send": "Send without receipts",
}
# Columns, in the order of their bars.
LABELS: Final = {
    OURS: "trio-stomp",
    "stomp.py": "stomp.py",
    "stompest": "stompest",
    "stompman": "stompman",
    "stompit": "stompit (Node.js)",
}

_WIDTH, _LEFT, _RIGHT = 760, 170, 90
_TOP, _HEADING, _BAR, _GAP, _BETWEEN = 44, 26, 16, 5, 14
_OURS_COLOR, _OTHERS_COLOR, _TEXT_COLOR = "#1f6feb", "#9aa4b0", "#24292f"


def rates(page: str) -> Mapping[str, Mapping[str, float]]:
    """The rows of the page's table that the chart shows: messages a second by client.

    Raises:
        ValueError: The page does not have the table, or a row of it is missing.
    """
    section = page.partition(SECTION)[2].partition("\n### ")[0]
    head, _, *lines = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("|")
    ] or [[""], []]
    rows = {name: dict(zip(head[1:], cells, strict=True)) for name, *cells in lines}
    if missing := [name for name in GROUPS if name not in rows]:
        raise ValueError(f"{PAGE.name} has no {missing[0]!r} under {SECTION!r}")
    return {
        name: {
            client: float(rows[name][client].replace(",", ""))
            for client in LABELS
            if re.fullmatch(r"[0-9.,]+", rows[name].get(client, ""))
        }
        for name in GROUPS
    }


_TITLE: Final = "Messages per second on one connection to a simulated broker (more is better)"


def drawn(page: str) -> str:
    """The chart of a page, as an SVG that needs no style sheet and no script."""
    figures = rates(page)
    largest = max(rate for group in figures.values() for rate in group.values())
    scale = (_WIDTH - _LEFT - _RIGHT) / largest
    parts = [_text(16, 26, _TITLE, size=15, weight="bold")]
    y = _TOP
    for row, heading in GROUPS.items():
        y += _HEADING
        parts.append(_text(16, y - 9, heading, size=13, weight="bold"))
        for client, rate in figures[row].items():
            color = _OURS_COLOR if client == OURS else _OTHERS_COLOR
            parts.append(_text(_LEFT - 8, y + 12, LABELS[client], anchor="end"))
            parts.append(f'<rect x="{_LEFT}" y="{y}" width="{rate * scale:.0f}" height="{_BAR}" fill="{color}"/>')
            parts.append(_text(_LEFT + round(rate * scale) + 6, y + 12, f"{rate:,.0f}"))
            y += _BAR + _GAP
        y += _BETWEEN
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y}" width="{_WIDTH}" height="{y}" '
        f'font-family="system-ui, sans-serif" fill="{_TEXT_COLOR}" role="img" aria-label="{_described(figures)}">'
    )
    # Readable on dark pages too.
    background = f'<rect width="{_WIDTH}" height="{y}" rx="6" fill="#ffffff"/>'
    return "\n".join([opening, background, *parts, "</svg>\n"])


def _text(x: int, y: int, text: str, *, size: int = 12, anchor: str = "start", weight: str = "normal") -> str:
    place = f'x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}"'
    return f"<text {place}>{escape(text)}</text>"


def _described(figures: Mapping[str, Mapping[str, float]]) -> str:
    groups = (
        f"{heading}: " + ", ".join(f"{LABELS[client]} {rate:,.0f}" for client, rate in figures[row].items())
        for row, heading in GROUPS.items()
    )
    return escape("Messages per second. " + ". ".join(groups), quote=True)


if __name__ == "__main__":
    PICTURE.write_text(drawn(PAGE.read_text("utf-8")), encoding="utf-8")
