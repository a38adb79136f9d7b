"""One Spark session for all of these tests: starting it takes longer than most of them."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Generator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.receiving import opened
from trio_stomp.spark.spool_store import SpoolStore
from trio_stomp.testing import BrokerOptions, ThreadedBroker, run_broker_in_thread

ROOT = Path(__file__).resolve().parents[2]
# The versions that docs/spark-recipes.md names; scripts/pyspark_versions sets this for PySpark 4.1, which all support.
PACKAGES = "TRIO_STOMP_SPARK_PACKAGES"
# Ivy would first look into Maven's own cache, and give up where that has the description of a package without the
# package: other programs that use Maven leave it so.
IVY_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" root="https://repo1.maven.org/maven2/"/></resolvers>
</ivysettings>
"""


def package_settings(warehouse: Path) -> dict[str, str]:
    """The settings of the recipes that need packages from Maven Central."""
    ivy_settings = warehouse / "ivysettings.xml"
    ivy_settings.write_text(IVY_SETTINGS, "utf-8")
    packages = (
        "io.delta:delta-spark_4.1_2.13:4.4.0",
        "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
        "org.apache.spark:spark-avro_2.13:4.1.1",
    )
    return {
        "spark.jars.packages": ",".join(packages),
        "spark.jars.ivySettings": str(ivy_settings),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.local": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.local.type": "hadoop",
        "spark.sql.catalog.local.warehouse": str(warehouse),
    }


def require_java() -> None:
    """Skip a test where Java is missing; in CI, fail it."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        reason = "Spark needs Java 17 or newer; install it with: apt-get install openjdk-17-jre-headless"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Generator[SparkSession]:
    """A session that finds the format by itself, and tries each task up to four times.

    It has slots for four receivers and a query, however many cores there are.
    """
    require_java()
    # Workers run this Python, and import what the tests give them.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    builder = SparkSession.Builder().master("local[5,4]").appName("tests")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }
    if PACKAGES in os.environ:
        settings |= package_settings(tmp_path_factory.mktemp("iceberg"))
    for name, value in settings.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        # PySpark warns of a version of pandas that it may not know, and uses it for nothing here.
        warnings.simplefilter("ignore")
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def threaded_broker() -> Generator[ThreadedBroker]:
    """An embedded broker, in a thread of its own, that knows one user."""
    with run_broker_in_thread(options=BrokerOptions(logins={"guest": "guest"})) as broker:
        yield broker


@pytest.fixture
def connection(threaded_broker: ThreadedBroker) -> dict[str, str]:
    """The options that reach it."""
    return {"brokers": f"127.0.0.1:{threaded_broker.port}", "login": "guest", "password": "guest"}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SpoolStore:
    """A spool in a local folder, which does not wait for the disk: a power cut is not among what these tests show."""

    def flush(_number: int) -> None:
        """Do nothing."""

    monkeypatch.setattr(os, "fsync", flush)
    return opened(tmp_path)
