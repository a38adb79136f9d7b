"""How programs get here: Debian packages by apt, Java programs from Maven Central by Maven."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Final

from brokers_lib.settings import MAVEN_DEPENDENCY_PLUGIN

OLDEST_JAVA: Final = 17
_POLICY: Final = Path("/usr/sbin/policy-rc.d")
# Debian's packages ask this file whether they may start their service; 101 means no.
_REFUSE: Final = "#!/bin/sh\n# Written for a moment by scripts/brokers: no service is to be started.\nexit 101\n"


def say(text: str) -> None:
    """Tell the person who waits what takes so long."""
    print(f"brokers: {text}", file=sys.stderr, flush=True)


def run(command: Sequence[str], *, purpose: str) -> None:
    """Run a command silently.

    Raises:
        SystemExit: It failed; the message has the end of what it said.
    """
    done = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        said = (done.stdout + done.stderr)[-3000:]
        raise SystemExit(f"brokers: {purpose} failed: {' '.join(command)}\n{said}")


def _root() -> list[str]:
    """What to put before a command to run it as root; an error where there is no way."""
    if os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo")
    if sudo and subprocess.run([sudo, "-n", "true"], check=False, capture_output=True).returncode == 0:
        return [sudo, "-n"]
    raise SystemExit(1)


@contextlib.contextmanager
def _no_services(root: list[str]) -> Generator[None, None, None]:
    """While this lasts, a package that is installed does not start its service."""
    if _POLICY.exists():  # a container image, mostly: its own policy stays
        yield
        return
    with tempfile.NamedTemporaryFile("w", suffix="-policy-rc.d") as file:
        file.write(_REFUSE)
        file.flush()
        run([*root, "install", "-m", "755", file.name, str(_POLICY)], purpose="holding services back")
    try:
        yield
    finally:
        run([*root, "rm", "-f", str(_POLICY)], purpose="letting services start again")


def apt(*packages: str) -> None:
    """Install Debian packages without starting their services.

    Raises:
        SystemExit: This is no Debian, or we may not install; the message tells what to run.
    """
    wanted = " ".join(packages)
    if shutil.which("apt-get") is None:
        raise SystemExit(f"brokers: {wanted} is needed and there is no apt-get here; try `docker compose up` instead")
    try:
        root = _root()
    except SystemExit:
        raise SystemExit(
            f"brokers: {wanted} is needed and we may not install it. Run this once, then start again:\n"
            f"    sudo apt-get install --no-install-recommends {wanted}"
        ) from None
    say(f"installing {wanted} with apt ...")
    variables = ["env", "DEBIAN_FRONTEND=noninteractive"]
    with _no_services(root):
        run([*root, *variables, "apt-get", "-q", "update"], purpose="refreshing apt's lists")
        run(
            [*root, *variables, "apt-get", "-q", "-y", "install", "--no-install-recommends", *packages],
            purpose=f"installing {wanted}",
        )


def _java_version(java: str) -> int:
    done = subprocess.run([java, "-version"], check=False, capture_output=True, text=True)
    match = re.search(r'version "(\d+)', done.stderr + done.stdout)
    return int(match[1]) if match else 0


def java(chosen: str | None) -> str:
    """The Java to run brokers with: the one named, else the PATH's, else Debian's, installed where missing.

    Raises:
        SystemExit: The one named is too old, or none can be installed.
    """
    if chosen:
        if _java_version(chosen) < OLDEST_JAVA:
            raise SystemExit(f"brokers: TRIO_STOMP_JAVA={chosen} is no Java {OLDEST_JAVA} or newer")
        return chosen
    for attempt in range(2):
        found = [shutil.which("java"), *map(str, sorted(Path("/usr/lib/jvm").glob("*/bin/java")))]
        for candidate in found:
            if candidate and _java_version(candidate) >= OLDEST_JAVA:
                return candidate
        if attempt == 0:
            apt("openjdk-17-jre-headless")
    raise SystemExit(f"brokers: no Java {OLDEST_JAVA} was found, even after it was installed; set TRIO_STOMP_JAVA")


def jars(pom: Path, version: str, folder: Path, *, purpose: str) -> None:
    """Download the jars that a pom names; quick and silent where they are.

    Args:
        pom: The pom.
        version: The property of the pom with the version, and its value.
        folder: Where they go.
        purpose: For the person who waits.

    Raises:
        SystemExit: Maven is missing and cannot be installed, or it failed.
    """
    # A copy of the list that the jars came from: a changed list downloads anew.
    complete = folder / "complete.xml"
    if complete.exists() and complete.read_bytes() == pom.read_bytes():
        return
    options = [f"--file={pom}", f"-D{version}", "-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
    maven("copy-dependencies", *options, purpose=purpose)
    shutil.copyfile(pom, complete)


def maven(goal: str, *arguments: str, purpose: str) -> None:
    """Run a goal of Maven's dependency plugin, which downloads from Maven Central and checks what it got.

    Raises:
        SystemExit: Maven is missing and cannot be installed, or it failed.
    """
    if shutil.which("mvn") is None:
        apt("maven")
    say(f"{purpose} from Maven Central ...")
    run(["mvn", "-q", "-B", *arguments, f"{MAVEN_DEPENDENCY_PLUGIN}:{goal}"], purpose=purpose)
