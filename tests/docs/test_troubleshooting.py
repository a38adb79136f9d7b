"""Each heading of the page on troubleshooting is a text that the package can raise."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.architecture.source_tree import ROOT, python_files

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
HEADINGS = re.findall(r"^### (.*)$", PAGE, re.MULTILINE)


def templates(tree: ast.AST) -> Iterator[str]:
    """The strings of a module that are no docstrings; a value in an f-string is one character, NUL."""
    parts = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    docs = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    left_out = parts | docs
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "\0" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in left_out:
            yield node.value


def is_raised(text: str, messages: list[str]) -> bool:
    """Whether one of the messages has the text, in which an ellipsis is a value."""
    pattern = re.compile(".*".join(map(re.escape, text.split("…"))))
    return any(pattern.search(message) for message in messages)


@pytest.fixture(scope="module")
def messages() -> list[str]:
    return [text for file in python_files() if file.in_package for text in templates(file.tree)]


@pytest.mark.parametrize("heading", HEADINGS)
def test_heading_when_read_then_the_package_has_that_message(heading: str, messages: list[str]) -> None:
    code = re.fullmatch(r"`([^`]+)`", heading)

    assert code, "a heading is one message, as code"
    assert is_raised(code[1], messages)


def test_page_when_read_then_it_has_headings_of_each_kind() -> None:
    assert len(HEADINGS) > 20
    assert len(set(HEADINGS)) == len(HEADINGS)


@pytest.mark.parametrize(
    ("text", "raised"), [("a … b", True), ("a", True), ("no", False), ("docs", False), ("b … a", False)]
)
def test_message_when_looked_for_then_found_only_where_it_is_one(text: str, raised: bool) -> None:
    source = 'def f(x):\n    """docs"""\n    raise ValueError(f"a {x} b")\n'

    assert is_raised(text, list(templates(ast.parse(source)))) is raised
