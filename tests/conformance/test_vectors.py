from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conformance import make_own_vectors
from tests.conformance.other_checks import check
from tests.conformance.run_vectors import main
from tests.conformance.vectors import Json, Vector, read_vectors

HERE = Path(__file__).parent
FILES = [HERE / "vectors_open.jsonl", make_own_vectors.TARGET]
VECTORS = [vector for file in FILES for vector in read_vectors(file)]


@pytest.mark.parametrize("vector", [pytest.param(vector, id=vector.id) for vector in VECTORS])
def test_vector_when_run_in_every_way_then_is_as_expected(vector: Vector) -> None:
    assert check(vector) == []


def test_vector_ids_when_all_files_are_read_then_are_unique() -> None:
    ids = [vector.id for vector in VECTORS]
    assert len(set(ids)) == len(ids)


def test_own_vectors_when_their_script_runs_again_then_are_the_same() -> None:
    assert make_own_vectors.TARGET.read_text(encoding="utf-8") == make_own_vectors.own_vectors()


def test_runner_when_all_holds_then_says_so_on_the_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(file) for file in FILES]) == 0

    assert capsys.readouterr().out.splitlines()[-1] == f"{len(VECTORS)} passed, 0 failed"


def _spoiled(vector: Vector) -> str:
    """A vector file of one line that cannot hold."""
    wrong: dict[str, dict[str, Json]] = {
        "decode": {
            "frames": [],
            "error": None,
            "pending": vector.expected.get("pending") is not True,
            "heartbeats": 99,
        },
        "encode": {"any_of_hex": ["00"]},
        "validate": {"valid": vector.expected.get("valid") is not True},
        "negotiate": {"version": "9.9"},
        "heartbeat": {"client_sends_ms": -1, "server_sends_ms": -1},
        "content-type": {"text": "something else"},
        "server-header": {"name": "something else", "version": None, "comments": []},
    }
    return json.dumps({**vector.fields, "expected": wrong[vector.kind]})


@pytest.mark.parametrize("kind", sorted({vector.kind for vector in VECTORS}))
def test_runner_when_an_expectation_is_wrong_then_fails(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vector = next(vector for vector in VECTORS if vector.kind == kind)
    file = tmp_path / "spoiled.jsonl"
    file.write_text(_spoiled(vector) + "\n", encoding="utf-8")

    assert main([str(file)]) == 1

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"FAILED {vector.id} ")
    assert lines[-1] == "0 passed, 1 failed"


def test_runner_when_a_vector_makes_no_sense_then_counts_it_as_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "odd.jsonl"
    lines: list[dict[str, Json]] = [
        {"id": "x", "kind": "sing", "expected": {}},
        {"id": "y", "kind": "decode", "expected": {}},
    ]
    file.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")

    assert main([str(file)]) == 1

    assert capsys.readouterr().out.splitlines()[-1] == "0 passed, 2 failed"


def test_runner_when_called_without_files_then_tells_its_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2

    assert "FILE" in capsys.readouterr().err
