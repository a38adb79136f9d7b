"""The embedded broker in a separate process, with real sockets and a core of its own.

Run as a script, this module is that process: it prints its URL and serves until its standard input ends, which also
happens when the parent process is killed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import trio

from trio_stomp.testing import open_broker

__all__ = ["open_embedded_broker"]

# The process has nothing to save, so it can be killed after this time.
_END_SECONDS = 5
_URL_BYTES = 1024


@asynccontextmanager
async def open_embedded_broker() -> AsyncGenerator[str]:
    """Run an embedded broker for the length of a block, in another process.

    Yields:
        Its URL.

    Raises:
        RuntimeError: It did not start.

    Cancellation: leaving the block ends the process in any case.
    """
    process = await trio.lowlevel.open_process(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        yield await _read_url(process)
    finally:
        with trio.move_on_after(_END_SECONDS, shield=True):
            if process.stdin is not None:
                await process.stdin.aclose()
            await process.wait()
        if process.returncode is None:
            process.kill()
        if process.stdout is not None:
            await trio.aclose_forcefully(process.stdout)


async def _read_url(process: trio.Process) -> str:
    line = b""
    while process.stdout is not None and not line.endswith(b"\n"):
        more = await process.stdout.receive_some(_URL_BYTES)
        if not more:
            break
        line += bytes(more)
    if not line.endswith(b"\n"):
        msg = "the embedded broker did not start; its error is printed above"
        raise RuntimeError(msg)
    return line.decode().strip()


async def _serve() -> None:
    async with open_broker() as broker:
        print(broker.url, flush=True)
        # A blocking read in a thread works on every system. The interpreter ends the thread at exit.
        await trio.to_thread.run_sync(sys.stdin.buffer.read, abandon_on_cancel=True)


if __name__ == "__main__":
    # Ctrl-C reaches both processes; the other one prints the message.
    with suppress(KeyboardInterrupt):
        trio.run(_serve)
