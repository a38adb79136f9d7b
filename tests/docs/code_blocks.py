"""The code blocks of README.md and the manual, with the invisible comments that say how to run them.

A comment right above a block says what is special about it:

``<!-- setup: NAME -->``      run it in the set-up of that name; see `setups`
``<!-- output -->``           on a ``text`` block: what the Python block above it prints, exactly
``<!-- not run: REASON -->``  leave it alone, for that reason
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = frozenset({"python", "console", "java", "text", "toml", "xml", "yaml"})
DIRECTIVES = frozenset({"", "setup", "output", "not run"})

_COMMENT = re.compile(r"<!--\s*(?P<name>[a-z ]+?)\s*(?::\s*(?P<value>.*?)\s*)?-->", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block.

    Attributes:
        path: Its file, from the root of the project.
        line: Where its first line of code stands.
        language: What the fence says.
        text: What is between the fences.
        directive: The name in the comment above it, or nothing.
        value: What that comment says behind the colon.
        before: The text of the block above it in the same file, or nothing.
    """

    path: str
    line: int
    language: str
    text: str
    directive: str = ""
    value: str = ""
    before: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


def pages() -> list[Path]:
    """README.md and the pages of the manual, what the build has made left out."""
    manual = (ROOT / "docs").rglob("*.md")
    return [ROOT / "README.md", *sorted(page for page in manual if "_build" not in page.parts)]


def blocks_of(markdown: str, path: str) -> Iterator[Block]:
    """The fenced blocks of one page, but for MyST's directives."""
    # What is inside of paragraphs is of no interest here.
    tokens = MarkdownIt().disable("inline").parse(markdown)
    above: Token | None = None
    before = ""
    for token in tokens:
        if token.type == "fence" and not token.info.startswith("{"):
            name, value = _directive(above)
            block = Block(
                path=path,
                line=(token.map or [0])[0] + 2,
                language=token.info.strip(),
                text=token.content,
                directive=name,
                value=value,
                before=before,
            )
            before = block.text
            yield block
        above = token


def _directive(above: Token | None) -> tuple[str, str]:
    if above is None or above.type != "html_block":
        return "", ""
    found = _COMMENT.fullmatch(above.content.strip())
    return (found["name"], found["value"] or "") if found else ("?", above.content.strip())


def all_blocks() -> list[Block]:
    """Every block of every page."""
    return [
        block for page in pages() for block in blocks_of(page.read_text("utf-8"), page.relative_to(ROOT).as_posix())
    ]
