"""That no secret can be seen: neither in what Spark shows of a query nor in what it writes down."""

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from trio_stomp.testing import BrokerOptions, run_broker_in_thread

ROOT = Path(__file__).resolve().parents[2]
# An option that is not secret is shown there, so a secret would be found there too.
SHOWN = {"stream: explain(extended)", "stream: explain(cost)", "stream: queryExecution", "UI: REST/sql", "file: events"}


@pytest.mark.slow
@pytest.mark.spark
def test_secrets_when_spark_shows_plans_pages_and_logs_then_none_is_among_them(tmp_path: Path) -> None:
    # Digits only: Spark also hides an option whose value has a word such as "token" in it.
    password, header, wrong = (str(secrets.randbelow(10**20)).zfill(20) for _ in range(3))
    destination = "/queue/hunt"
    options = {"login": "guest", "password": password, "secretConnectHeaders": json.dumps({"x-session": header})}
    asked: dict[str, object] = {"folder": str(tmp_path), "options": options, "wrong_password": wrong}
    words = [destination, password, header, wrong]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}

    with run_broker_in_thread(options=BrokerOptions(logins={"guest": password})) as broker:
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.secret_hunt"],
            input=json.dumps({**asked, "port": broker.port, "words": words}),
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, list[str]] = json.loads(done.stdout)
    assert set(found.pop(destination)) >= SHOWN
    assert found == {password: [], header: [], wrong: []}
    assert "PlanChangeLogger" in done.stderr
    assert [word for word in words[1:] if word in done.stderr] == []
