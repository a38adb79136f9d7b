"""The runner with a job that is a few lines of Python: what matters is how it starts, ends and dies."""

from dataclasses import replace
from pathlib import Path

import pytest
import trio
from pipeline import job_runner
from pipeline.job_runner import JobFailed, JobReport, JobRunner
from pipeline.settings import JobSettings

from tests.examples.job_settings import SETTINGS

DONE = 'print(\'{"stage": "done", "departures": 5, "hours": 3}\', flush=True)'
WAITS = 'import time\nprint(\'{"stage": "started"}\', flush=True)\ntime.sleep(60)'


def settings(folder: Path) -> JobSettings:
    return replace(SETTINGS, folder=folder)


def runner_of(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch, may_fail: int = 0) -> JobRunner:
    job = folder / "job.py"
    job.write_text(code, "utf-8")
    monkeypatch.setattr(job_runner, "_JOB", job)
    return JobRunner(settings=settings(folder), may_fail=may_fail)


async def wait_started(runner: JobRunner) -> None:
    with trio.fail_after(60):
        while runner.report.stage != "started":  # noqa: ASYNC110  # it hears of it from another process
            await trio.sleep(0.02)


def test_settings_when_sent_to_the_job_then_they_arrive_without_the_passcode(tmp_path: Path) -> None:
    made = settings(tmp_path)

    assert "s3cret" not in made.to_json()
    assert "s3cret" not in repr(made)
    assert JobSettings.of_json(made.to_json(), "s3cret") == made
    with pytest.raises(ValueError, match="expected the settings"):
        JobSettings.of_json("{}", "")


def test_report_when_lines_are_no_reports_then_left_alone() -> None:
    report = JobReport()
    for line in (b"Using Spark's default log4j profile", b"[1]", b'{"stage": 1}', b"{}"):
        report.hear(line)

    assert report == JobReport()
    report.hear(b'{"stage": "failed", "reason": "the broker refused"}')
    assert (report.stage, report.reason) == ("failed", "the broker refused")
    report.hear(b'{"stage": "flowing", "departures": 7, "hours": 2}')
    assert (report.stage, report.departures, report.hours) == ("flowing", 7, 2)


async def test_job_when_it_is_done_then_the_runner_is_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = runner_of(DONE, tmp_path, monkeypatch)

    await runner.run()

    assert (runner.starts, runner.report.departures, runner.report.hours) == (1, 5, 3)
    assert not runner.kill()


async def test_job_when_it_fails_too_often_then_its_reason_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = 'print(\'{"stage": "failed", "reason": "no such broker"}\', flush=True)'
    runner = runner_of(code, tmp_path, monkeypatch, may_fail=1)

    with pytest.raises(JobFailed, match="no such broker"):
        await runner.run()

    assert runner.starts == 2


async def test_job_when_killed_then_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "mark"
    again = f"import pathlib\nif pathlib.Path({str(mark)!r}).exists():\n    {DONE}\nelse:\n"
    runner = runner_of(again + WAITS.replace("\n", "\n    ").join(["    ", ""]), tmp_path, monkeypatch)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(runner.run)
        await wait_started(runner)
        mark.touch()
        assert runner.kill()

    assert (runner.starts, runner.kills, runner.report.stage) == (2, 1, "done")


async def test_runner_when_cancelled_then_the_job_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = runner_of(WAITS, tmp_path, monkeypatch)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(runner.run)
        await wait_started(runner)
        nursery.cancel_scope.cancel()

    assert not runner.kill()
