"""A Django project: a view sends orders to the broker, and a worker handles them.

    python examples/django_orders                                         an embedded broker
    python examples/django_orders --url stomp://guest:guest@localhost     your own broker

    curl -X POST localhost:8000/orders -d item=tea

This starts what you would start yourself: `manage.py migrate`, `manage.py stomp_worker` and `manage.py runserver`.
Requires django; `make example NAME=django_orders` installs it.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from trio_stomp.testing import run_broker_in_thread

MANAGE = [sys.executable, str(Path(__file__).with_name("manage.py"))]


def run(url: str, port: int) -> None:
    """Serve until a signal comes, with a database that is deleted afterward."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "STOMP_URL": url, "DATABASE": f"{folder}/orders.sqlite3"}
        subprocess.run([*MANAGE, "migrate", "--run-syncdb", "--verbosity", "0"], env=environment, check=True)
        with (
            subprocess.Popen([*MANAGE, "stomp_worker"], env=environment) as worker,
            subprocess.Popen([*MANAGE, "runserver", "--noreload", str(port)], env=environment) as server,
        ):
            with suppress(KeyboardInterrupt):
                server.wait()
            for process in (server, worker):
                process.send_signal(signal.SIGINT)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="your own broker; default: an embedded one")
    parser.add_argument("--port", type=int, default=8000, help="port of the web server")
    given = parser.parse_args()
    if given.url is not None:
        run(given.url, given.port)
        return
    with run_broker_in_thread() as broker:
        run(broker.url, given.port)


if __name__ == "__main__":
    main()
