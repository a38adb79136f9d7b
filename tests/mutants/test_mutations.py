"""The changes that `make mutants` tries: each is one, compiles, and is found in the source as it stands."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts"))

from mutants_lib.mutations import compiles, mutants_of  # noqa: E402  # found only now
from mutants_lib.sample import candidates, choose, known_equivalents, modules_named  # noqa: E402  # found only now


def changes(source: str) -> list[tuple[str, str]]:
    return [mutant.lines(source) for mutant in mutants_of(source)]


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("x = a < b", "x = a <= b"),
        ("x = a is None", "x = a is not None"),
        ("x = a not in b", "x = a in b"),
        ("x = a and b", "x = a or b"),
        ("x = not a", "x = (a)"),
        ("x = a + b", "x = a - b"),
        ("x = a == 'one two three'", "x = a == 'one two threeXX'"),
        ("x += a", "x -= a"),
        ("x += a", "pass"),
        ("x = 3", "x = 4"),
        ("x = True", "x = False"),
        ("class A(enum.StrEnum): b = 'c'", "class A(enum.StrEnum): b = 'cXX'"),
        ("x = b'a'", "x = b'aXX'"),
        ("call(a)", "pass"),
        ("a.b = c", "pass"),
        ("raise ValueError('words')", "pass"),
        ("if call(a): b", "if not (call(a)): b"),
        ("x = 'é' + (a) < b", "x = 'é' + (a) <= b"),
    ],
)
def test_mutants_when_a_line_can_be_changed_then_that_change_is_among_them(line: str, changed: str) -> None:
    assert (line, changed) in changes(line)


def test_mutants_when_in_a_function_then_what_it_returns_and_its_loops_are_changed_too() -> None:
    source = "def f(a: int = 1) -> int:\n    for b in a:\n        break\n    return b"

    assert {after for _, after in changes(source)} == {"def f(a: int = 2) -> int:", "continue", "return None"}


def test_mutants_when_false_is_returned_then_it_becomes_true_and_not_none() -> None:
    assert changes("def f():\n    return False") == [("return False", "return True")]


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring."""',
        "from a import b",
        "__all__ = ['a']",
        "x: 'int'",
        "if TYPE_CHECKING:\n    x = 1",
        "logger.warning('words %d', 3)",
        "x = f'words {a} more'",
        "msg = 'words'",
        "raise AssertionError(state)",
        "T = TypeVar('T', default=object)",
        "Ts = TypeVarTuple('Ts')",
        "class A(enum.Enum):\n    B = 'word'",
        "REFUSED = 'words (for people), in a table'",
        "@overload\ndef f(a: int = 1) -> int: ...",
    ],
)
def test_mutants_when_nothing_that_runs_can_tell_then_there_are_none(source: str) -> None:
    assert changes(source) == []


def test_mutants_when_made_of_the_package_then_they_compile_and_change_one_place() -> None:
    source = (ROOT / "trio_stomp" / "protocol" / "versions.py").read_text(encoding="utf-8")
    mutants = mutants_of(source)

    assert mutants
    for mutant in mutants:
        assert compiles(mutant, source)
        assert mutant.apply(source) != source


def test_choose_when_the_seed_is_the_same_then_so_is_the_sample() -> None:
    found = candidates(ROOT, modules_named(ROOT, ["protocol"]))
    sample = choose(ROOT, found, 10, 1)

    assert len(set(sample)) == 10
    assert sample == choose(ROOT, found, 10, 1) != choose(ROOT, found, 10, 2)


def test_modules_when_named_then_a_room_or_a_module_and_an_unknown_one_is_refused() -> None:
    assert modules_named(ROOT, ["protocol/versions.py"]) == ["protocol/versions.py"]
    assert modules_named(ROOT, ["versions"]) == ["protocol/versions.py"]
    assert "protocol/decoder.py" in modules_named(ROOT, [])
    assert modules_named(ROOT, ["blocking/client.py"]) == ["blocking/client.py"]
    assert {module.split("/")[0] for module in modules_named(ROOT, ["client"])} == {"client"}
    with pytest.raises(ValueError, match="nowhere"):
        modules_named(ROOT, ["nowhere"])


def test_equivalents_when_looked_up_then_each_is_a_mutant_still_and_has_a_reason() -> None:
    for known in known_equivalents():
        source = (ROOT / "trio_stomp" / known.module).read_text(encoding="utf-8")
        assert (known.before, known.after) in changes(source), f"{known} is no mutant any more: take it out"
        assert known.reason
