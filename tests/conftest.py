"""What every test of the project can rely on, however it was started."""

from __future__ import annotations

import gc
import os
import random
import signal
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

from tests.kit.loops import LOOPS, backend
from tests.kit.watchdog import Watchdog

# A busy machine may take its time over an example: that is no failure, and neither is it for the search of examples.
settings.register_profile(
    "any-machine",
    settings(),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, *settings().suppress_health_check],
)
settings.load_profile("any-machine")


@pytest.fixture(scope="session", autouse=True)
def sigint_as_in_a_terminal() -> Generator[None]:
    """Let SIGINT interrupt, in this process and in those that it starts.

    A shell starts background jobs with SIGINT ignored, and children inherit that: a test that interrupts itself or a
    child would wait for ever.
    """
    inherited = signal.getsignal(signal.SIGINT)
    if inherited is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    if inherited is signal.SIG_IGN:
        signal.signal(signal.SIGINT, inherited)


@pytest.fixture(scope="session", autouse=True)
def java_is_brief_and_leaves_nothing_behind(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """Start every JVM, Spark's included, for a short life, with its temporary files in a folder that goes afterwards.

    The first compiler alone and the simple garbage collector cost less than what the others would save in a test. Java
    does not read TMPDIR, and Spark's own folders stay behind where its process is killed.
    """
    folder = tmp_path_factory.mktemp("java")
    brief = "-XX:-UsePerfData -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    ours = {
        "SPARK_LAUNCHER_OPTS": brief,
        "SPARK_SUBMIT_OPTS": f"{brief} -Djava.io.tmpdir={folder}",
        "SPARK_LOCAL_DIRS": str(folder),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ours.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session", autouse=True)
def what_coverage_measures() -> Generator[None]:
    """Let `make coverage` measure each process that runs tests, and of those that a test starts the forked ones alone.

    See tests/kit/warm_python.py. `make mutants` measures all of them, under the name of the test.

    The results are saved at once: pytest-xdist kills workers that do not leave within seconds.
    """
    with pytest.MonkeyPatch.context() as patch:
        if "TRIO_STOMP_TEST" not in os.environ:
            patch.delenv("COVERAGE_PROCESS_START", raising=False)
        yield
    if "COVERAGE_PROCESS_START" in os.environ:
        from coverage import Coverage  # noqa: PLC0415  # not installed wherever the tests run

        if (measuring := Coverage.current()) is not None:
            measuring.save()


@pytest.fixture(scope="module", autouse=True)
def nothing_to_collect_of_earlier_modules() -> None:
    """Keep the garbage collector from what earlier tests have imported: pyarrow and Spark make it take seconds."""
    gc.collect()
    gc.freeze()


@pytest.fixture(params=LOOPS)
def anyio_backend(request: pytest.FixtureRequest) -> Generator[tuple[str, dict[str, object]]]:
    """The loop of a test that is marked ``anyio``: see tests/kit/loops.py."""
    # What is here before the test is none of its garbage. Without this, the modules that earlier tests have imported
    # make the collection below take up to a second, and half of the time of all tests.
    gc.collect()
    gc.freeze()
    yield backend(request.param)
    # A coroutine that was never awaited complains when it is collected, as does a task whose error was never looked
    # at: let that be during this test.
    gc.collect()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
    """Give an async fixture back as it was: the plugin of anyio 4.1 leaves it to anyio for all later tests."""
    before = fixturedef.func, fixturedef.argnames
    try:
        return (yield)
    finally:
        # Both are final for everybody but such a plugin.
        vars(fixturedef).update(zip(("func", "argnames"), before, strict=True))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run the tests in random order")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "loops(*names): what tests/kit/loops.py calls on_loops()")
    if not config.getini("faulthandler_timeout"):
        config.pluginmanager.register(Watchdog(limit=300, step=60))


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run an async test on the loops that it names, or else its module."""
    loops = metafunc.definition.get_closest_marker("loops")
    if loops is not None and "anyio_backend" in metafunc.fixturenames:
        metafunc.definition.add_marker(pytest.mark.parametrize("anyio_backend", loops.args, indirect=True))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from the million objects of the test functions, which last as long as the session.

    It took half of the time that pytest needs to collect them. What a test does is collected as always.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    for item in items:
        if isinstance(item, pytest.Function) and "spark" in item.fixturenames:
            # Before pytest's ``-m`` looks at the markers.
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.slow)
    yield
    for item in items:
        if item.get_closest_marker("anyio") is not None:
            # pytest-trio has marked every async test as its own by now.
            item.own_markers = [marker for marker in item.own_markers if marker.name != "trio"]
    seed: int | None = config.getoption("shuffle")
    if seed is not None:
        random.Random(seed).shuffle(items)  # noqa: S311  # not for cryptography
