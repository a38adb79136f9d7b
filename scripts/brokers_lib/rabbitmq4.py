"""RabbitMQ 4 beside Debian 12's 3.10: the package of a newer Debian in a folder of its own, run by chroot.

The folder is filled by debootstrap from the mirror that apt uses here. What has to be mounted for the node is mounted
in a mount namespace that ends with the node: nothing is left behind, whatever ends it, and the folder can be deleted.
"""

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final

from brokers_lib import install
from brokers_lib.rabbitmq import RabbitMQ

# `sid` changes several times a day, and while a mirror is updated its lists and packages may not agree.
_ATTEMPTS: Final = 4
_RETRY_SECONDS: Final = 20.0

_NAMESPACE: Final = ("unshare", "--mount", "--propagation", "private")
# The state is mounted under the path that it has outside: configuration, certificates and logs need no second name.
_ENTER: Final = """
root=$0 state=$1
shift
mkdir -p "$root$state" &&
    mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" && mount --bind "$state" "$root$state" &&
    exec chroot "$root" "$@"
"""


def _run_quietly(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, capture_output=True, text=True)


def _mirror() -> str | None:
    """The address of the Debian mirror in apt's configuration; None where there is none, as on Ubuntu."""
    if shutil.which("apt-get") is None:
        return None
    told = _run_quietly("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages").stdout
    return next((line for line in told.splitlines() if line.rstrip("/").endswith("/debian")), None)


class RabbitMQ4(RabbitMQ):
    """RabbitMQ 4, set up as the older one is."""

    name = "rabbitmq4"

    @property
    def root(self) -> Path:
        """The folder that the node has for its root folder, by suite, so that another suite is fetched anew."""
        return self.settings.state / "downloads" / f"rabbitmq4-{self.settings.rabbitmq4_suite}"

    def unavailable(self) -> str | None:
        """It takes root, Debian's tools and its archive."""
        if not hasattr(os, "geteuid") or os.geteuid() != 0:
            reason = "needs root, for chroot"
        elif shutil.which("unshare") is None or _run_quietly(*_NAMESPACE, "true").returncode:
            reason = "needs a mount namespace, which this machine or container refuses (docker run --privileged)"
        elif not self.root.exists() and _mirror() is None:
            reason = "needs a Debian mirror among apt's sources"
        else:
            return None
        return f"{self.name}: {reason}. With Docker: docker compose up --detach --wait {self.name}"

    def install(self) -> None:
        """Fill the folder, unless it is there: 120 packages, in half a minute to two."""
        if self.root.exists():
            return
        if reason := self.unavailable():
            raise SystemExit(f"brokers: {reason}")
        if shutil.which("debootstrap") is None:
            install.apt("debootstrap")
        self.root.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.root.parent, prefix="rabbitmq4-") as folder:
            built = Path(folder) / "root"
            self._debootstrap(built, packages=Path(folder) / "packages")
            # Erlang looks for its name server by name.
            (built / "etc" / "hosts").write_text("127.0.0.1 localhost\n", encoding="utf-8")
            built.rename(self.root)

    def _debootstrap(self, root: Path, *, packages: Path) -> None:
        packages.mkdir()
        suite, mirror = self.settings.rabbitmq4_suite, _mirror()
        options = ["--variant=minbase", "--include=rabbitmq-server", f"--cache-dir={packages}"]
        # It mounts /proc for the packages' scripts: in a namespace, so that an interrupted run leaves nothing mounted.
        command = [*_NAMESPACE, "debootstrap", *options, suite, str(root), str(mirror)]
        install.say(f"fetching RabbitMQ 4 from Debian's {suite} ...")
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                install.run(command, purpose=f"fetching RabbitMQ 4 from Debian's {suite}")
            except SystemExit as problem:
                if attempt == _ATTEMPTS:
                    advice = "Try again later, or take another release: TRIO_STOMP_RABBITMQ4_SUITE=trixie"
                    raise SystemExit(f"{problem}\nbrokers: {advice}") from None
                install.say(f"{problem}\nbrokers: trying again in {_RETRY_SECONDS:.0f} s ...")
                shutil.rmtree(root, ignore_errors=True)
                time.sleep(_RETRY_SECONDS)
            else:
                break
        shutil.rmtree(root / "var" / "lib" / "apt" / "lists", ignore_errors=True)

    def command(self, *command: str) -> list[str]:
        """Run the program in the folder, as the process that was started and no other: its pid is the node's."""
        return [*_NAMESPACE, "sh", "-c", _ENTER, str(self.root), str(self.settings.state), *command]

    def environment(self) -> dict[str, str]:
        """As of the other, but with the search path and locale of the folder."""
        return super().environment() | {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}

    def epmd_program(self) -> str:
        """The one in the folder."""
        return "/usr/bin/epmd"
