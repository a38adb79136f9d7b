"""Sphinx directives that draw states from the library's own tables of transitions.

For the protocol, ``session-states-table`` lists every legal step, and ``session-states-diagram`` draws the states and
what leads from one to the next. For the client, ``lifecycle-table`` and ``lifecycle-diagram`` do the same. Pictures are
SVGs, generated at each build: a picture that is drawn by hand is out of date after the next change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from trio_stomp.protocol import TRANSITIONS, Role, State
from trio_stomp.session.state import SESSION_STEPS, SessionState
from trio_stomp.session.state import Step as LifecycleStep

Step = tuple[State, State]

# Units of the SVG; one line of text is a little more than 15 of them high.
_WIDTH, _BOX_WIDTH, _BOX_HEIGHT, _ROW, _LINE = 720, 150, 34, 120, 16
_LEFT = 170
# Arrows past other states run down the left margin: the first the outermost, so that none crosses another.
_OUTERMOST, _LANE = 150, 30
_LABEL_COLUMNS = 42
_STYLE = 'style="max-width:45rem;width:100%" font-size="12" fill="currentColor"'
_TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
    'orient="auto-start-reverse"><path d="M0 0 L8 4 L0 8 z"/></marker></defs>'
)


def commands_by_step() -> Mapping[Step, Mapping[Role, list[str]]]:
    """For each pair of states, what each side may send to get from one to the other."""
    steps: defaultdict[Step, defaultdict[Role, list[str]]] = defaultdict(lambda: defaultdict(list))
    for role, table in TRANSITIONS.items():
        for state, after in table.items():
            for command, then in after.items():
                steps[state, then][role].append(command.value)
    return {step: {role: sorted(names) for role, names in by_role.items()} for step, by_role in steps.items()}


def wrapped(words: Iterable[str], columns: int = _LABEL_COLUMNS) -> list[str]:
    """Words with commas between them, in lines of at most so many columns."""
    lines = [""]
    for word in words:
        joined = f"{lines[-1]}, {word}" if lines[-1] else word
        if len(joined) <= columns:
            lines[-1] = joined
        else:
            lines[-1] += ","
            lines.append(word)
    return lines


def label_of(by_role: Mapping[Role, list[str]]) -> list[str]:
    """The lines that stand beside an arrow."""
    return [line for role, names in by_role.items() for line in wrapped([f"{role.value}: {names[0]}", *names[1:]])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """States in a column; what leads on stands between them, what stays or ends the session to the right."""

    states: tuple[State, ...] = tuple(State)

    def top(self, state: State) -> int:
        """Where the box of a state begins."""
        return 10 + _ROW * self.states.index(state)

    def svg(self) -> str:
        """The whole picture."""
        height = self.top(self.states[-1]) + _BOX_HEIGHT + 10
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" {_STYLE}>',
            "<title>The states of a session and the frames that lead from one to the next</title>",
            _TIP,
        ]
        parts += [self._box(state) for state in self.states]
        lanes = 0
        for (state, then), by_role in commands_by_step().items():
            label = label_of(by_role)
            if state is then:
                parts.append(self._loop(state, label))
            elif self.states.index(then) == self.states.index(state) + 1 and then is not State.CLOSED:
                parts.append(self._down(state, label))
            else:
                parts.append(self._around(state, then, label, lanes))
                lanes += 1
        return "\n".join([*parts, "</svg>"])

    def _box(self, state: State) -> str:
        top = self.top(state)
        return (
            f'<rect x="{_LEFT}" y="{top}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="6" fill="none" '
            'stroke="currentColor"/>'
            f'<text x="{_LEFT + _BOX_WIDTH // 2}" y="{top + 22}" text-anchor="middle" font-weight="bold">'
            f"{escape(state.value)}</text>"
        )

    def _down(self, state: State, label: list[str]) -> str:
        x, y = _LEFT + _BOX_WIDTH // 2, self.top(state) + _BOX_HEIGHT
        middle = y + (_ROW - _BOX_HEIGHT) // 2 - _LINE * (len(label) - 1) // 2 + 4
        return _arrow(f"M{x} {y} V{y + _ROW - _BOX_HEIGHT}") + _text(x + 10, middle, label)

    def _loop(self, state: State, label: list[str]) -> str:
        x, y = _LEFT + _BOX_WIDTH, self.top(state)
        path = f"M{x} {y + 8} h40 a9 9 0 0 1 0 18 h-40"
        return _arrow(path) + _text(x + 60, y + 20 - _LINE * (len(label) - 1) // 2, label)

    def _around(self, state: State, then: State, label: list[str], lane: int) -> str:
        """An arrow down the left margin, each in a lane of its own."""
        start, x = self.top(state) + _BOX_HEIGHT // 2, _LEFT - _OUTERMOST + _LANE * lane
        end = self.top(then) + _BOX_HEIGHT - 8 - 10 * lane
        return _arrow(f"M{_LEFT} {start} H{x} V{end} H{_LEFT}") + _text(x + 6, start - 6, label)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifecycle:
    """States in a column, and arrows from one to the next; all others go around on the right, each in its own lane.

    ``end`` leads from nearly everywhere to one state and is left to the text.
    """

    row: ClassVar[int] = 100
    box: ClassVar[tuple[int, int]] = (120, 70)
    lane: ClassVar[int] = 26

    def steps(self) -> list[tuple[SessionState, str, SessionState]]:
        """What is drawn: each pair of states once, with the steps that lead from one to the other."""
        gathered: defaultdict[tuple[SessionState, SessionState], list[str]] = defaultdict(list)
        for state, steps in SESSION_STEPS.items():
            for step, then in steps.items():
                if step is not LifecycleStep.END:
                    gathered[state, then].append(step.value)
        return [(state, ", ".join(words), then) for (state, then), words in gathered.items()]

    def svg(self) -> str:
        """The whole picture."""
        states, (width, height) = list(SESSION_STEPS), self.box
        steps = self.steps()
        total = 10 + width + 90 + self.lane * len(steps)
        view = f"0 0 {total} {self.row * len(states) + 10}"
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view}" role="img" {_STYLE}>',
            "<title>The states of a client</title>",
            _TIP,
        ]
        for number, state in enumerate(states):
            top = 10 + self.row * number
            parts.append(
                f'<rect x="10" y="{top}" width="{width}" height="{height}" rx="6" fill="none" stroke="currentColor"/>'
                f'<text x="{10 + width // 2}" y="{top + height // 2 + 4}" text-anchor="middle" font-weight="bold">'
                f"{escape(state.value)}</text>"
            )
        used, lanes = dict.fromkeys(states, 0), 0
        for state, words, then in steps:
            top, x = 10 + self.row * states.index(state), 10 + width
            if states.index(then) == states.index(state) + 1:
                middle, foot = 10 + width // 2, top + height
                parts.append(_arrow(f"M{middle} {foot} v{self.row - height}") + _text(middle + 8, foot + 20, [words]))
                continue
            # Arrows come in at the foot of a box, below those that leave it.
            start, end = top + 16 + 17 * used[state], 10 + self.row * states.index(then) + height - 5
            lane = x + 90 + self.lane * lanes
            used[state], lanes = used[state] + 1, lanes + 1
            parts.append(_arrow(f"M{x} {start} H{lane} V{end} H{x}") + _text(x + 6, start - 3, [words]))
        return "\n".join([*parts, "</svg>"])


def _arrow(path: str) -> str:
    return f'<path d="{path}" fill="none" stroke="currentColor" marker-end="url(#tip)"/>'


def _text(x: int, y: int, lines: Iterable[str]) -> str:
    spans = "".join(f'<tspan x="{x}" y="{y + _LINE * row}">{escape(line)}</tspan>' for row, line in enumerate(lines))
    return f"<text>{spans}</text>"


class SessionStatesDiagram(SphinxDirective):
    """Draws the states."""

    def run(self) -> list[nodes.Node]:
        """Make the picture, for HTML alone: the table beside it says the same to everybody."""
        return [nodes.raw("", Picture().svg(), format="html")]


class SessionStatesTable(SphinxDirective):
    """Lists the steps."""

    def run(self) -> list[nodes.Node]:
        """Make the table."""
        rows = [
            (state.value, role.value, ", ".join(names), then.value)
            for (state, then), by_role in commands_by_step().items()
            for role, names in by_role.items()
        ]
        return [_table(("in the state", "the", "may send", "which makes it"), (14, 10, 56, 20), rows)]


class LifecycleDiagram(SphinxDirective):
    """Draws the states of a client's session."""

    def run(self) -> list[nodes.Node]:
        """Make the picture."""
        return [nodes.raw("", Lifecycle().svg(), format="html")]


class LifecycleTable(SphinxDirective):
    """Lists the steps of a client's session."""

    def run(self) -> list[nodes.Node]:
        """Make the table."""
        rows = [
            (state.value, step.value, then.value)
            for state, steps in SESSION_STEPS.items()
            for step, then in steps.items()
        ]
        return [_table(("state", "step", "next state"), (34, 33, 33), rows)]


def _table(head: Sequence[str], widths: Iterable[int], rows: Iterable[Sequence[str]]) -> nodes.table:
    group = nodes.tgroup("", *(nodes.colspec(colwidth=width) for width in widths), cols=len(head))
    group += nodes.thead("", _row(head))
    group += nodes.tbody("", *map(_row, rows))
    return nodes.table("", group)


def _row(cells: Iterable[str]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", nodes.paragraph(text=cell)) for cell in cells))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directives."""
    app.add_directive("session-states-diagram", SessionStatesDiagram)
    app.add_directive("session-states-table", SessionStatesTable)
    app.add_directive("lifecycle-diagram", LifecycleDiagram)
    app.add_directive("lifecycle-table", LifecycleTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
