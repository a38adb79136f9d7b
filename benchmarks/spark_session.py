"""A session of Spark for measurements."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping

from pyspark.sql import SparkSession

from trio_stomp.spark import StompDataSource

__all__ = ["open_session"]


def open_session(folder: str, master: str, settings: Mapping[str, str]) -> SparkSession:
    """Open a session with the format ``stomp``.

    Args:
        folder: For what Spark writes.
        master: Where it runs.
        settings: More settings.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.Builder().master(master).appName("benchmark")
    given = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        **settings,
    }
    for name, value in given.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        # PySpark warns of a version of pandas that it may not know, and uses it for nothing here.
        warnings.simplefilter("ignore")
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    session.dataSource.register(StompDataSource)
    return session
