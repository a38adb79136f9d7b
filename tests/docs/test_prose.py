"""The documentation and the error messages are plain English: they avoid phrases that read like a translation."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.docs.code_blocks import ROOT, blocks_of, pages
from tests.docs.setups import COMPLETE, SETUPS

# Regular expressions, with what to write instead. Case does not matter.
PHRASES: Mapping[str, str] = {
    r"who(ever|m)\b": "the reader or the thing as subject",
    r"\bnobody\b": "no + noun",
    r"\bsomebody\b": "a user, a task, a consumer",
    r"\banybody\b": "everyone, a client",
    r"\bso (many|much)\b": "the number",
    r"\bbecomes? of\b": "what happens to",
    r"\bstands?\b(?!-)": "is, is connected, is active",
    r"\bbears?\b": "has, carries",
    r"(?<!there )\bis (?-i:none)\b": "is not a ...",
    r"\bknows\b": "recognizes, supports, has",
    r"\bis meant\b": "means",
    r"\bcannot be meant\b": "is invalid",
    r"\bhas to be said\b": "set ...",
    r"\bsa(y|id) so\b": "the exact error or option",
    r"\btells? of\b": "reports, describes",
    r"\bfor ever\b": "forever",
    r"\bon (its|their) way\b": "unconfirmed, in transit",
    r"\b(comes?|came) again\b": "is redelivered",
    r"\b(is|are) there again\b": "is back",
    r"\bput aside\b": "dead-letter",
    r"\bbrought back\b|\bbrings? back\b": "replay",
    r"\bends? well\b": "ends normally, succeeds",
    r"\bgoes (its|his) way\b": "propagates",
    r"\bout of the one\b": "the name of the queue",
    r"\bthe like\b": "and similar",
    r"\bdo(es)? without\b": "requires",
    r"\banew\b": "again",
    r"\bbut for\b": "except for",
    r"\b(without|not) a word\b": "silently, without notice",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\bin (earnest|truth)\b": "in production",
    r"\boctets?\b": "bytes",
    r"\b(behaviour|cancelled|colour|neighbour|honour|afterwards)\b": "American spelling",
}
# The conformance matrix quotes the specification.
EXEMPT = {"docs/conformance.md"}
GENERATED = re.compile(r"<!-- (?:flood: )?begin.*?<!-- (?:flood: )?end.*?-->", re.DOTALL)
# Fenced blocks, code spans and link targets are not prose.
CODE = re.compile(r"^```.*?^```$|`[^`]*`|\]\([^)]*\)|\{[a-z]+\}", re.DOTALL | re.MULTILINE)
# What the specification and brokers say, in their words.
QUOTATION = re.compile(r'"[^"]*"|^STOMP 1\.\d, .*', re.MULTILINE)
# The tables of options repeat the command-line help.
OPTIONS = re.compile(r"^\| `-.*$", re.MULTILINE)

AT_THE_ROOT = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
# A code host shows these as plain Markdown.
SHOWN_ON_CODE_HOSTS = [
    *(ROOT / name for name in AT_THE_ROOT),
    *sorted((ROOT / "examples").rglob("*.md")),
]
PROSE = [*dict.fromkeys([*SHOWN_ON_CODE_HOSTS, *pages()])]
# The names in a docstring's list of attributes.
ATTRIBUTE = re.compile(r"^ +\w+: ", re.MULTILINE)
# Sphinx's roles and directives, MyST's fences with directives, and definition lists.
PRINTED_RAW = re.compile(r"\{[a-z:]+\}`|^:::|^```\{|^: |^\.\. [a-z]+::|^\(\S+\)=$", re.MULTILINE)


def found_in(text: str, phrases: Mapping[str, str]) -> list[str]:
    """What a text has of the phrases, with what to write instead."""
    return [
        f"{match[0]!r} (better: {better}) in: {text[max(0, match.start() - 40) : match.end() + 20]!r}"
        for phrase, better in phrases.items()
        for match in re.finditer(phrase, text, re.IGNORECASE)
    ]


def prose_of(markdown: str) -> str:
    return CODE.sub("", OPTIONS.sub("", GENERATED.sub("", markdown)))


def texts_of_example(source: str) -> Iterator[str]:
    """The docstrings of a program, and its comments."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ATTRIBUTE.sub("", ast.get_docstring(node) or "")
    yield from re.findall(r"(?:^|  )# (.*)$", source, re.MULTILINE)


def messages_of(source: str) -> Iterator[str]:
    """The texts of exceptions that a module raises, and the help of its options."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise) and node.exc is not None:
            yield from _texts(node.exc)
        elif isinstance(node, ast.keyword) and node.arg in {"help", "short_help", "epilog"}:
            yield from _texts(node.value)


def _texts(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PROSE, ids=name_of)
def test_page_when_read_then_it_avoids_the_phrases(page: Path) -> None:
    text = "" if name_of(page) in EXEMPT else prose_of(page.read_text("utf-8"))

    assert found_in(text, PHRASES) == []


@pytest.mark.parametrize("example", sorted((ROOT / "examples").rglob("*.py")), ids=name_of)
def test_example_when_read_then_it_avoids_the_phrases(example: Path) -> None:
    found = [each for text in texts_of_example(example.read_text("utf-8")) for each in found_in(text, PHRASES)]

    assert found == []


@pytest.mark.parametrize("module", sorted((ROOT / "trio_stomp").rglob("*.py")), ids=name_of)
def test_module_when_read_then_its_messages_docstrings_and_comments_avoid_the_phrases(module: Path) -> None:
    source = module.read_text("utf-8")
    texts = [QUOTATION.sub("", CODE.sub("", text)) for text in texts_of_example(source)]

    assert [each for text in (*messages_of(source), *texts) for each in found_in(text, PHRASES)] == []


@pytest.mark.parametrize("page", SHOWN_ON_CODE_HOSTS, ids=name_of)
def test_page_when_a_code_host_shows_it_then_nothing_is_printed_raw(page: Path) -> None:
    assert PRINTED_RAW.findall(page.read_text("utf-8")) == []


@pytest.mark.parametrize(
    "guide", sorted(page for page in (ROOT / "docs" / "how-to").glob("*.md") if page.stem != "index"), ids=name_of
)
def test_guide_when_opened_then_it_begins_with_something_to_copy(guide: Path) -> None:
    text = guide.read_text("utf-8")
    first = next(blocks_of(text, name_of(guide)))

    assert first.text in text.partition("\n## ")[0]
    assert first.language == "console" or SETUPS.get(first.value, COMPLETE).program.startswith(COMPLETE.program), (
        "the first block is a fragment"
    )


def test_comparison_when_on_two_pages_then_it_is_the_same() -> None:
    first, second = (
        [line for line in (ROOT / page).read_text("utf-8").splitlines() if line.startswith("| ")]
        for page in ("README.md", "docs/comparison.md")
    )

    assert first
    assert first == second


def test_phrases_when_a_text_has_one_then_found() -> None:
    assert found_in("Whoever waits is woken.", PHRASES)
    assert found_in("It has no `octets`, and no [link](whoever.md).", PHRASES)
    assert not found_in(prose_of("It has no `octets`, and no [link](whoever.md)."), PHRASES)


def test_messages_when_gathered_then_exceptions_and_help_are_there() -> None:
    source = 'def f(x):\n    """No."""\n    raise ValueError(f"one {x} two")\n\n\noption("--a", help="three")\n'

    assert list(messages_of(source)) == ["one ", " two", "three"]


@pytest.mark.parametrize(
    "raw", ["{class}`~a.B`", "{py:class}`a`", "term\n: definition\n", ":::{note}\n", "```{toctree}"]
)
def test_markup_when_a_code_host_would_print_it_raw_then_found(raw: str) -> None:
    assert PRINTED_RAW.search(raw)
