"""Every code block of README.md and the manual does what the page says."""

import ast
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from xml.etree import ElementTree as ET

import click
import pytest
import trio
import trustme
import yaml
from anyio.from_thread import start_blocking_portal

from tests.docs.code_blocks import DIRECTIVES, LANGUAGES, ROOT, Block, all_blocks, blocks_of
from tests.docs.setups import COMPLETE, SETUPS, Setup
from tests.kit.certificates import server_context, write_client_files
from tests.kit.needed import needs
from tests.kit.tunneling import Tunnels, open_socks_proxy
from tests.kit.warm_python import WarmPython
from trio_stomp.cli.command_line import command_line
from trio_stomp.testing import Broker, ThreadedBroker, run_broker_in_thread

# A block is done in well under a second; this is for a machine that has much else to do.
DEADLINE = 120.0
IDLE_AFTER = 0.2
TOOL = "trio-stomp "
REASON_WORDS = 4
# What a console block may install.
INSTALLED = {
    "trio-stomp",
    ".",
    ".[cli]",
    ".[otel]",
    ".[spark]",
    ".[spark,cli]",
    ".[websocket]",
    ".[proxy]",
    "opentelemetry-exporter-prometheus",
    "opentelemetry-sdk",
    "pyspark[connect]",
    "pytest",
    "pytest-asyncio",
    "pytest-trio",
    "trio-stomp[cli]",
    "fastapi",
    "uvicorn",
}

BLOCKS = all_blocks()
PYTHON_BLOCKS = [block for block in BLOCKS if block.language == "python" and block.directive != "not run"]
CONSOLE_BLOCKS = [block for block in BLOCKS if block.language == "console"]


def setup_of(block: Block) -> Setup:
    return SETUPS[block.value] if block.directive == "setup" else COMPLETE


def expected_output(block: Block) -> str | None:
    for other in BLOCKS:
        if other.directive == "output" and other.path == block.path and other.before == block.text:
            return other.text
    return None


@contextmanager
def broker_for(setup: Setup, folder: Path) -> Generator[ThreadedBroker]:
    """A broker as the set-up wants it; the files that a program needs for TLS are put into its folder."""
    context = None
    if setup.tls:
        authority = trustme.CA()
        write_client_files(authority, folder)
        context = server_context(authority, demands=authority)
    path = folder / "broker.sock" if setup.unix_socket else None
    with run_broker_in_thread(
        tls=context, websocket=setup.websocket, unix_socket=path, options=setup.options
    ) as broker:
        for number in range(1, setup.orders + 1):
            broker.call(partial(publish, order=f'{{"order": {number}}}'))
        broker.call(setup.prepare)
        yield broker


@contextmanager
def places_for(setup: Setup, broker: ThreadedBroker, folder: Path) -> Generator[dict[str, str]]:
    """Where the places that a block names are in truth."""
    if setup.unix_socket:
        yield {"/run/broker.sock": str(folder / "broker.sock")}
        return
    places = {
        "localhost:61613": f"127.0.0.1:{broker.port}",
        "localhost:61614": f"localhost:{broker.port}",
        "localhost:15674": f"127.0.0.1:{broker.port}",
        '("localhost", 61613)': f'("127.0.0.1", {broker.port})',
        # Any free port, as several tests run at a time.
        "serve_tcp(answer, 8080)": "serve_tcp(answer, 0)",
    }
    if not setup.proxy:
        yield places
        return
    tunnels = Tunnels(login=("ann", "secret"), names={"broker.internal": "127.0.0.1"})
    with (
        start_blocking_portal(backend="trio") as portal,
        portal.wrap_async_context_manager(open_socks_proxy(tunnels)),
    ):
        proxy = tunnels.url.removeprefix("socks5://")
        yield {**places, "localhost:1080": proxy, "broker.internal:61613": f"broker.internal:{broker.port}"}
    assert tunnels.asked


def publish(broker: Broker, *, order: str) -> None:
    broker.publish("/queue/orders", order, [("content-type", "application/json")])


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a program ended; without a status where it had not done its work at the deadline."""

    status: int | None
    output: str
    errors: str


class Pythons:
    """The processes from which those of the programs are forked, one for each set of modules that programs import.

    Each has imported no more than its programs do themselves: one that forgets an import fails as it would anywhere.
    """

    def __init__(self) -> None:
        self._started: dict[tuple[str, ...], WarmPython] = {}
        self._stack = ExitStack()

    def for_program(self, source: str, setup: Setup) -> WarmPython:
        # Pytest is to import plugins itself, as it rewrites their assertions.
        imports = ("pytest", "trio") if setup.pytest else imports_of_ours(source)
        if imports not in self._started:
            options = () if setup.pytest else ("-W", "error")
            python = WarmPython(imports=imports, options=options, environment=environment())
            self._started[imports] = self._stack.enter_context(python)
        return self._started[imports]

    def close(self) -> None:
        self._stack.close()


def imports_of_ours(source: str) -> tuple[str, ...]:
    """What a program imports of this project, and what its first connection imports for the event loop."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names.add(node.module)
    # pyarrow, which that of Spark imports, starts threads.
    ours = {name for name in names if name.startswith("trio_stomp") and not name.startswith("trio_stomp.spark")}
    if ours:
        loop = "_asyncio" if "asyncio" in names else "_trio"
        ours.update({f"trio_stomp.runtime.{loop}", f"anyio._backends.{loop}"})
    return tuple(sorted(ours))


@pytest.fixture(scope="module")
def pythons() -> Generator[Pythons]:
    started = Pythons()
    yield started
    started.close()


def run_program(source: str, setup: Setup, pythons: Pythons, folder: Path, before: str = "") -> Outcome:
    """Run a program as a user would, in a process of its own."""
    if setup.beside is not None:
        (folder / setup.beside).write_text(before, "utf-8")
    with broker_for(setup, folder) as broker, places_for(setup, broker, folder) as places:
        for written, meant in places.items():
            source = source.replace(written, meant)
        file = folder / ("test_block.py" if setup.pytest else "block.py")
        file.write_text(source, "utf-8")
        command = [file.name]
        if setup.pytest:
            mode = f"trio_mode={str(setup.trio_mode).lower()}"
            command = ["-m", "pytest", "-p", "no:cacheprovider", "-o", mode, file.name]
        with pythons.for_program(source, setup).run(*command, folder=folder) as program:
            worked = broker.call(lambda inner: wait_for(inner, setup))
            if setup.until is not None:
                program.send_signal(setup.ends_by)
            status = program.wait(DEADLINE)
            output, errors = program.output(), program.errors()
    return Outcome(status=status if worked else None, output=output, errors=errors)


def environment() -> dict[str, str]:
    # pytest's own variables would make the pytest inside think it belongs to the one outside; so would coverage's.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV"))}
    return {**inherited, "PYTHONDONTWRITEBYTECODE": "1"}


async def wait_for(broker: Broker, setup: Setup) -> bool:
    """Wait until a program that goes on for ever has done its work; returns whether it has."""
    condition = setup.until
    if condition is None:
        return True
    with trio.move_on_after(DEADLINE):
        await broker.wait_until(lambda: broker.statistics().connections > 0 and condition(broker))
        # The program may still be inside of the write whose end we saw; Ctrl-C there shows another traceback.
        await trio.sleep(IDLE_AFTER)
        return True
    return False


@pytest.mark.parametrize("block", PYTHON_BLOCKS, ids=str)
def test_python_block_when_run_then_it_ends_well_in_time(block: Block, pythons: Pythons, tmp_path: Path) -> None:
    setup = setup_of(block)
    needs(*setup.needs)

    outcome = run_program(setup.source(block.text), setup, pythons, tmp_path, block.before)

    assert outcome.status == setup.status, f"{block}\n{outcome.output}\n{outcome.errors}"
    assert setup.says in outcome.errors
    expected = expected_output(block)
    assert expected is None or outcome.output == expected


@pytest.mark.slow
def test_python_blocks_when_type_checked_then_nothing_is_wrong(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    for number, block in enumerate(PYTHON_BLOCKS):
        name = re.sub(r"\W", "_", block.path.removesuffix(".md"))
        setup = setup_of(block)
        source = setup.source(block.text)
        if setup.beside is not None:
            (tmp_path / setup.beside).write_text(block.before, "utf-8")
        (tmp_path / f"{name}_{block.line}_{number}.py").write_text(source, "utf-8")

    # Of the package that a program has installed, mypy does not say which comments are unused; here it would.
    options = ("--strict", "--no-warn-unused-ignores", "--config-file=", "--no-error-summary")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "java"], ids=str)
def test_java_block_when_read_then_the_service_of_the_interop_tests_has_its_lines(block: Block) -> None:
    service = (ROOT / "scripts" / "brokers_lib" / "java" / "JmsResponder.java").read_text(encoding="utf-8")
    lines = {line.strip() for line in service.splitlines()}

    assert [line for line in block.text.splitlines() if line.strip() not in lines] == []


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "toml"], ids=str)
def test_toml_block_when_read_then_it_is_toml(block: Block) -> None:
    assert tomllib.loads(block.text)


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "xml"], ids=str)
def test_xml_block_when_read_then_it_is_xml(block: Block) -> None:
    assert ET.fromstring(block.text).tag  # noqa: S314  # it is a page of our own


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "yaml"], ids=str)
def test_yaml_block_when_read_then_its_probes_are_those_that_the_program_above_answers(block: Block) -> None:
    program = next(each.text for each in PYTHON_BLOCKS if each.path == block.path)
    probes = re.findall(r"path: (\S+), port: (\d+)", block.text)

    assert yaml.safe_load(block.text)
    # The program answers /ready by its name, and all other paths alike.
    assert probes == [("/ready", "8080"), ("/live", "8080")]
    assert "serve_tcp(answer, 8080)" in program
    assert "/ready " in program


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def broken_command(line: str) -> str | None:
    """What is wrong with a command of a console block, as far as can be told without running it."""
    command, *words = [word for word in shlex.split(line, comments=True) if not re.fullmatch(r"[A-Z_]+=.*", word)]
    if command == "trio-stomp":
        return broken_options(words[0], words[1:])
    if command == "make":
        unknown = set(words) - targets()
        return f"make has no target {', '.join(sorted(unknown))}" if unknown else None
    if command in {"pip", "python3", ".venv/bin/pip"} and "install" in words:
        wanted = [word for word in words[words.index("install") + 1 :] if not word.startswith("-")]
        return None if set(wanted) <= INSTALLED else f"installs {wanted}"
    if command in {"python", "python3", ".venv/bin/python"}:
        if words[:2] == ["-m", "pytest"]:
            return None if all((ROOT / word).exists() for word in words[2:]) else f"there is no {' '.join(words[2:])}"
        command = words[0]
    return None if (ROOT / command).is_file() else f"there is no {command}"


def broken_options(name: str, words: list[str]) -> str | None:
    """Which option of a command of ``trio-stomp`` does not exist."""
    command = command_line.get_command(click.Context(command_line), name)
    if command is None:
        return f"trio-stomp has no command {name}"
    if isinstance(command, click.Group):
        inner = command.commands.get(words[0])
        if inner is None:
            return f"trio-stomp {name} has no command {words[0]}"
        name, command = f"{name} {words[0]}", inner
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    unknown = [word for word in words if word.startswith("-") and word not in known]
    return f"trio-stomp {name} has no {', '.join(unknown)}" if unknown else None


@pytest.mark.parametrize("block", CONSOLE_BLOCKS, ids=str)
def test_console_block_when_read_then_its_commands_exist(block: Block) -> None:
    lines = [line.removeprefix("$ ") for line in block.text.splitlines() if line.startswith("$ ")]
    # What feeds a command of ours through a pipe is the shell's.
    commands = [part.strip() for line in lines for part in line.split(" | ") if " | " not in line or TOOL in part]

    broken = [broken for broken in map(broken_command, commands) if broken]

    assert commands, f"{block} has no line that begins with '$ '"
    assert not broken, f"{block}: {'; '.join(broken)}"


def faults(block: Block) -> str | None:
    """Why a block would escape these tests."""
    if block.language not in LANGUAGES:
        return f"its language is {block.language!r}, not one of {', '.join(sorted(LANGUAGES))}"
    if block.directive not in DIRECTIVES:
        return f"the comment above it is none of {', '.join(sorted(DIRECTIVES))}: {block.directive} {block.value}"
    if block.directive == "setup" and block.value not in SETUPS:
        return f"there is no set-up {block.value!r}"
    if block.directive == "not run" and len(block.value.split()) < REASON_WORDS:
        return "it is not run, and no reason says why"
    if block.directive == "output" and not any(block.before == each.text for each in PYTHON_BLOCKS):
        return "it is the output of no Python block"
    return None


def test_every_block_when_read_then_it_is_checked_or_says_why_not() -> None:
    found = [f"{block}: {why}" for block in BLOCKS if (why := faults(block))]

    assert not found, "\n".join(found)


def test_every_setup_when_blocks_are_counted_then_one_needs_it() -> None:
    used = {block.value for block in PYTHON_BLOCKS if block.directive == "setup"}

    assert used == set(SETUPS)


@pytest.mark.parametrize(
    ("markdown", "why"),
    [
        ("```py\npass\n```\n", "its language is"),
        ("<!-- setup: moon -->\n```python\npass\n```\n", "there is no set-up"),
        ("<!-- skip -->\n```python\npass\n```\n", "the comment above it"),
        ("<!-- not run: because -->\n```python\npass\n```\n", "no reason"),
        ("<!-- output -->\n```text\nhello\n```\n", "output of no Python block"),
    ],
)
def test_block_when_it_would_escape_then_said_so(markdown: str, why: str) -> None:
    (block,) = blocks_of(markdown, "page.md")

    assert why in (faults(block) or "")


@pytest.mark.parametrize(
    "line",
    [
        "make tea",
        "python examples/none.py",
        "python -m pytest examples/none",
        "pip install something-else",
        "scripts/none start",
        "trio-stomp sned /queue/a",
        "trio-stomp send --fiel a",
    ],
)
def test_command_when_it_does_not_exist_then_found_out(line: str) -> None:
    assert broken_command(line)


def test_program_when_it_fails_then_found_out(pythons: Pythons, tmp_path: Path) -> None:
    outcome = run_program('import sys\nprint("here")\nsys.exit(3)\n', COMPLETE, pythons, tmp_path)

    assert (outcome.status, outcome.output) == (3, "here\n")
