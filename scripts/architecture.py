"""Draw the packages and the imports between them into docs/architecture.md; needs the environment of `make test`.

    python scripts/architecture.py            write the table and docs/images/packages.svg
    python scripts/architecture.py --check    say by exit status whether both are up to date

A package is a folder of trio_stomp/, or a module beside the folders. A chain is the longest way along imports from one
module of a package to another; `__init__.py` does not count as a file or in a chain.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Final

import grimp

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGE: Final = "trio_stomp"
PAGE: Final = ROOT / "docs" / "architecture.md"
DRAWING: Final = ROOT / "docs" / "images" / "packages.svg"


@dataclass(slots=True)
class Package:
    """A folder of the package, or one of its lone modules.

    Attributes:
        name: Its name below the package.
        files: How many modules it has.
        lines: How many lines they have.
        chain: The modules of its longest import chain, from the top down.
        uses: The packages it imports.
    """

    name: str
    files: int = 0
    lines: int = 0
    chain: tuple[str, ...] = ()
    uses: set[str] = field(default_factory=set[str])


def measure() -> list[Package]:
    """The packages of the package, the lowest first."""
    # The package of this checkout, wherever another one is installed.
    sys.path.insert(0, str(ROOT))
    graph = grimp.build_graph(PACKAGE, cache_dir=None, exclude_type_checking_imports=True)
    packages: dict[str, Package] = {}
    uses: dict[str, set[str]] = {}
    for module in sorted(graph.modules - {PACKAGE}):
        name = module.split(".")[1]
        package = packages.setdefault(name, Package(name))
        path = ROOT / module.replace(".", "/")
        is_module = not path.is_dir()
        text = (path.with_suffix(".py") if is_module else path / "__init__.py").read_text(encoding="utf-8")
        imported = graph.find_modules_directly_imported_by(module) - {PACKAGE}
        package.lines += text.count("\n")
        package.files += is_module
        package.uses |= {each.split(".")[1] for each in imported} - {name}
        if is_module:
            uses[module] = {each for each in imported if each.startswith(f"{PACKAGE}.{name}.")}
    for package in packages.values():
        inside = {each for each in uses if each.split(".")[1] == package.name}
        package.chain = longest_chain({each: uses[each] & inside for each in inside})
    level = levels({package.name: package.uses for package in packages.values()})
    return sorted(packages.values(), key=lambda package: (level[package.name], package.name))


def longest_chain(uses: Mapping[str, set[str]]) -> tuple[str, ...]:
    """The longest way along arrows of a graph without circles."""
    known: dict[str, tuple[str, ...]] = {}

    def chain(name: str) -> tuple[str, ...]:
        if name not in known:
            below = [chain(each) for each in sorted(uses[name])]
            known[name] = (name.rpartition(".")[2], *max(below, key=len, default=()))
        return known[name]

    return max((chain(name) for name in sorted(uses)), key=len, default=())


def levels(uses: Mapping[str, set[str]]) -> dict[str, int]:
    """How high each package stands: one above the highest that it imports."""
    known: dict[str, int] = {}

    def level(name: str) -> int:
        if name not in known:
            known[name] = 1 + max((level(each) for each in uses[name]), default=-1)
        return known[name]

    for name in uses:
        level(name)
    return known


# --- the page -------------------------------------------------------------------------------------------------------


def about(lines: int) -> str:
    """A number of lines to two digits, so that the page does not change with each line of code."""
    return f"{float(f'{lines:.2g}'):,.0f}"


def table(packages: Iterable[Package]) -> str:
    """The packages as a table, the highest first."""
    listed = list(packages)[::-1]
    rows = ["| package | files | lines | longest chain | imports |", "|---|--:|--:|--:|---|"]
    rows += [
        f"| `{package.name}` | {package.files} | {about(package.lines)} | {len(package.chain)} | "
        f"{', '.join(f'`{each}`' for each in sorted(package.uses)) or 'nothing'} |"
        for package in listed
    ]
    files, lines = sum(package.files for package in listed), sum(package.lines for package in listed)
    rows.append(f"| all | {files} | {about(lines)} | | |")
    return "\n".join(rows)


def between(name: str, text: str, page: str) -> str:
    """The page with a text between its two marks of that name."""
    start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    return re.sub(re.escape(start) + ".*?" + re.escape(end), lambda _: f"{start}{text}\n{end}", page, flags=re.DOTALL)


# --- the drawing ----------------------------------------------------------------------------------------------------

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 190, 58, 26, 44, 20
_STYLE = """
  rect { fill: #eef3f9; stroke: #4a6d94; rx: 6 }
  path { fill: none; stroke: #7d8b99; stroke-width: 1.3; marker-end: url(#tip) }
  marker path { fill: #7d8b99; stroke: none }
  text { font: 12px sans-serif; fill: #33475b; text-anchor: middle }
  .name { font: bold 15px sans-serif; fill: #16324f }
  @media (prefers-color-scheme: dark) {
    rect { fill: #1f2d3d; stroke: #7fa3c7 } text { fill: #b9c7d5 } .name { fill: #e6eef6 }
  }
"""


def direct(packages: Iterable[Package]) -> set[tuple[str, str]]:
    """The imports that no longer way goes along: the others would only cross them."""
    uses = {package.name: package.uses for package in packages}

    def reach(name: str) -> set[str]:
        return uses[name] | {far for each in uses[name] for far in reach(each)}

    return {
        (name, each)
        for name, below in uses.items()
        for each in below
        if not any(each in reach(other) for other in below - {each})
    }


def drawing(measured: list[Package]) -> str:
    """The packages as an SVG, each above those it imports; helpers of one file, which any may import, are left out."""
    drawn = {each.name for each in measured if each.files > 1 or each.name == "errors"}
    packages = [dataclasses.replace(each, uses=each.uses & drawn) for each in measured if each.name in drawn]
    level = levels({package.name: package.uses for package in packages})
    height = max(level.values())
    rows = [[package for package in packages if level[package.name] == floor] for floor in range(height + 1)]
    widest = max(map(len, rows))
    total = 2 * _MARGIN + widest * _WIDTH + (widest - 1) * _GAP_X
    place: dict[str, tuple[float, float]] = {}
    for floor, row in enumerate(rows):
        width = len(row) * _WIDTH + (len(row) - 1) * _GAP_X
        for index, package in enumerate(row):
            left = (total - width) / 2 + index * (_WIDTH + _GAP_X)
            place[package.name] = (left, _MARGIN + (height - floor) * (_HEIGHT + _GAP_Y))
    tall = 2 * _MARGIN + (height + 1) * _HEIGHT + height * _GAP_Y
    tip = '<path d="M0 0L8 4L0 8z"/>'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total:g} {tall:g}" role="img">',
        "<title>The packages of trio_stomp, and which imports which</title>",
        f"<style>{_STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        + tip
        + "</marker></defs>",
    ]
    for above, below in sorted(direct(packages)):
        (ax, ay), (bx, by) = place[above], place[below]
        x1, y1, x2, y2 = ax + _WIDTH / 2, ay + _HEIGHT, bx + _WIDTH / 2, by
        # A long way bends around the packages between.
        bend = 0 if level[above] - level[below] == 1 else (_WIDTH + _GAP_X) * (0.7 if x1 >= total / 2 else -0.7)
        parts.append(
            f'<path d="M{x1:g} {y1:g}C{x1 + bend:g} {y1 + _GAP_Y:g} {x2 + bend:g} {y2 - _GAP_Y:g} {x2:g} {y2:g}"/>'
        )
    for package in packages:
        x, y = place[package.name]
        size = f"{about(package.lines)} lines"
        what = f"{package.files} files, {size}" if package.files > 1 else size
        parts += [
            f'<rect x="{x:g}" y="{y:g}" width="{_WIDTH}" height="{_HEIGHT}"/>',
            f'<text class="name" x="{x + _WIDTH / 2:g}" y="{y + 24:g}">{escape(package.name)}</text>',
            f'<text x="{x + _WIDTH / 2:g}" y="{y + 44:g}">{escape(what)}</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> int:
    """Run the command; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    packages = measure()
    old = PAGE.read_text(encoding="utf-8")
    page = between("packages", table(packages), old)
    svg = drawing(packages)
    if arguments.check:
        return int(page != old or not DRAWING.exists() or DRAWING.read_text(encoding="utf-8") != svg)
    PAGE.write_text(page, encoding="utf-8")
    DRAWING.parent.mkdir(exist_ok=True)
    DRAWING.write_text(svg, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
