"""The notebook: its cells run in order in one namespace, in a process of their own, without Jupyter."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.docs.code_blocks import ROOT

NOTEBOOK = ROOT / "examples" / "spark_tour.ipynb"
DEADLINE = 300.0
# Passing the name of a file lets errors show the line.
PROGRAM = """
import json, pathlib, sys
cells = json.loads(pathlib.Path(sys.argv[1]).read_text("utf-8"))["cells"]
space = {"__name__": "__main__"}
for cell in cells:
    if cell["cell_type"] == "code":
        exec(compile("".join(cell["source"]), cell["id"], "exec"), space)
print(json.dumps([space["found"].asDict(), space["received"], space["large_ids"]]))
"""


def test_notebook_when_looked_at_then_it_has_no_output_of_an_earlier_run() -> None:
    notebook = json.loads(NOTEBOOK.read_text("utf-8"))

    assert notebook["nbformat"] == 4
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert cells
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)


@pytest.mark.spark
@pytest.mark.slow
def test_notebook_when_run_then_its_orders_arrive() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, NOTEBOOK], capture_output=True, text=True, timeout=DEADLINE, check=False
    )

    assert done.returncode == 0, done.stderr
    found, received, large_ids = json.loads(done.stdout.splitlines()[-1])
    assert found == {"orders": 100, "amount": 50_500}
    assert received == [100]
    assert large_ids == list(range(91, 101))
