"""Which test shows which row of the conformance matrix.

A row is shown by the vectors that list it in their `rows`, and by the tests that name it in their docstring ("Row
12-ACK-1", "Rows 1x-HB-6 to 1x-HB-9"). Rows that no test can show are in `untestable.json` with the reason; rows that
hold only in part are in `partial.json`, which says in what part and why.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, TypedDict

__all__ = ["Row", "load_partial", "load_rows", "load_untestable", "shown_by"]

_HERE: Final = Path(__file__).parent
_ROOT: Final = _HERE.parents[1]
_ROW_ID: Final = re.compile(r"\b(?:1x|10|11|12|all|draft)-[A-Z]+(?:-[A-Z]+)*-\d+\b")
_RANGE: Final = re.compile(rf"({_ROW_ID.pattern}) to ({_ROW_ID.pattern})")


class Row(TypedDict):
    """One normative statement."""

    id: str
    versions: list[str]
    role: str
    section: str
    level: str
    requirement: str


def load_rows() -> list[Row]:
    """All rows of the matrix, in its order."""
    rows: list[Row] = json.loads((_HERE / "matrix.json").read_text(encoding="utf-8"))
    return rows


def load_untestable() -> dict[str, str]:
    """Row -> why no test can show it."""
    reasons: dict[str, str] = json.loads((_HERE / "untestable.json").read_text(encoding="utf-8"))
    return reasons


def load_partial() -> dict[str, str]:
    """Row -> which part of it holds, and why the rest does not."""
    parts: dict[str, str] = json.loads((_HERE / "partial.json").read_text(encoding="utf-8"))
    return parts


@cache
def shown_by() -> dict[str, list[str]]:
    """Row -> what shows it: node ids of tests, and ids of vectors."""
    found: dict[str, list[str]] = {}
    for row, shown in (*_by_vectors(), *_by_docstrings()):
        found.setdefault(row, []).append(shown)
    return found


def _by_vectors() -> Iterator[tuple[str, str]]:
    for name in ("vectors_open.jsonl", "vectors_own.jsonl"):
        for line in (_HERE / name).read_text(encoding="utf-8").splitlines():
            vector = json.loads(line)
            for row in vector["rows"]:
                yield row, f"vector {vector['id']}"


def _by_docstrings() -> Iterator[tuple[str, str]]:
    for path in sorted((_ROOT / "tests").rglob("test_*.py")):
        module, source = path.relative_to(_ROOT).as_posix(), path.read_text(encoding="utf-8")
        # Most name no row, and need not be parsed.
        for name, docstring in _tests_in(ast.parse(source)) if _ROW_ID.search(source) else ():
            for row in rows_named(docstring):
                yield row, f"{module}::{name}"


def _tests_in(scope: ast.Module | ast.ClassDef) -> Iterator[tuple[str, str]]:
    """The tests of a module or a class, named as pytest names them, and their docstrings."""
    for node in scope.body:
        if isinstance(node, ast.ClassDef):
            for name, docstring in _tests_in(node):
                yield f"{node.name}::{name}", docstring
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
            yield node.name, ast.get_docstring(node) or ""


def rows_named(docstring: str) -> list[str]:
    """The rows that a docstring names, ranges spelled out, each once."""
    named = _ROW_ID.findall(docstring)
    for first, last in _RANGE.findall(docstring):
        stem, start = first.rsplit("-", 1)
        assert last.rsplit("-", 1)[0] == stem, f"a range of rows stays within one group: {docstring!r}"
        named += [f"{stem}-{number}" for number in range(int(start), int(last.rsplit("-", 1)[1]) + 1)]
    return list(dict.fromkeys(named))
