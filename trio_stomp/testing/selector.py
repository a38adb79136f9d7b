"""Selectors of SUBSCRIBE: the conditions of SQL-92 that JMS has, as in ``kind = 'order' AND (size > 3 OR big = TRUE)``.

Spec: Jakarta Messaging, "Message selector syntax". The headers of STOMP are text, and JMS does not compare text with
numbers or booleans, so brokers differ. ActiveMQ Classic converts the text of a header that is compared with a number
or a boolean, and so does this broker; Artemis converts only behind ``convert_string_expressions:``, and so does this
broker in its place. Both refuse ``<`` and its like beside a string, and take ``+`` beside a string for concatenation;
other arithmetic with text gives nothing that could match, as on Artemis.

Theory of operation: one pass cuts the text into tokens, and a parser that descends once through the grammar turns them
into functions of the headers. Both are linear in the length of the selector, which has a limit, as has its nesting.
Conditions have three values: True, False, and None for UNKNOWN; only what is True matches.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from typing_extensions import TypeIs

from trio_stomp.testing.refusals import Refusal

__all__ = ["Selector"]

# RabbitMQ 4 has the same limit for the SQL filters of its streams.
_LONGEST: Final = 4096
# Each level takes the parser eight calls, and Python allows a thousand.
_DEEPEST: Final = 40
# A header of more characters is no number.
_LONGEST_NUMBER: Final = 40

_CONVERT: Final = "convert_string_expressions:"

_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<number>0[xX][0-9a-fA-F]+|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[lLfFdD]?)
      | (?P<string>'(?:[^']|'')*')
      | (?P<name>[A-Za-z_$][A-Za-z0-9_$]*)
      | (?P<quoted>"(?:[^"]|"")+")
      | (?P<sign><>|<=|>=|[=<>+\-*/%(),])
      | (?P<end>\Z)
    )""",
    re.VERBOSE,
)
_KEYWORDS: Final = frozenset({"AND", "OR", "NOT", "LIKE", "ESCAPE", "IN", "BETWEEN", "IS", "NULL", "TRUE", "FALSE"})
_NUMBER: Final = re.compile(r"\s*[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*", re.ASCII)

# JMS header fields that STOMP brokers fill from headers of their own.
_JMS_FIELDS: Final = {"JMSCorrelationID": "correlation-id", "JMSType": "type"}

Value = str | int | float | bool | None
Headers = Mapping[str, str]
Term = Callable[[Headers], Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Token:
    kind: str
    text: str
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """A condition on the headers of a message.

    Attributes:
        condition: Headers -> True, False, or None where it is unknown.
    """

    condition: Term

    @classmethod
    def parse(cls, text: str, *, converts: bool = True) -> Selector:
        """Read a ``selector`` header.

        Args:
            text: The condition. ``convert_string_expressions:`` in front of it switches `converts` on.
            converts: Text of headers counts as number or boolean where it is compared with one.

        Raises:
            Refusal: It is no condition, or is too long or nested too deep. The ERROR points at the column.
        """
        if len(text) > _LONGEST:
            raise Refusal("selector refused", f"a selector has at most {_LONGEST} characters, this one {len(text)}")
        start = len(_CONVERT) if text.startswith(_CONVERT) else 0
        return cls(condition=_Parser(text, start, converts=converts or start > 0).parse())

    def matches(self, headers: Iterable[tuple[str, str]]) -> bool:
        """Whether a message with these headers is wanted; the first of repeated headers counts."""
        first: dict[str, str] = {}
        for name, value in headers:
            first.setdefault(name, value)
        return self.condition(first) is True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A piece of a selector: what it gives, and where it begins.

    Attributes:
        term: Its value.
        column: Where it begins.
        literal: ``text``, ``number`` or ``boolean`` where it is written out; empty where it depends on the headers.
        is_condition: Whether it can be used alone, or beside AND, OR and NOT.
    """

    term: Term
    column: int
    literal: str = ""
    is_condition: bool = False


class _Parser:
    """The grammar, from the weakest operator to the strongest."""

    def __init__(self, text: str, start: int, *, converts: bool) -> None:
        self._text = text
        self._converts = converts
        self._tokens = self._cut(start)
        self._at = 0
        self._depth = 0

    # --- tokens -----------------------------------------------------------------------------------------------------

    def _cut(self, position: int) -> list[_Token]:
        tokens: list[_Token] = []
        while not tokens or tokens[-1].kind != "end":
            found = _TOKEN.match(self._text, position)
            if found is None or found.lastgroup is None:
                blank = len(self._text[position:]) - len(self._text[position:].lstrip())
                raise self._refusal("no part of a selector begins here", position + blank + 1)
            text, kind = found[found.lastgroup], found.lastgroup
            if kind == "name" and text.upper() in _KEYWORDS:
                kind, text = "keyword", text.upper()
            tokens.append(_Token(kind=kind, text=text, column=found.start(found.lastgroup) + 1))
            position = found.end()
        return tokens

    def _refusal(self, problem: str, column: int) -> Refusal:
        # The place itself, and a little of what is around it.
        start = max(0, column - 1 - 40)
        around = self._text[start : start + 80]
        pointer = " " * (column - 1 - start) + "^"
        return Refusal("selector refused", f"column {column}: {problem}\n{around}\n{pointer}")

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self, *texts: str) -> _Token | None:
        """The next token, if it is one of these signs or keywords."""
        token = self._next
        if token.kind not in ("sign", "keyword") or token.text not in texts:
            return None
        self._at += 1
        return token

    def _expect(self, text: str) -> _Token:
        token = self._take(text)
        if token is None:
            raise self._unexpected(text)
        return token

    def _unexpected(self, expected: str) -> Refusal:
        token = self._next
        return self._refusal(f"expected {expected}, got {token.text[:40] or 'the end'}", token.column)

    def _nested(self, parse: Callable[[], _Part], column: int) -> _Part:
        self._check_depth(self._depth, column)
        self._depth += 1
        part = parse()
        self._depth -= 1
        return part

    def _check_depth(self, depth: int, column: int) -> None:
        if depth >= _DEEPEST:
            raise self._refusal(f"a selector is nested at most {_DEEPEST} deep", column)

    # --- conditions -------------------------------------------------------------------------------------------------

    def parse(self) -> Term:
        whole = self._condition(self._either())
        if self._next.kind != "end":
            raise self._unexpected("an operator or the end")
        return whole

    def _condition(self, part: _Part) -> Term:
        if part.literal in ("text", "number"):
            raise self._refusal("expected a condition, got a value", part.column)
        if part.is_condition or part.literal == "boolean":
            return part.term
        # A header alone is text, and no condition is true of it: so do ActiveMQ and Artemis.
        term = part.term
        return lambda headers: term(headers) is True

    def _either(self) -> _Part:
        first = self._both()
        terms: list[Term] = []
        while self._take("OR"):
            terms = terms or [self._condition(first)]
            terms.append(self._condition(self._both()))
        return _Part(term=_any_of(terms), column=first.column, is_condition=True) if terms else first

    def _both(self) -> _Part:
        first = self._negation()
        terms: list[Term] = []
        while self._take("AND"):
            terms = terms or [self._condition(first)]
            terms.append(self._condition(self._negation()))
        return _Part(term=_all_of(terms), column=first.column, is_condition=True) if terms else first

    def _negation(self) -> _Part:
        token = self._take("NOT")
        if token is None:
            return self._comparison()
        negated = self._nested(self._negation, token.column)
        return _Part(term=_not(self._condition(negated)), column=token.column, is_condition=True)

    def _comparison(self) -> _Part:
        left = self._sum()
        depth = self._depth
        while (term := self._compared(left)) is not None:
            # a = b = c compares what comes of the first comparison, one level deeper each time.
            depth += 1
            self._check_depth(depth, left.column)
            left = _Part(term=term, column=left.column, is_condition=True)
        return left

    def _compared(self, left: _Part) -> Term | None:
        sign = self._take("=", "<>", "<", "<=", ">", ">=")
        if sign is not None:
            return self._by_sign(sign, left, self._sum())
        if self._take("IS"):
            negated = self._take("NOT") is not None
            self._expect("NULL")
            return _is_null(left.term, negated=negated)
        negated = self._next.text == "NOT" and self._next.kind == "keyword"
        if negated:
            self._at += 1
        if self._take("BETWEEN"):
            return self._between(left, negated=negated)
        if self._take("LIKE"):
            term = self._like(left)
        elif self._take("IN"):
            term = self._one_of(left)
        elif negated:
            raise self._unexpected("BETWEEN, LIKE or IN behind NOT")
        else:
            return None
        return _not(term) if negated else term

    def _by_sign(self, sign: _Token, left: _Part, right: _Part) -> Term:
        if sign.text not in ("=", "<>"):
            return self._ordered(sign.text, left, right)
        # Text that is written out stays text.
        converts = self._converts and "text" not in (left.literal, right.literal)
        equal = _equal(left.term, right.term, converts=converts)
        return equal if sign.text == "=" else _not(equal)

    def _between(self, left: _Part, *, negated: bool) -> Term:
        lowest = self._sum()
        self._expect("AND")
        highest = self._sum()
        if negated:
            return _any_of([self._ordered("<", left, lowest), self._ordered(">", left, highest)])
        return _all_of([self._ordered(">=", left, lowest), self._ordered("<=", left, highest)])

    def _ordered(self, sign: str, left: _Part, right: _Part) -> Term:
        for part in (left, right):
            # Jakarta Messaging: "String and Boolean comparison is restricted to = and <>."
            if part.literal in ("text", "boolean") or part.is_condition:
                raise self._refusal(f"{sign} compares numbers; text and booleans only with = and <>", part.column)
        return _ordered(_ORDER[sign], left.term, right.term, converts=self._converts)

    def _like(self, left: _Part) -> Term:
        pattern = self._string("a pattern in quotes behind LIKE")
        escape = None
        if self._take("ESCAPE"):
            column = self._next.column
            escape = self._string("a character in quotes behind ESCAPE")
            if len(escape) != 1:
                raise self._refusal("ESCAPE names one character", column)
        return _like(left.term, _like_pieces(pattern, escape))

    def _one_of(self, left: _Part) -> Term:
        self._expect("(")
        texts = {self._string("a string in quotes")}
        while self._take(","):
            texts.add(self._string("a string in quotes"))
        self._expect(")")
        term = left.term
        return lambda headers: None if (value := term(headers)) is None else value in texts

    def _string(self, expected: str) -> str:
        token = self._next
        if token.kind != "string":
            raise self._unexpected(expected)
        self._at += 1
        return token.text[1:-1].replace("''", "'")

    # --- values -----------------------------------------------------------------------------------------------------

    def _sum(self) -> _Part:
        return self._chain(self._product, "+", "-")

    def _product(self) -> _Part:
        return self._chain(self._signed, "*", "/", "%")

    def _chain(self, operand: Callable[[], _Part], *signs: str) -> _Part:
        first = operand()
        steps: list[tuple[str, Term]] = []
        while (sign := self._take(*signs)) is not None:
            steps.append((sign.text, operand().term))
        if not steps:
            return first
        return _Part(term=_calculation(first.term, steps), column=first.column)

    def _signed(self) -> _Part:
        token = self._take("+", "-")
        if token is None:
            return self._primary()
        part = self._nested(self._signed, token.column)
        if token.text == "+":
            return part
        literal = "number" if part.literal == "number" else ""
        return _Part(term=_calculation(_constant(0), [("-", part.term)]), column=token.column, literal=literal)

    def _primary(self) -> _Part:
        token = self._next
        if token.kind == "string":
            return _Part(term=_constant(self._string("")), column=token.column, literal="text")
        if token.kind == "sign" and token.text == "(":
            self._at += 1
            inner = self._nested(self._either, token.column)
            self._expect(")")
            return inner
        self._at += 1
        match token.kind, token.text:
            case "number", text:
                return _Part(term=_constant(self._literal(text, token)), column=token.column, literal="number")
            case "name", name:
                return _Part(term=_header(name), column=token.column)
            case "quoted", name:
                return _Part(term=_header(name[1:-1].replace('""', '"')), column=token.column)
            case "keyword", ("TRUE" | "FALSE") as word:
                return _Part(term=_constant(word == "TRUE"), column=token.column, literal="boolean")
            case _:
                self._at -= 1
                raise self._unexpected("a header, a value or a parenthesis")

    def _literal(self, text: str, token: _Token) -> int | float:
        if text[:2] in ("0x", "0X"):
            number: int | float = int(text, 16)
        elif text.rstrip("lL").isdigit():
            digits = text.rstrip("lL")
            # As in Java, a zero in front is for octal digits.
            octal = digits.startswith("0") and len(digits) > 1
            if octal and not set(digits) <= set("01234567"):
                raise self._refusal("digits of an octal number go from 0 to 7", token.column)
            number = int(digits, 8 if octal else 10)
        elif text[-1] in "lL":
            raise self._refusal("L may only follow a whole number", token.column)
        else:
            return float(text.rstrip("fFdD"))
        if number >= 1 << 63:
            raise self._refusal("a whole number has at most 64 bits", token.column)
        return number


# --- what the operators do --------------------------------------------------------------------------------------------


def _constant(value: Value) -> Term:
    return lambda _headers: value


def _header(name: str) -> Term:
    if name == "JMSPriority":
        return lambda headers: _number(headers.get("priority", "4"))
    if name == "JMSDeliveryMode":
        return lambda headers: "PERSISTENT" if headers.get("persistent") == "true" else "NON_PERSISTENT"
    source = _JMS_FIELDS.get(name, name)
    return lambda headers: headers.get(source)


def _number(text: str) -> int | float | None:
    if len(text) > _LONGEST_NUMBER or not _NUMBER.fullmatch(text):
        return None
    try:
        return int(text)
    except ValueError:
        return float(text)


def _alike(left: Value, right: Value, *, converts: bool) -> tuple[Value, Value]:
    """Two values as they are compared: the text of a header turns into what the other one is."""
    if converts and isinstance(left, str) and not isinstance(right, str):
        return _converted(left, right), right
    if converts and isinstance(right, str) and not isinstance(left, str):
        return left, _converted(right, left)
    return left, right


def _converted(text: str, other: Value) -> Value:
    if isinstance(other, bool):
        return text.lower() == "true"
    number = _number(text)
    return text if number is None else number


def _kind(value: Value) -> type[str | bool | float]:
    return str if isinstance(value, str) else bool if isinstance(value, bool) else float


def _equal(left: Term, right: Term, *, converts: bool) -> Term:
    def equal(headers: Headers) -> Value:
        first, second = left(headers), right(headers)
        if first is None or second is None:
            return None
        first, second = _alike(first, second, converts=converts)
        return _kind(first) is _kind(second) and first == second

    return equal


_ORDER: Final[Mapping[str, Callable[[str | float, str | float], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _ordered(compare: Callable[[str | float, str | float], bool], left: Term, right: Term, *, converts: bool) -> Term:
    def ordered(headers: Headers) -> Value:
        first, second = left(headers), right(headers)
        if first is None or second is None:
            return None
        first, second = _alike(first, second, converts=converts)
        if first is None or second is None or _kind(first) is not _kind(second):
            return False
        return compare(first, second)

    return ordered


def _is_null(term: Term, *, negated: bool) -> Term:
    return lambda headers: (term(headers) is None) is not negated


def _not(term: Term) -> Term:
    return lambda headers: None if (value := term(headers)) is None else not value


def _all_of(terms: Sequence[Term]) -> Term:
    def all_of(headers: Headers) -> Value:
        result: Value = True
        for term in terms:
            value = term(headers)
            if value is False:
                return False
            if value is None:
                result = None
        return result

    return all_of


def _any_of(terms: Sequence[Term]) -> Term:
    def any_of(headers: Headers) -> Value:
        result: Value = False
        for term in terms:
            value = term(headers)
            if value is True:
                return True
            if value is None:
                result = None
        return result

    return any_of


def _calculation(first: Term, steps: Sequence[tuple[str, Term]]) -> Term:
    def calculation(headers: Headers) -> Value:
        result = first(headers)
        for sign, term in steps:
            result = _calculated(sign, result, term(headers))
            if result is None:
                return None
        return result

    return calculation


def _calculated(sign: str, left: Value, right: Value) -> Value:
    """One step; None where a value is missing or is no number, or where there is no result."""
    if sign == "+" and (isinstance(left, str) or isinstance(right, str)):
        return None if left is None or right is None else f"{left}{right}"
    if not (_is_number(left) and _is_number(right)):
        return None
    try:
        return _ARITHMETIC[sign](left, right)
    except (ZeroDivisionError, OverflowError, ValueError):
        return None


def _is_number(value: Value) -> TypeIs[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _quotient(left: float, right: float) -> float:
    return left / right


def _remainder(left: int | float, right: int | float) -> int | float:  # noqa: PYI041  # the two differ here
    """As in Java, with the sign of the left side."""
    if isinstance(left, float) or isinstance(right, float):
        return math.fmod(left, right)
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


_ARITHMETIC: Final[Mapping[str, Callable[[float, float], float]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    # ActiveMQ and Artemis divide whole numbers with a fraction too: 7 / 2 = 3.5.
    "/": _quotient,
    "%": _remainder,
}


# --- LIKE -------------------------------------------------------------------------------------------------------------

# A pattern is cut at its %: each piece has a fixed length, a dot for each _, and is found by one search in C.
_Piece = tuple[re.Pattern[str], int]


def _like_pieces(pattern: str, escape: str | None) -> list[_Piece]:
    pieces: list[list[str]] = [[]]
    escaped = False
    for character in pattern:
        if not escaped and character == escape:
            escaped = True
        elif not escaped and character == "%":
            pieces.append([])
        else:
            pieces[-1].append("." if character == "_" and not escaped else re.escape(character))
            escaped = False
    return [(re.compile("".join(piece), re.DOTALL), len(piece)) for piece in pieces]


def _like(term: Term, pieces: Sequence[_Piece]) -> Term:
    def like(headers: Headers) -> Value:
        value = term(headers)
        if value is None:
            return None
        return isinstance(value, str) and _is_like(value, pieces)

    return like


def _is_like(text: str, pieces: Sequence[_Piece]) -> bool:
    (first, position), (last, length) = pieces[0], pieces[-1]
    if len(pieces) == 1:
        return first.fullmatch(text) is not None
    if first.match(text) is None:
        return False
    # Each piece as early as it can be: that leaves the most for those behind it.
    for piece, _ in pieces[1:-1]:
        found = piece.search(text, position)
        if found is None:
            return False
        position = found.end()
    return len(text) - length >= position and last.match(text, len(text) - length) is not None
