"""The project's own files, parsed, for the tests that hold them to the rules of the source."""

import ast
import gc
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "trio_stomp"
# Where the unit tests are; the other directories of tests/ cut across packages.
UNIT_TESTED = ("protocol", "brokers", "client", "blocking", "testing", "spark", "cli")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """One Python file: its path from the root of the project, and its text."""

    path: str
    text: str

    @classmethod
    def of(cls, path: str, text: str) -> "SourceFile":
        return cls(path=path, text=text)

    @property
    def tree(self) -> ast.Module:
        """Its syntax tree, which is parsed once."""
        return _parsed(self.text, self.path)

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def in_package(self) -> bool:
        return self.path.startswith(f"{PACKAGE}/")

    @property
    def in_tests(self) -> bool:
        return self.path.startswith("tests/")

    @property
    def module(self) -> str:
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def package(self) -> str:
        """``client`` of trio_stomp/session/outbox.py and its tests, ``errors`` of trio_stomp/errors.py."""
        parts = self.module.split(".")
        return parts[1] if len(parts) > 1 else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A place that breaks a rule. ``place`` has no line number, so that exceptions outlive edits."""

    place: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.place} (line {self.line}): {self.what}"


Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """Every function with its qualified name, methods and nested functions too."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name, node
            yield from functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):  # no expression has one
            yield from functions(node, prefix)


@cache
def project_files() -> tuple[str, ...]:
    """The paths of all files that are, or would be, in version control."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    if listed.returncode == 0:
        names = [name for name in listed.stdout.split("\0") if name]
    else:  # an unpacked source distribution
        paths = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
        names = [path.as_posix() for path in paths if not any(part[0] == "." for part in path.parts[:-1])]
    return tuple(sorted(name for name in names if (ROOT / name).is_file()))


@cache
def _parsed(text: str, path: str) -> ast.Module:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text, path)
    finally:
        # The trees last as long as the session. To collect while they grow takes longer than to parse.
        gc.freeze()
        if was_enabled:
            gc.enable()


@cache
def python_files() -> tuple[SourceFile, ...]:
    """All Python files of the project."""
    return tuple(
        SourceFile.of(name, (ROOT / name).read_text(encoding="utf-8"))
        for name in project_files()
        if name.endswith(".py")
    )
