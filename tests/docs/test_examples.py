"""The small examples run as they stand, with the embedded broker."""

import subprocess
import sys

import pytest

from tests.docs.code_blocks import ROOT

# Each is done in a second; this is for a machine that has much else to do.
DEADLINE = 120.0


@pytest.mark.parametrize(
    ("example", "lines"),
    [
        ("quickstart.py", ["handled {'order': 1}", "orders left: 0 - invoices: 1"]),
        ("request_reply.py", [f"twice {number} is {2 * number}" for number in range(5)]),
    ],
)
def test_example_when_run_then_it_prints_what_it_should(example: str, lines: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", ROOT / "examples" / example],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(lines)


def test_every_example_when_the_manual_lists_them_then_it_is_there_by_its_command() -> None:
    page = (ROOT / "docs" / "examples.md").read_text("utf-8")
    # make starts these, and Spark the job.
    started_otherwise = {
        "flights_demo": "make demo",
        "flights_pipeline": "make pipeline",
        "flights_job": "make pipeline",
    }
    folder = ROOT / "examples"
    scripts = sorted(
        [path.stem for path in folder.glob("*.py")] + [path.parent.name for path in folder.glob("*/__main__.py")]
    )

    missing = [
        name
        for name in scripts
        if f"`python examples/{name}.py`" not in page
        and f"`make example NAME={name}`" not in page
        and f"`{started_otherwise.get(name)}`" not in page
    ]

    assert scripts
    assert not missing


def test_tracing_example_when_run_then_one_trace_leads_through_both_services() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", ROOT / "examples" / "tracing.py"],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    lines = [line[:36].rstrip() for line in done.stdout.splitlines()]
    # Which of two things that happen side by side comes first is chance.
    assert lines[:4] == [
        "place order",
        "  request /queue/orders",
        "    process /queue/orders",
        "      send /queue/invoices",
    ]
    assert sorted(lines[4:]) == sorted(
        [
            "        process /queue/invoices",
            "          write invoice",
            "        ack /queue/invoices",
            "      send",
            "    ack /queue/orders",
        ]
    )
