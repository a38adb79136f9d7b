"""The benchmarks run, from end to end; how fast anything is, is not looked at."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

import pytest

from benchmarks.__main__ import PARTS, main
from benchmarks.contenders import ROOT
from benchmarks.results import OURS, RAW

# Those of real brokers belong to `make bench`: here, other tests may be using them.
WITHOUT_BROKERS = [part for part in PARTS if part != "spark" and "brokers" not in part]
FIGURES = (
    "| decode, 64 KiB: its cost in copies of memory | one copy |",
    "| receive, auto: its cost in bare loops | raw trio loop |",
    "| receive and ack, client-individual |",
    "| send, each receipt awaited |",
    "| confirmed with a window: its cost in sends |",
    "| round trip, p50, in bare echoes |",
    "### Synchronous code, one connection: messages a second",
    "### asyncio code, one connection: messages a second",
    "| 10 connections |",
    "| an idle connection: memory |",
    "| 100 subscriptions |",
    "### Subscriptions at the embedded broker, in a process of its own [s]",
    "| a body of 256 MiB, while it arrives: at most |",
    "| a body of 256 MiB, into a file: at most |",
    "| a body of 256 MiB, sent from a file: at most |",
    "| import of the client, after asyncio |",
    "| from the loss to the SUBSCRIBE on the next connection |",
    "### Round trip at 1 000 messages a second, another connection being flooded [µs]",
    "| a full collection |",
    "| growth, decode: frames in one chunk |",
)
FIGURES_OF_SPARK = (
    "| source, two receivers |",
    "| sink, writeMode=transaction |",
    "| spool, read |",
    "### Spark, from SEND to foreachBatch at the default trigger",
)
without_java = pytest.mark.skipif(shutil.which("java") is None and "JAVA_HOME" not in os.environ, reason="no Java")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parts", "figures"),
    [
        pytest.param(WITHOUT_BROKERS, FIGURES, id="client"),
        pytest.param(["spark"], FIGURES_OF_SPARK, id="spark", marks=without_java),
    ],
)
def test_benchmarks_when_run_for_a_moment_then_every_part_has_its_figures(
    parts: Sequence[str], figures: Sequence[str]
) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks", "--quick"),
            *("--only", ",".join(parts)),
            # Whether others are installed here must not matter.
            *("--contenders", f"{OURS},{RAW}"),
        ],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
    )

    assert done.returncode == 0, done.stderr[-2000:]
    for figure in figures:
        assert figure in done.stdout


def test_benchmarks_when_a_part_is_unknown_then_the_known_ones_are_named() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--only", "codecs"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == 2
    assert "there is no part 'codecs'; there are codec, receive," in done.stderr


def test_benchmarks_when_the_page_is_to_be_written_and_a_broker_is_missing_then_nothing_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("benchmarks.groups.brokers.not_running", lambda: ["artemis"])

    with pytest.raises(SystemExit):
        main([])

    assert "do not run: artemis. Start them with `scripts/brokers start artemis`" in capsys.readouterr().err
