"""What the tests of the recipes share: running the programs of the page."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["DOCS", "forget_last_batch", "program", "running"]

DOCS = Path(__file__).resolve().parents[2] / "docs"
RECIPES = "spark-recipes.md"


def program(page: str, heading: str = "") -> str:
    """The first program of a page, or below one of its headings."""
    text = (DOCS / page).read_text("utf-8")
    section = text if not heading else re.split(rf"^## {re.escape(heading)}$", text, flags=re.MULTILINE)[1]
    found = re.search(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    assert found is not None, heading
    return found[1]


@contextmanager
def running(heading: str, spark: SparkSession, connection: dict[str, str], folder: Path) -> Generator[StreamingQuery]:
    """Run the program below a heading, on a broker and in a folder of the test, and stop its query at the end."""
    names: dict[str, object] = {"spark": spark}
    exec(program(RECIPES), names)  # noqa: S102  # our own page
    names.update(broker=connection, folder=str(folder))
    exec(program(RECIPES, heading), names)  # noqa: S102  # our own page
    query = names["query"]
    assert isinstance(query, StreamingQuery)
    try:
        yield query
    finally:
        query.stop()


def forget_last_batch(folder: Path) -> None:
    """As if the driver had died when the last batch was stored, and before that was recorded."""
    last = max((folder / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
