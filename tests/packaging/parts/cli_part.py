"""What the extra `cli` brings: the command, which sends and prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from trio_stomp.testing import run_broker_in_thread


def main() -> None:
    command = Path(sys.executable).with_name("trio-stomp")
    with run_broker_in_thread() as broker:
        link = ["--url", broker.url]
        subprocess.run([command, "send", *link, "/queue/a", "from a shell"], check=True, capture_output=True)
        printed = subprocess.run(
            [command, "subscribe", *link, "--count", "1", "/queue/a"], check=True, capture_output=True, text=True
        )
    print(printed.stdout)


main()
