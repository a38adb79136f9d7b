"""What is promised to users does not change by accident."""

import subprocess
import sys

from tests.architecture.source_tree import ROOT


def test_public_surface_when_compared_with_the_snapshot_then_nothing_has_changed() -> None:
    shown = subprocess.run(
        [sys.executable, "scripts/public_surface.py"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    written = (ROOT / "tests" / "architecture" / "public_surface.txt").read_text(encoding="utf-8")

    assert shown == written, "the public API has changed: see docs/api-stability.md; scripts/public_surface.py --write"
