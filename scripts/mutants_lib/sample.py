"""Which mutants are tried: a seeded sample of all, without those known to be equivalent."""

from __future__ import annotations

import itertools
import random
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mutants_lib.mutations import Mutant, compiles, mutants_of

__all__ = ["PACKAGE", "Candidate", "Equivalent", "candidates", "choose", "known_equivalents", "modules_named"]

PACKAGE: Final = "trio_stomp"
_LIST: Final = Path(__file__).with_name("equivalent.toml")


@dataclass(frozen=True, slots=True)
class Equivalent:
    """A mutant that behaves as the original does.

    Attributes:
        module: Its path below the package.
        before: The changed lines, as they are.
        after: What they become.
        reason: Why no test can tell.
    """

    module: str
    before: str
    after: str
    reason: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A mutant and its module.

    Attributes:
        module: The path of the module below the package.
        mutant: The change.
        before: The changed lines, as they are.
        after: What they become.
    """

    module: str
    mutant: Mutant
    before: str
    after: str

    def __str__(self) -> str:
        place = f"{PACKAGE}/{self.module}:{self.mutant.line}"
        return f"{place}: {self.mutant.kind}\n    - {self.before}\n    + {self.after}"


def known_equivalents() -> list[Equivalent]:
    """The list of `equivalent.toml`."""
    entries = tomllib.loads(_LIST.read_text(encoding="utf-8")).get("equivalent", [])
    return [Equivalent(**entry) for entry in entries]


def modules_named(root: Path, names: Sequence[str]) -> list[str]:
    """The modules of packages (`client`) and modules (`session/receipts.py`, `receipts`). No name: all.

    Raises:
        ValueError: A name stands for none.
    """
    package = root / PACKAGE
    every = sorted(path.relative_to(package).as_posix() for path in package.rglob("*.py") if path.stem != "__init__")
    found: list[str] = [] if names else every
    for name in names:
        stem = name.removeprefix(f"{PACKAGE}/").removesuffix(".py")
        inside = [each for each in every if each.startswith(f"{stem}/")]
        matching = inside or [each for each in every if f"/{each.removesuffix('.py')}".endswith(f"/{stem}")]
        if not matching:
            raise ValueError(f"no module or folder of {PACKAGE} is called {name!r}")
        found += [each for each in matching if each not in found]
    return found


def candidates(root: Path, modules: Iterable[str]) -> list[Candidate]:
    """All mutants of some modules, without those that are equivalent.

    Raises:
        ValueError: One that is listed as equivalent is no mutant any more.
    """
    known = {(each.module, each.before, each.after) for each in known_equivalents()}
    found: list[Candidate] = []
    for module in modules:
        source = (root / PACKAGE / module).read_text(encoding="utf-8")
        every = [Candidate(module, mutant, *mutant.lines(source)) for mutant in mutants_of(source)]
        stale = {each for each in known if each[0] == module} - {(module, each.before, each.after) for each in every}
        if stale:
            raise ValueError(f"equivalent.toml lists what is no mutant any more: {sorted(stale)}")
        found += [each for each in every if (each.module, each.before, each.after) not in known]
    return found


def choose(root: Path, found: Sequence[Candidate], count: int, seed: int) -> list[Candidate]:
    """A sample, the same for the same seed and source; in the order in which it is tried."""
    shuffled = random.Random(seed).sample(found, len(found))  # noqa: S311  # a sample, not a secret
    valid = (each for each in shuffled if compiles(each.mutant, (root / PACKAGE / each.module).read_text("utf-8")))
    return list(itertools.islice(valid, count))
