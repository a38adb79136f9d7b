"""The table of a long run: how often each number is in it, read from the files while Spark writes more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from pyarrow import parquet

__all__ = ["SoakTable"]

_COMPACT: Final = ".compact"
# A byte for each number; more copies than this are counted as this many.
_MOST: Final = 255


def _file_of(line: str) -> str:
    match json.loads(line):
        case {"path": str(path)}:
            return Path(unquote(urlsplit(path).path)).name
        case _:
            raise AssertionError(line)


class SoakTable:
    """The numbers in the files that Spark has noted as written. Memory: one byte for each number, and the file names.

    Args:
        folder: The folder of Spark's file sink.
        total: The numbers are below this.

    Attributes:
        different: How many different numbers it has.
        doubled: How many rows are copies of an earlier one.
        strange: Rows that were not sent.
    """

    def __init__(self, folder: Path, total: int) -> None:
        self._folder = folder
        self._counts = bytearray(total)
        self._known: set[str] = set()
        self._batch = -1
        self.different = 0
        self.doubled = 0
        self.strange = 0

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return self.different + self.doubled + self.strange

    def read_new(self) -> None:
        """Read the files that have been added since the last call."""
        for number, note in sorted(self._new_notes()):
            for line in note.read_text("utf-8").splitlines()[1:]:
                name = _file_of(line)
                if name not in self._known:
                    self._known.add(name)
                    self._count(self._folder / name)
            self._batch = number

    def _new_notes(self) -> list[tuple[int, Path]]:
        """Spark's notes, one for each batch. Every tenth repeats all before it, and replaces the others in time."""
        found = [
            (int(each.name.removesuffix(_COMPACT)), each)
            for each in (self._folder / "_spark_metadata").glob("*")
            if each.name.removesuffix(_COMPACT).isdigit()
        ]
        return [(number, note) for number, note in found if number > self._batch]

    def _count(self, file: Path) -> None:
        counts = self._counts
        table = parquet.read_table(file, columns=["n"])  # pyright: ignore[reportUnknownMemberType]  # the stubs do not say
        for row in table["n"].to_pylist():
            if not isinstance(row, int) or not 0 <= row < len(counts):
                self.strange += 1
                continue
            if counts[row]:
                self.doubled += 1
            else:
                self.different += 1
            counts[row] = min(_MOST, counts[row] + 1)

    def missing(self, sent: int) -> list[int]:
        """The numbers below `sent` that are not in the table."""
        return [number for number, count in enumerate(self._counts[:sent]) if not count]

    def repeated(self) -> list[int]:
        """The numbers that are in the table more than once."""
        return [number for number, count in enumerate(self._counts) if count > 1]
