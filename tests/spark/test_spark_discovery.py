"""That Spark finds the format by itself: the wheel has this module under the name that Spark looks for."""

import importlib
import subprocess
import sys

import pytest

from trio_stomp.spark import StompDataSource, spark_discovery


def test_module_when_spark_looks_for_a_source_then_there_is_one() -> None:
    assert importlib.import_module("pyspark_stomp").DefaultSource is StompDataSource
    assert spark_discovery.DefaultSource is StompDataSource
    assert StompDataSource.name() == "stomp"


@pytest.mark.parametrize("module", ["pyarrow", "trio_stomp"])
def test_module_when_what_it_needs_is_missing_then_it_is_imported_all_the_same(module: str) -> None:
    code = f"import sys; sys.modules[{module!r}] = None; import pyspark_stomp; print(pyspark_stomp.__all__)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


@pytest.mark.parametrize("package", ["pyspark", "pyarrow"])
def test_room_when_a_package_of_its_extra_is_missing_then_the_error_names_the_extra(package: str) -> None:
    program = f"import sys; sys.modules[{package!r}] = None; import trio_stomp, trio_stomp.spark"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert f"ModuleNotFoundError: trio_stomp.spark requires {package}" in done.stderr
    assert "pip install 'trio-stomp[spark]'" in done.stderr
