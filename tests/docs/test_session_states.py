"""The page that is drawn from the table of transitions shows all of it, and nothing else."""

import sys
from collections.abc import Iterator
from types import ModuleType
from xml.etree import ElementTree as ET

import pytest

from tests.docs.code_blocks import ROOT
from trio_stomp.protocol import TRANSITIONS, Role, State


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

    assert gathered == sorted((state, role, command, then) for (state, role, command), then in TRANSITIONS.items())


def test_picture_when_drawn_then_it_names_every_state_and_command(session_states: ModuleType) -> None:
    picture = ET.fromstring(session_states.Picture().svg())  # noqa: S314  # it is a picture of our own

    words = set(" ".join(picture.itertext()).replace(",", " ").replace(":", " ").split())

    assert {state.value for state in State} <= words
    assert {role.value for role in Role} <= words
    assert {command.value for _, _, command in TRANSITIONS} <= words


def test_picture_when_drawn_then_no_text_leaves_it(session_states: ModuleType) -> None:
    picture = ET.fromstring(session_states.Picture().svg())  # noqa: S314  # it is a picture of our own
    _, _, width, height = map(int, picture.attrib["viewBox"].split())

    # A column of this font is seldom wider than seven units.
    ends = [
        (int(line.attrib["x"]) + 7 * len(line.text or ""), int(line.attrib["y"]))
        for line in picture.iter("{http://www.w3.org/2000/svg}tspan")
    ]

    assert ends
    assert all(0 < x <= width and 0 < y <= height for x, y in ends)
