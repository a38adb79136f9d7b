"""What the rules of the source look for: each finder reads source files and yields the places that break its rule."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Sequence

from tests.architecture.source_tree import (
    PACKAGE,
    UNIT_TESTED,
    Finding,
    Function,
    SourceFile,
    functions,
)

TEST_NAME_WORDS = 3

Files = Sequence[SourceFile]


# What is in each file that has one.
_BROAD = re.compile(r"Exception|except\s*:")


def broad_excepts(files: Files) -> Iterator[Finding]:
    broad = {"Exception", "BaseException"}
    for file in files:
        if not file.in_package or not _BROAD.search(file.text):
            continue
        for name, node in _nodes_by_function(file.tree):
            caught: list[ast.expr] = []
            if isinstance(node, ast.ExceptHandler):
                if node.type is None:
                    yield Finding(place=f"{file.path}:{name}", line=node.lineno, what="bare except")
                    continue
                caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in {"suppress", "contextlib.suppress"}:
                caught = node.args
            for kind in caught:
                if ast.unparse(kind) in broad:
                    what = f"catches {ast.unparse(kind)}"
                    yield Finding(place=f"{file.path}:{name}", line=kind.lineno, what=what)


def _nodes_by_function(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Every node with the qualified name of the innermost function that holds it."""
    holder = {id(node): "<module>" for node in ast.walk(tree)}
    for name, function in functions(tree):  # outer functions come first, so inner ones overwrite
        holder.update({id(node): name for node in ast.walk(function)})
    for node in ast.walk(tree):
        yield holder[id(node)], node


# A suppression names its code and its reason: behind it, or in a comment above it or the run it belongs to.
_SUPPRESSION = re.compile(r"#\s*(?:type:\s*ignore|pyright:\s*ignore|noqa|pragma:\s*no\s*(?:cover|branch))")
_WITH_CODE = re.compile(
    r"#\s*(?:(?:type|pyright):\s*ignore\[[\w\s,-]+\]|noqa:\s*[A-Z]+\d+(?:,\s*[A-Z]+\d+)*|pragma:\s*no\s*\w+)"
    r"(?P<reason>.*)"
)
_REASON = re.compile(r"\w+\W+\w+")


def unexplained_suppressions(files: Files) -> Iterator[Finding]:
    for file in files:
        if not _SUPPRESSION.search(file.text):
            continue  # to find the comments of a file takes longer than all else
        for token in tokenize.generate_tokens(io.StringIO(file.text).readline):
            if token.type != tokenize.COMMENT or not _SUPPRESSION.match(token.string):
                continue
            line = token.start[0]
            match = _WITH_CODE.match(token.string)
            if match is None:
                what = f"names no code: {token.string}"
            elif not _REASON.search(match["reason"]) and not _explained_above(file.lines, line):
                what = f"gives no reason: {token.string}"
            else:
                continue
            yield Finding(place=file.path, line=line, what=what)


def _explained_above(lines: list[str], line: int) -> bool:
    above = line - 2
    while above >= 0 and _SUPPRESSION.search(lines[above]):
        above -= 1
    return above >= 0 and lines[above].strip().startswith("#")


def real_sleeps(files: Files) -> Iterator[Finding]:
    """Unit tests that sleep, themselves or through a helper of their module, in real time."""
    for file in files:
        if not file.in_tests or file.package not in UNIT_TESTED or "sleep" not in file.text:
            continue
        known = dict(functions(file.tree))
        is_on_each_loop = _is_marked_anyio(file.tree)
        sleepy = {name for name, function in known.items() if _sleeps(function)}
        grown = bool(sleepy)
        while grown:
            more = {name for name, function in known.items() if _calls(function, sleepy)} - sleepy
            grown = bool(more)
            sleepy |= more
        for name in sorted(sleepy):
            is_test = name.rpartition(".")[2].startswith("test_")
            has_clock = _has_clock(known[name]) or (is_on_each_loop and not _is_in_real_time(known[name]))
            if is_test and not has_clock:
                what = "sleeps without autojump_clock, or a loop of virtual time"
                yield Finding(place=f"{file.path}:{name}", line=known[name].lineno, what=what)


def _sleeps(function: Function) -> bool:
    calls = (node for node in ast.walk(function) if isinstance(node, ast.Call))
    return any(
        ast.unparse(call.func) in {"time.sleep", "trio.sleep", "anyio.sleep"}
        and [ast.unparse(argument) for argument in call.args] != ["0"]
        for call in calls
    )


def _calls(function: Function, names: set[str]) -> bool:
    simple = {name.rpartition(".")[2] for name in names}
    return any(
        (isinstance(node, ast.Name) and node.id in simple) or (isinstance(node, ast.Attribute) and node.attr in simple)
        for node in ast.walk(function)
    )


def _has_clock(function: Function) -> bool:
    return any(argument.arg in {"autojump_clock", "mock_clock"} for argument in function.args.args)


def _is_marked_anyio(tree: ast.Module) -> bool:
    """Whether the tests of a module run in the loops of tests/kit/loops.py."""
    marks = (node.value for node in tree.body if isinstance(node, ast.Assign) and "pytestmark" in ast.unparse(node))
    return any("pytest.mark.anyio" in ast.unparse(mark) for mark in marks)


def _is_in_real_time(function: Function) -> bool:
    loops = " ".join(map(ast.unparse, function.decorator_list))
    return any(name in loops for name in ("-real", "uvloop", "REAL_", "over_sockets"))


def vague_test_names(files: Files) -> Iterator[Finding]:
    for file in files:
        if not file.in_tests:
            continue
        for name, function in functions(file.tree):
            simple = name.rpartition(".")[2]
            if simple.startswith("test_") and len(simple.split("_")) <= TEST_NAME_WORDS:
                what = "the name does not say what, when and then"
                yield Finding(place=f"{file.path}:{name}", line=function.lineno, what=what)


def stray_milliseconds(files: Files) -> Iterator[Finding]:
    for file in files:
        if not file.in_package:
            continue
        for node in ast.walk(file.tree):
            names: list[str] = []
            if isinstance(node, ast.arg):
                names = [node.arg]
            elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
                names = [node.id if isinstance(node, ast.Name) else node.attr]
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names = [node.name]
            for name in names:
                if name.lower().endswith("_ms"):
                    yield Finding(place=file.path, line=getattr(node, "lineno", 1), what=f"{name} is in ms")


def imports_past_doors(files: Files) -> Iterator[Finding]:
    """Imports of another package that do not go through its `__init__`, or take what that does not show."""
    shown = {file.package: _all_of(file.tree) for file in files if file.in_package and _is_init(file)}
    for file in files:
        if not file.in_package or file.path == f"{PACKAGE}/__init__.py":
            continue
        for node in ast.walk(file.tree):
            for target, names, line in _own_imports(node):
                package = target.split(".")[1] if "." in target else ""
                if package == file.package:
                    continue
                if package not in shown:
                    what = f"imports {target}, the client's own package, from inside"
                elif target != f"{PACKAGE}.{package}":
                    what = f"imports {target} past the __init__ of {package}"
                elif hidden := sorted(set(names) - shown[package]):
                    what = f"imports {', '.join(hidden)}, which {target} does not list in __all__"
                else:
                    continue
                yield Finding(place=file.path, line=line, what=what)


def _is_init(file: SourceFile) -> bool:
    return file.path in {f"{PACKAGE}/{file.package}.py", f"{PACKAGE}/{file.package}/__init__.py"}


def _all_of(tree: ast.Module) -> set[str]:
    for node in tree.body:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        named = any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)
        if named and isinstance(value, ast.List | ast.Tuple):
            return {str(item.value) for item in value.elts if isinstance(item, ast.Constant)}
    return set()


def _own_imports(node: ast.AST) -> Iterator[tuple[str, list[str], int]]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.split(".")[0] == PACKAGE:
                yield alias.name, [], node.lineno
    elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
        names = [alias.name for alias in node.names]
        if node.module == PACKAGE:
            for name in names:
                yield f"{PACKAGE}.{name}", [], node.lineno
        elif node.module.startswith(f"{PACKAGE}."):
            yield node.module, names, node.lineno
