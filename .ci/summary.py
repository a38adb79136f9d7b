"""Say again what failed, add up the results that pytest left behind and print them as the last line.

    python3 .ci/summary.py RESULTS_DIRECTORY [FAILED_STAGE...]

Of a stage that failed, the lines in which pytest names a test are said, or its last lines where there are none. A stage
that failed without a failing test of its own, such as a linter, counts as one failure. Exits with 1 where anything
failed, and where no test ran at all.
"""

import sys
from pathlib import Path
from xml.etree import ElementTree as ET

LAST_LINES = 15


def what_failed(output: Path) -> list[str]:
    """The lines of a stage's output that say why it failed."""
    lines = output.read_text(errors="replace").splitlines() if output.exists() else []
    return [each for each in lines if each.startswith(("FAILED ", "ERROR "))] or lines[-LAST_LINES:]


def main(directory: Path, failed_stages: list[str]) -> int:
    """Print the totals; return the exit status."""
    passed = failed = skipped = 0
    explained: set[str] = set()
    for path in sorted(directory.glob("*.xml")):
        for suite in ET.parse(path).iter("testsuite"):  # noqa: S314 - pytest wrote it a moment ago
            count = {key: int(suite.get(key, "0")) for key in ("tests", "failures", "errors", "skipped")}
            bad = count["failures"] + count["errors"]
            passed += count["tests"] - bad - count["skipped"]
            failed += bad
            skipped += count["skipped"]
            if bad:
                explained.add(path.stem)
    for stage in failed_stages:
        print(f"==== {stage} failed:", *what_failed(directory / f"{stage}.out"), "", sep="\n")
    others = [stage for stage in failed_stages if stage not in explained]
    if others:
        print(f"Stages that failed: {', '.join(others)}")
    failed += len(others)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
