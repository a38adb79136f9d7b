"""Receivers in threads of one process, counted together."""

from __future__ import annotations

import pytest

from benchmarks.threads import main


@pytest.mark.slow
def test_threads_when_measured_for_a_moment_then_each_count_has_a_rate(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--counts", "1,2", "--seconds", "0.2"]) == 0

    one, two = [line.split("|") for line in capsys.readouterr().out.splitlines() if line.startswith(("| 1 ", "| 2 "))]
    assert float(one[2].replace(",", "")) > 0
    assert float(one[3]) == 1
    assert float(two[2].replace(",", "")) > 0
