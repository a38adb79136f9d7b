"""Every small change that is tried on a module.

A mutant replaces a piece of one expression or statement, and leaves the rest of the text as it is. The kinds are the
usual ones: comparison, boolean, arithmetic, constant, return value, statement removed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

__all__ = ["Mutant", "compiles", "mutants_of"]

_COMPARISONS: Final[dict[type[ast.cmpop], tuple[str, str]]] = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
_OPERATORS: Final[dict[type[ast.operator], tuple[str, str]]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
# Their arguments are words for people. A test that insisted on each of them would hold nothing that matters.
_TELLING: Final = frozenset({"debug", "info", "warning", "error", "exception", "add_note", "log", "repr", "warn"})
# What Python or a type checker reads, and no test can see.
_UNSEEN_NAMES: Final = frozenset({"__all__", "__slots__", "__match_args__", "logger"})
# What is assigned to these is the text of an error.
_WORDS: Final = frozenset({"msg", "reason", "hint"})
# A text of three words or more is a part of one too, unless something is compared with it.
_PROSE: Final = re.compile(r"[a-z]\W* \W*[a-z]+\W* \W*[a-z]", re.IGNORECASE)


@dataclass(frozen=True, slots=True, order=True)
class Mutant:
    """One change.

    Attributes:
        start: Where the piece begins that is replaced, in bytes of the module's text.
        end: Where it ends.
        new: What stands there instead.
        line: The line on which it begins, from 1.
        kind: What sort of change it is.
    """

    start: int
    end: int
    new: str
    line: int
    kind: str

    def apply(self, source: str) -> str:
        """The text of the module with this change."""
        octets = source.encode()
        return (octets[: self.start] + self.new.encode() + octets[self.end :]).decode()

    def lines(self, source: str) -> tuple[str, str]:
        """The text of the changed lines before and after, without indentation."""
        octets = source.encode()
        begin = octets.rfind(b"\n", 0, self.start) + 1
        end = octets.find(b"\n", self.end)
        end = len(octets) if end < 0 else end
        after = octets[begin : self.start] + self.new.encode() + octets[self.end : end]
        return octets[begin:end].decode().strip(), after.decode().strip()


class _Finder:
    def __init__(self, source: str) -> None:
        self._bytes = source.encode()
        self._starts = [0]
        for line in self._bytes.split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)

    def _begin(self, node: ast.expr | ast.stmt) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt) -> int:
        # ast.parse gives them both to each node.
        return self._starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)

    def _text(self, node: ast.expr | ast.stmt) -> str:
        return self._bytes[self._begin(node) : self._end(node)].decode()

    def _whole(self, node: ast.expr | ast.stmt, new: str, kind: str) -> Mutant:
        return Mutant(self._begin(node), self._end(node), new, node.lineno, kind)

    def _between(
        self, left: ast.expr, right: ast.expr, old: str, new: str, kind: str, node: ast.expr
    ) -> Iterator[Mutant]:
        """Replace an operator, which stands between two operands and perhaps their brackets."""
        begin, end = self._end(left), self._begin(right)
        gap = self._bytes[begin:end].decode()
        at = gap.find(old)
        if at >= 0 and "#" not in gap:
            start = begin + len(gap[:at].encode())
            yield Mutant(start, start + len(old.encode()), new, node.lineno, kind)

    # --- statements -------------------------------------------------------------------------------------------------

    def statements(self, body: list[ast.stmt]) -> Iterator[Mutant]:
        for position, node in enumerate(body):
            if position == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                continue  # a docstring
            yield from self._statement(node)

    def _statement(self, node: ast.stmt) -> Iterator[Mutant]:  # noqa: C901, PLR0912  # one case for each sort of statement
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                # Methods of a Protocol and overloads are never called: they only declare signatures.
                if not all(isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) for each in node.body):
                    for default in (*node.args.defaults, *node.args.kw_defaults):
                        if default is not None:
                            yield from self.expression(default)
                    yield from self.statements(node.body)
                return
            case ast.ClassDef():
                is_enum = any(ast.unparse(base) == "enum.Enum" for base in node.bases)
                yield from self.statements([each for each in node.body if not (is_enum and _is_named(each))])
                return
            case (
                ast.If(test=ast.Name("TYPE_CHECKING"))
                | ast.Import()
                | ast.ImportFrom()
                | ast.Assert()
                | ast.Raise(exc=ast.Name("AssertionError") | ast.Call(func=ast.Name("AssertionError")))
            ):
                return
            case ast.Assign(targets=[ast.Name(name)]) | ast.AnnAssign(target=ast.Name(name)) if name in _UNSEEN_NAMES:
                return
            case ast.Assign(targets=[ast.Name(name)], value=ast.Constant(value=str())) if name in _WORDS:
                return
            case ast.Return(value=ast.expr() as value) if not _is_nothing(value):
                yield self._whole(value, "None", "return")
            case ast.Expr(value=ast.Call() | ast.Await()) if not _tells(node.value):
                yield self._whole(node, "pass", "statement")
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.AugAssign() | ast.Delete():
                yield self._whole(node, "pass", "statement")
            case ast.Raise():
                yield self._whole(node, "pass", "statement")
                return  # its words are not for a test
            case ast.Continue():
                yield self._whole(node, "break", "statement")
            case ast.Break():
                yield self._whole(node, "continue", "statement")
            case _:
                pass
        if isinstance(node, ast.AugAssign) and type(node.op) in _OPERATORS:
            old, new = (f"{each}=" for each in _OPERATORS[type(node.op)])
            yield from self._between(node.target, node.value, old, new, "arithmetic", node.value)
        if isinstance(node, (ast.If, ast.While)) and not isinstance(
            node.test, (ast.Constant, ast.Compare, ast.UnaryOp)
        ):
            yield self._whole(node.test, f"not ({self._text(node.test)})", "boolean")
        yield from self._inside(node)

    def _inside(self, node: ast.AST) -> Iterator[Mutant]:
        """What is in a node, statements and expressions alike; annotations are not."""
        unread = {id(each) for each in _unread(node)}
        statements: list[ast.stmt] = []
        for child in ast.iter_child_nodes(node):
            if id(child) in unread:
                continue
            if isinstance(child, ast.stmt):
                statements.append(child)
            elif isinstance(child, ast.expr):
                yield from self.expression(child)
            elif isinstance(child, (ast.ExceptHandler, ast.match_case, ast.withitem, ast.keyword, ast.comprehension)):
                yield from self._inside(child)
        for statement in statements:
            yield from self._statement(statement)

    # --- expressions ------------------------------------------------------------------------------------------------

    def expression(self, node: ast.expr) -> Iterator[Mutant]:
        match node:
            case (
                ast.JoinedStr()
                | ast.Lambda(body=ast.Constant())
                | ast.Call(func=ast.Name("TypeVar" | "TypeVarTuple" | "ParamSpec"))
                | ast.Subscript(value=ast.Name("Literal"))
            ):
                return
            case ast.Call() if _tells(node):
                return
            case ast.Compare(ops=[operator], comparators=[right]):
                old, new = _COMPARISONS[type(operator)]
                yield from self._between(node.left, right, old, new, "comparison", node)
                if isinstance(right, ast.Constant):
                    yield from self._constant(right)
            case ast.BoolOp(values=[left, right, *_]):
                old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
                yield from self._between(left, right, old, new, "boolean", node)
            case ast.UnaryOp(op=ast.Not()):
                yield self._whole(node, f"({self._text(node.operand)})", "boolean")
            case ast.BinOp() if type(node.op) in _OPERATORS and not _is_text(node):
                old, new = _OPERATORS[type(node.op)]
                yield from self._between(node.left, node.right, old, new, "arithmetic", node)
            case ast.IfExp():
                yield self._whole(node.test, f"not ({self._text(node.test)})", "boolean")
            case ast.Constant(value) if not (isinstance(value, str) and _PROSE.search(value)):
                yield from self._constant(node)
            case _:
                pass
        yield from self._inside(node)

    def _constant(self, node: ast.Constant) -> Iterator[Mutant]:
        match node.value:
            case bool():
                yield self._whole(node, str(not node.value), "constant")
            case int() | float():
                yield self._whole(node, repr(node.value + 1), "constant")
            case str() | bytes() if node.value:
                extra = "XX" if isinstance(node.value, str) else b"XX"
                yield self._whole(node, repr(node.value + extra), "constant")  # type: ignore[operator]  # of one type
            case _:
                pass


def _unread(node: ast.AST) -> list[ast.expr]:
    """The annotations of a node, which nothing runs."""
    return [node.annotation] if isinstance(node, ast.AnnAssign) else []


def _is_named(node: ast.stmt) -> bool:
    """Whether a member of an enumeration has a text for people as its value; what is compared is in a StrEnum."""
    return isinstance(node, ast.Assign) and _is_string(node.value)


def _is_nothing(node: ast.expr) -> bool:
    """Whether a caller takes None for it: None itself, and False, which becomes True instead."""
    return isinstance(node, ast.Constant) and (node.value is None or node.value is False)


def _is_text(node: ast.BinOp) -> bool:
    return any(isinstance(side, (ast.JoinedStr, ast.Constant)) and _is_string(side) for side in (node.left, node.right))


def _is_string(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)))


def _tells(node: ast.expr) -> bool:
    """Whether a call only tells people something, in the log or in an error."""
    if isinstance(node, ast.Await):
        node = node.value
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name in _TELLING or name.endswith(("Error", "Lost", "Exceeded", "Failed", "Supported", "Closed"))


def mutants_of(source: str) -> list[Mutant]:
    """All mutants of a module, in order; each differs from the source, and nearly each compiles."""
    found = sorted(set(_Finder(source).statements(ast.parse(source).body)))
    return [mutant for mutant in found if _is_another(mutant, source)]


def _is_another(mutant: Mutant, source: str) -> bool:
    before, after = mutant.lines(source)
    return before != after and "pragma: no cover" not in before


def compiles(mutant: Mutant, source: str) -> bool:
    """Whether a mutant is Python: an operator that is written over several lines may not be."""
    try:
        ast.parse(mutant.apply(source))
    except SyntaxError:
        return False
    return True
