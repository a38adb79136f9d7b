"""What docs/platforms.md says of macOS and Windows, on a simulation of what differs there."""

from __future__ import annotations

import ast
import errno
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import trio

import trio_stomp
from tests.architecture.source_tree import SourceFile, python_files
from trio_stomp.cli import running
from trio_stomp.cli.running import ExitCode
from trio_stomp.runtime import _trio, as_byte_stream
from trio_stomp.testing import open_broker

# What Python has on Windows, from the documentation of the module `signal`.
WINDOWS_SIGNALS = {"SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGSEGV", "SIGTERM", "SIGBREAK"}
# Imports all of the package, in which every import of a module that Windows lacks fails.
IMPORT_ALL = """
import builtins, pkgutil

MISSING = {"fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"}
original = builtins.__import__


def import_as_on_windows(name, namespace=None, *others):
    if name in MISSING and (namespace or {}).get("__name__", "").startswith("trio_stomp"):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return original(name, namespace, *others)


builtins.__import__ = import_as_on_windows
import trio_stomp

for each in pkgutil.walk_packages(trio_stomp.__path__, "trio_stomp.", onerror=lambda name: None):
    if not each.name.startswith("trio_stomp.spark") and not each.name.endswith("__main__"):
        __import__(each.name)
try:
    import trio_stomp.spark
except ImportError as error:
    print(error)
"""
# What Windows lacks of `os` and `signal`, and Windows or macOS of `socket`.
MISSING = {
    "os": re.compile(
        r"os\.(fork\w*|register_at_fork|get(e?[ug]id|pg\w+|sid|loadavg|groups)|set\w*[ug]id|setsid|killpg|nice|uname"
        r"|l?chown|fch\w+|mkfifo|mknod|p(read|write)v?|sendfile|sched_\w+|posix_\w+|wait[34]?|W[A-Z]+|SCHED_\w+"
        r"|O_(NONBLOCK|CLOEXEC|NOFOLLOW|DIRECTORY|SYNC|DSYNC))"
    ),
    "signal": re.compile(
        r"signal\.(SIG(?!(ABRT|FPE|ILL|INT|SEGV|TERM|_DFL|_IGN)$)[A-Z0-9_]+|[gs]etitimer|alarm|pause|pthread_\w+|sigwait\w*|sigpending|siginterrupt)"
    ),
    "socket": re.compile(
        r"socket\.(AF_UNIX|SO_(REUSEPORT|PEERCRED)|MSG_(DONTWAIT|NOSIGNAL)|send_fds|recv_fds"
        r"|TCP_(USER_TIMEOUT|KEEPIDLE|KEEPALIVE|KEEPINTVL|KEEPCNT|QUICKACK|CORK))"
    ),
}


@pytest.fixture
def windows_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_trio, "sys", SimpleNamespace(platform="win32"))


@pytest.fixture
def windows_command(monkeypatch: pytest.MonkeyPatch) -> None:
    system = SimpleNamespace(platform="win32", exit=sys.exit, stdout=sys.stdout, stderr=sys.stderr)
    monkeypatch.setattr(running, "sys", system)


@pytest.mark.usefixtures("windows_sockets")
async def test_socket_when_on_windows_then_streams_are_used_as_they_are() -> None:
    ours, theirs = (trio.SocketStream(each) for each in trio.socket.socketpair())
    async with ours, theirs:
        stream = as_byte_stream(ours)
        assert type(stream) is _trio.ForeignStream
        assert not stream.writes_now


@pytest.mark.usefixtures("windows_sockets")
async def test_client_when_on_windows_then_sends_and_receives_over_trios_streams(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_arguments: object) -> bytes:
        raise AssertionError("a socket was used as a file")

    monkeypatch.setattr(_trio, "os", SimpleNamespace(read=refuse, write=refuse))

    async with open_broker() as broker, trio_stomp.connect(broker.url) as client:
        await client.send("/queue/a", b"by streams", receipt=True)
        async with client.subscribe("/queue/a", ack="auto") as subscription:
            assert (await anext(subscription)).body == b"by streams"


async def test_unix_url_when_the_platform_has_no_unix_sockets_then_the_error_says_what_to_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(socket, "AF_UNIX")

    with pytest.raises(trio_stomp.ConnectError, match="this platform has no Unix sockets; use stomp://"):
        async with trio_stomp.connect("stomp+unix:///broker.sock"):
            pass


async def test_unix_broker_when_the_platform_has_no_unix_sockets_then_os_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(socket, "AF_UNIX")

    with pytest.raises(OSError, match="this platform has no Unix sockets"):
        async with open_broker(unix_socket=tmp_path / "s"):
            pass


async def test_unix_url_when_the_path_is_too_long_for_the_platform_then_connect_error() -> None:
    # Linux refuses it as macOS refuses a shorter one.
    with pytest.raises(trio_stomp.ConnectError, match="path too long"):
        async with trio_stomp.connect(f"stomp+unix:///{'a' * 200}"):
            pass


def test_signals_when_the_command_waits_for_them_then_windows_has_them() -> None:
    used = {signal.Signals(number).name for number in running._CODES}

    assert used <= WINDOWS_SIGNALS


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (OSError(errno.EINVAL, "Invalid argument"), ExitCode.PIPE_CLOSED, ""),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), ExitCode.PIPE_CLOSED, ""),
        (OSError(errno.EINVAL, "Invalid argument", "a?.txt"), None, ""),
        (OSError(errno.ENOSPC, "No space left"), ExitCode.FAILED, "the output cannot be written: No space left"),
        *(
            (OSError(number, "It failed"), ExitCode.FAILED, "the output cannot be written: It failed")
            for number in (errno.EDQUOT, errno.EFBIG, errno.EIO)
        ),
        (OSError(errno.ENOSPC, "No space left", "a.txt"), None, ""),
        (OSError(errno.EBADF, "Bad file descriptor"), None, ""),
    ],
)
@pytest.mark.usefixtures("capsys", "windows_command")
def test_output_when_on_windows_then_a_closed_pipe_ends_the_command_quietly_and_other_errors_do_not(
    error: OSError, status: ExitCode | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(OSError if status is None else SystemExit) as raised, running.ending():
        raise error

    assert raised.value is error or (isinstance(raised.value, SystemExit) and raised.value.code == status)
    assert capsys.readouterr().err == (said and f"trio-stomp: {said}\n")


@pytest.mark.usefixtures("windows_command")
def test_output_when_a_socket_of_windows_fails_with_the_same_number_then_it_is_no_closed_pipe() -> None:
    class WindowsSocketError(OSError):
        winerror = 10022

    assert not running.is_closed_output(WindowsSocketError(errno.EINVAL, "Invalid argument"))


def test_package_when_modules_of_posix_are_missing_then_all_but_spark_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL], check=False, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")
    assert (
        done.stdout == "trio_stomp.spark does not run on Windows: it flushes its files with fcntl. Use Linux or macOS\n"
    )


def unguarded(file: SourceFile) -> set[str]:
    """The names of the standard library that a module uses, Windows or macOS lacks, and it does not ask for first."""
    used = {
        f"{node.value.id}.{node.attr}"
        for node in ast.walk(file.tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    missing = {name for name in used if MISSING.get(name.partition(".")[0], re.compile("$^")).fullmatch(name)}
    return {name for name in missing if 'hasattr({}, "{}")'.format(*name.split(".")) not in file.text}


def test_package_when_a_name_is_missing_on_a_platform_then_it_asks_first() -> None:
    found = {file.path: unguarded(file) for file in python_files() if file.in_package}

    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("os.fork()", {"os.fork"}),
        ("signal.signal(signal.SIGHUP, f)", {"signal.SIGHUP"}),
        ("s.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1)", {"socket.TCP_USER_TIMEOUT"}),
        ('if hasattr(socket, "TCP_KEEPIDLE"):\n  s.setsockopt(0, socket.TCP_KEEPIDLE, 1)', set[str]()),
        ("os.read(1, 2)", set[str]()),
    ],
)
def test_missing_name_when_looked_for_then_found(text: str, names: set[str]) -> None:
    assert unguarded(SourceFile.of("trio_stomp/x.py", text)) == names
