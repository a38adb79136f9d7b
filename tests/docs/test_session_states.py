"""The pages that are drawn from tables of transitions show all of them, and nothing else."""

import sys
from collections.abc import Iterator
from types import ModuleType
from xml.etree import ElementTree as ET

import pytest

from tests.docs.code_blocks import ROOT
from trio_stomp.protocol import TRANSITIONS, Role, State
from trio_stomp.session.state import SESSION_STEPS, Step


@pytest.fixture
def session_states(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The extension, imported as Sphinx does it."""
    pytest.importorskip("sphinx", reason="Sphinx comes with `make docs`")
    monkeypatch.setattr(sys, "path", [str(ROOT / "docs" / "_extensions"), *sys.path])
    yield __import__("session_states")
    del sys.modules["session_states"]


def test_steps_when_gathered_then_each_transition_is_there_once(session_states: ModuleType) -> None:
    steps = session_states.commands_by_step()

    gathered = sorted(
        (state, role, command, then)
        for (state, then), by_role in steps.items()
        for role, commands in by_role.items()
        for command in commands
    )

    assert gathered == sorted(
        (state, role, command, then)
        for role, table in TRANSITIONS.items()
        for state, after in table.items()
        for command, then in after.items()
    )


def test_picture_when_drawn_then_it_names_every_state_and_command(session_states: ModuleType) -> None:
    picture = ET.fromstring(session_states.Picture().svg())  # noqa: S314  # it is a picture of our own

    words = set(" ".join(picture.itertext()).replace(",", " ").replace(":", " ").split())

    assert {state.value for state in State} <= words
    assert {role.value for role in Role} <= words
    assert {command.value for table in TRANSITIONS.values() for after in table.values() for command in after} <= words


def test_lifecycle_when_drawn_then_it_names_every_state_and_all_steps_but_the_end(session_states: ModuleType) -> None:
    lifecycle = session_states.Lifecycle()
    picture = ET.fromstring(lifecycle.svg())  # noqa: S314  # it is a picture of our own

    words = set(" ".join(picture.itertext()).replace(",", " ").split())
    drawn = {(state, word, then) for state, label, then in lifecycle.steps() for word in label.split(", ")}

    assert {state.value for state in SESSION_STEPS} <= words
    assert {word for _, word, _ in drawn} <= words
    assert drawn == {
        (state, step.value, then)
        for state, steps in SESSION_STEPS.items()
        for step, then in steps.items()
        if step is not Step.END
    }


@pytest.mark.parametrize("name", ["protocol", "session"])
def test_picture_when_drawn_then_no_text_leaves_it(session_states: ModuleType, name: str) -> None:
    drawing = session_states.Picture() if name == "protocol" else session_states.Lifecycle()
    picture = ET.fromstring(drawing.svg())  # noqa: S314  # it is a picture of our own
    _, _, width, height = map(int, picture.attrib["viewBox"].split())

    # A column of this font is seldom wider than seven units.
    ends = [
        (int(line.attrib["x"]) + 7 * len(line.text or ""), int(line.attrib["y"]))
        for line in picture.iter("{http://www.w3.org/2000/svg}tspan")
    ]

    assert ends
    assert all(0 < x <= width and 0 < y <= height for x, y in ends)
