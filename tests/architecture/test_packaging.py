"""What the source may rely on: three dependencies, and no path of one machine."""

import ast
import re
import sys

import pytest

from tests.architecture.source_tree import PACKAGE, ROOT, project_files, python_files

RUNTIME_DEPENDENCIES = {"trio", "anyio", "typing-extensions"}

# What is not a runtime dependency, and the only places that import it.
OPTIONAL_IMPORTS: dict[str, str | tuple[str, ...]] = {
    # Loaded by pytest alone.
    "pytest": ("trio_stomp/testing/pytest_plugin.py", "trio_stomp/testing/pytest_asyncio_fixtures.py"),
    "pytest_asyncio": "trio_stomp/testing/pytest_asyncio_fixtures.py",  # loaded with that plugin alone
    "click": "trio_stomp/cli/",  # the extra `cli`
    "rich": "trio_stomp/cli/",
    "opentelemetry": "trio_stomp/otel/",  # the extra `otel`
    "pyarrow": "trio_stomp/spark/",  # the extra `spark`
    "pyspark": "trio_stomp/spark/",
    "fsspec": "trio_stomp/spark/spool_store.py",  # a user who names a store that needs it has installed it
    "botocore": "trio_stomp/spark/conditional_put.py",  # where it is installed, writes to S3 are conditional
    # The extra `websocket`.
    "wsproto": ("trio_stomp/transport/websocket.py", "trio_stomp/testing/websocket_link.py"),
    # The extra `proxy`; WebSocket needs h11 too, for its handshake.
    "python_socks": "trio_stomp/transport/proxy.py",
    "h11": ("trio_stomp/transport/proxy.py", "trio_stomp/transport/websocket.py"),
}

# A path of somebody's machine in a file of the project means nothing on another.
MACHINE_PATH = re.compile(r"(?<![\w./~<-])/(?:home/\w|root/|Users/\w|work/|tmp/)")
MACHINE_PATHS_ALLOWED = {
    "tests/architecture/test_packaging.py": "the pattern itself and its examples",
}


def test_imports_when_not_of_a_runtime_dependency_then_stay_in_their_modules() -> None:
    ours = {name.replace("-", "_") for name in RUNTIME_DEPENDENCIES} | {PACKAGE}
    foreign = [
        (file.path, name)
        for file in python_files()
        if file.in_package
        for name in imported(file.tree) - ours - sys.stdlib_module_names
    ]
    astray = [
        f"{path} imports {name}"
        for path, name in foreign
        if name not in OPTIONAL_IMPORTS or not path.startswith(OPTIONAL_IMPORTS[name])
    ]

    assert not astray


def imported(tree: ast.Module) -> set[str]:
    """The top-level packages that a module imports, in functions too."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add((node.module or "").partition(".")[0])
    return found


def machine_paths(text: str) -> list[int]:
    return [number for number, line in enumerate(text.splitlines(), 1) if MACHINE_PATH.search(line)]


def test_files_when_searched_then_name_no_path_of_one_machine() -> None:
    found: list[str] = []
    for name in project_files():
        data = (ROOT / name).read_bytes()
        if b"\0" not in data and name not in MACHINE_PATHS_ALLOWED:
            found += [f"{name}:{line}" for line in machine_paths(data.decode("utf-8", "replace"))]

    assert not found


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("cd /home/ann/stomp", [1]),
        ("fine\nopen('/tmp/x')", [2]),
        ("/queue/work/a and https://example.org/home/a and ~/tmp/x", []),
    ],
)
def test_machine_path_when_looked_for_then_found_by_line(text: str, lines: list[int]) -> None:
    assert machine_paths(text) == lines
