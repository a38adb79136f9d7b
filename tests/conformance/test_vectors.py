from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.other_checks import check
from tests.conformance.run_vectors import main
from tests.conformance.vectors import Vector, read_vectors

HERE = Path(__file__).parent
FILES = [HERE / "vectors_open.jsonl", HERE / "vectors_own.jsonl"]
VECTORS = [vector for file in FILES for vector in read_vectors(file)]


@pytest.mark.parametrize("vector", [pytest.param(vector, id=vector.id) for vector in VECTORS])
def test_vector_when_run_in_every_way_then_is_as_expected(vector: Vector) -> None:
    assert check(vector) == []


def test_vector_ids_when_all_files_are_read_then_are_unique() -> None:
    ids = [vector.id for vector in VECTORS]
    assert len(set(ids)) == len(ids)
