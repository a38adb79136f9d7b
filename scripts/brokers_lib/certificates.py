"""Throw-away certificates: made once by openssl and shared by all brokers."""

import fcntl
import subprocess
from pathlib import Path

from brokers_lib.settings import LIBRARY


def make(folder: Path) -> None:
    """Make the certificates where they are missing or about to expire.

    Raises:
        SystemExit: openssl is missing or failed; its own words are in the message.
    """
    command = ["sh", str(LIBRARY / "certs.sh"), str(folder)]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        # Brokers start side by side, and each comes here: one that read while another wrote would get half a key store.
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"brokers: the certificates could not be made; is openssl installed?\n{done.stderr}")


def paths(folder: Path) -> dict[str, str]:
    """Where a client finds what it needs for TLS."""
    return {
        "ca": str(folder / "ca.pem"),
        "other_ca": str(folder / "otherca.pem"),
        "client_cert": str(folder / "client.pem"),
        "client_key": str(folder / "client.key"),
        "server_name": "localhost",
    }
