"""Metadata that depends on where the project lives, for hatchling: its URLs, and a README whose links work on an index.

The links of README.md lead to files of this repository. An index shows the README alone, so there they lead to the same
files at the tag of the release.
"""

from __future__ import annotations

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

# A link or an image of Markdown whose target is neither a URL nor a heading of the same page.
_RELATIVE = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?![a-z]+:|#)(?P<path>[^)\s]+)\)")


class CustomMetadataHook(MetadataHookInterface):
    """Sets `urls` and `readme`."""

    def update(self, metadata: dict[str, object]) -> None:
        """Add to the metadata of pyproject.toml."""
        # hatchling does not say what is in it.
        repository = str(self.config["repository"])  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        tag = f"v{metadata['version']}"
        readme = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["urls"] = urls(repository, tag)
        metadata["readme"] = {"content-type": "text/markdown", "text": with_absolute_links(readme, repository, tag)}


def urls(repository: str, tag: str) -> dict[str, str]:
    """The URLs that an index lists beside the package."""
    return {
        "Documentation": f"{repository}/blob/{tag}/docs/index.md",
        "Source": repository,
        "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }


def with_absolute_links(markdown: str, repository: str, tag: str) -> str:
    """The text with its relative links and images leading to the repository.

    Args:
        markdown: The text.
        repository: The URL of the repository.
        tag: The tag of the release.
    """

    def absolute(found: re.Match[str]) -> str:
        view = "raw" if found["image"] else "blob"
        return f"{found['image']}[{found['text']}]({repository}/{view}/{tag}/{found['path']})"

    return _RELATIVE.sub(absolute, markdown)
