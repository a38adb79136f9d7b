"""The chart of the manual's page on testing: the memory of a broker over time, a line for each flood."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from html import escape

__all__ = ["drawn"]

Samples = Sequence[tuple[float, int]]

_MIB = 1 << 20
_MOST_MIB, _STEP_MIB = 1024, 256
# Units of the SVG: the place of the plot, and the lines of text beside it.
_WIDTH, _HEIGHT = 860, 480
_LEFT, _TOP, _RIGHT, _BOTTOM = 64, 48, 540, 436
_LABELS, _LINE = _RIGHT + 28, 20
_POINTS = 60
# Each color twice: the second time with dashes.
_COLORS = ("#1f6feb", "#d1242f", "#1a7f37", "#9a6700", "#8250df", "#bf3989", "#0a7c86", "#57606a")
_TEXT_COLOR, _GRID_COLOR = "#24292f", "#d0d7de"


def drawn(floods: Mapping[str, Samples]) -> str:
    """The chart, as an SVG that needs no style sheet and no script.

    Args:
        floods: Seconds and bytes of memory, by what the clients send.
    """
    end = max(seconds for samples in floods.values() for seconds, _ in samples)
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" font-family="system-ui, sans-serif" fill="{_TEXT_COLOR}" role="img" '
        f'aria-label="{_described(floods)}">'
    )
    parts = [
        opening,
        # Readable on dark pages too.
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" rx="6" fill="#ffffff"/>',
        _text(16, 26, "Memory of the broker under floods, in MiB: each stays below 1 GiB", size=15, weight="bold"),
        *_grid(end),
    ]
    styles = itertools.product(("", ' stroke-dasharray="5 3"'), (f'stroke="{color}"' for color in _COLORS))
    lines = {name: _points(samples, end) for name, samples in floods.items()}
    heights = _label_heights({name: points[-1][1] for name, points in lines.items()})
    for (name, points), (dashes, color) in zip(lines.items(), itertools.cycle(styles), strict=False):
        (x, y), label = points[-1], heights[name]
        path = " ".join(f"{x},{y}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" {color} stroke-width="2"{dashes}/>')
        leader = f"{x},{y} {_LABELS - 14},{label} {_LABELS - 4},{label}"
        parts.append(f'<polyline points="{leader}" fill="none" {color}{dashes}/>')
        parts.append(_text(_LABELS, label + 4, name))
    return "\n".join([*parts, "</svg>\n"])


def _grid(end: float) -> list[str]:
    steps = {mib: _y(mib * _MIB) for mib in range(0, _MOST_MIB + 1, _STEP_MIB)}
    return [
        *(f'<path d="M{_LEFT} {y} H{_RIGHT}" stroke="{_GRID_COLOR}"/>' for y in steps.values()),
        *(_text(_LEFT - 8, y + 4, str(mib), anchor="end") for mib, y in steps.items()),
        *(_text(_x(at, end), _BOTTOM + 20, f"{at} s", anchor="middle") for at in range(0, int(end) + 1, 5)),
    ]


def _x(seconds: float, end: float) -> int:
    return round(_LEFT + (_RIGHT - _LEFT) * seconds / end)


def _y(memory: int) -> int:
    return round(_BOTTOM - (_BOTTOM - _TOP) * memory / (_MOST_MIB * _MIB))


def _points(samples: Samples, end: float) -> list[tuple[int, int]]:
    """The most that was held in each part of the time."""
    most: dict[int, int] = {}
    for seconds, memory in samples:
        part = min(_POINTS - 1, int(seconds / end * _POINTS))
        most[part] = max(most.get(part, 0), memory)
    return [(_x((part + 0.5) / _POINTS * end, end), _y(memory)) for part, memory in most.items()]


def _label_heights(ends: Mapping[str, int]) -> dict[str, int]:
    """Where the labels go: as near to the ends of their lines as they can without touching."""
    heights: dict[str, int] = {}
    lowest = _BOTTOM + _LINE
    for name, y in sorted(ends.items(), key=lambda each: -each[1]):
        lowest = heights[name] = min(y, lowest - _LINE)
    return heights


def _text(x: int, y: int, text: str, *, size: int = 12, anchor: str = "start", weight: str = "normal") -> str:
    place = f'x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}"'
    return f"<text {place}>{escape(text)}</text>"


def _described(floods: Mapping[str, Samples]) -> str:
    most = (f"{name} {max(memory for _, memory in samples) // _MIB} MiB" for name, samples in floods.items() if samples)
    return escape("Most memory that the broker took: " + ", ".join(most), quote=True)
