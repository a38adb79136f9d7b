"""That Spark finds the format by itself: the wheel has this module under the name that Spark looks for."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from trio_stomp.spark import StompDataSource, spark_discovery

# As in the source tree: what is installed is a copy, of the day on which the environment was made.
MODULE = Path(__file__).resolve().parents[2] / "trio_stomp" / "spark" / "spark_discovery.py"


def test_module_when_spark_looks_for_a_source_then_there_is_one() -> None:
    assert importlib.import_module("pyspark_stomp").DefaultSource is StompDataSource
    assert spark_discovery.DefaultSource is StompDataSource
    assert StompDataSource.name() == "stomp"


@pytest.mark.parametrize("module", ["pyarrow", "trio"])
def test_module_when_what_it_needs_is_missing_then_the_format_says_what(module: str) -> None:
    program = f"""if True:
        import runpy
        import sys
        sys.modules[{module!r}] = None
        from pyspark import cloudpickle
        source = runpy.run_path({str(MODULE)!r}, run_name="pyspark_stomp")["DefaultSource"]
        source = cloudpickle.loads(cloudpickle.dumps(source))
        assert source.name() == "stomp"
        try:
            source({{}})
        except ImportError as error:
            print(error)
    """

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.startswith(f"{sys.executable} cannot use the format 'stomp': ")
    assert module in done.stdout


def test_module_when_there_is_no_pyspark_then_it_is_imported_all_the_same() -> None:
    program = f"""if True:
        import runpy
        import sys
        sys.modules["pyspark"] = None
        print(runpy.run_path({str(MODULE)!r}, run_name="pyspark_stomp")["__all__"])
    """

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


@pytest.mark.parametrize("package", ["pyspark", "pyarrow"])
def test_room_when_a_package_of_its_extra_is_missing_then_the_error_names_the_extra(package: str) -> None:
    program = f"import sys; sys.modules[{package!r}] = None; from trio_stomp.spark import StompDataSource"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert f"ModuleNotFoundError: trio_stomp.spark requires {package}" in done.stderr
    assert "pip install 'trio-stomp[spark]'" in done.stderr
