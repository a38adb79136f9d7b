"""The links of README.md and its like lead somewhere. Those of the manual are Sphinx's business."""

from urllib.parse import urlsplit

import pytest
from markdown_it import MarkdownIt

from tests.docs.code_blocks import ROOT

PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md")


def links_of(markdown: str) -> list[str]:
    inline = [child for token in MarkdownIt().parse(markdown) for child in token.children or []]
    return [str(child.attrs["href"]) for child in inline if child.type == "link_open"]


@pytest.mark.parametrize("page", PAGES)
def test_links_when_relative_then_the_file_is_there(page: str) -> None:
    links = [urlsplit(link) for link in links_of((ROOT / page).read_text("utf-8"))]

    missing = [link.path for link in links if not link.scheme and link.path and not (ROOT / link.path).exists()]

    assert not missing


def test_links_when_gathered_then_found() -> None:
    assert links_of("See [here](there.md) and\n\n- [there](https://example.org)\n") == [
        "there.md",
        "https://example.org",
    ]
