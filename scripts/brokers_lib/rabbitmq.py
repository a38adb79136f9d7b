"""RabbitMQ: Debian's package, run as a private node with its own epmd."""

import os
import secrets
import shutil
import subprocess
from pathlib import Path
from typing import ClassVar, Final

from brokers_lib import install
from brokers_lib.broker import Broker
from brokers_lib.processes import Daemon
from brokers_lib.settings import HOST, Settings

# Not /usr/sbin: the wrapper there insists on being root or the user rabbitmq, and on the system's folders.
PROGRAMS: Final = Path("/usr/lib/rabbitmq/bin")
_ERLANG: Final = "-kernel inet_dist_use_interface {127,0,0,1} -start_epmd false"


class RabbitMQ(Broker):
    """RabbitMQ with the STOMP and Web STOMP plugins."""

    name = "rabbitmq"
    offsets: ClassVar = {"stomp": 0, "stomp+ssl": 1, "ws": 2, "wss": 3, "erlang": 4, "epmd": 5}
    configured_as = "rabbitmq"
    container_folders: ClassVar = {"/etc/rabbitmq/definitions.json": "definitions.json"}
    # rabbitmqctl is a node too, and takes one of three ports.
    control_offset = 6

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.epmd = Daemon(pid_file=self.state / "epmd.pid")
        self.node = f"stomptest{self.base}@localhost"

    @property
    def logs(self) -> tuple[Path, ...]:
        """The start-up script's output and the node's own log."""
        return (self.output, self.state / "log" / f"{self.node}.log")

    def install(self) -> None:
        """Install Debian's rabbitmq-server, whose plugins include STOMP."""
        if not (PROGRAMS / "rabbitmq-server").exists():
            install.apt("rabbitmq-server")

    def configure(self) -> None:
        """Write configuration, definitions, plugins and the cookie."""
        home = self.state / "home"
        home.mkdir(exist_ok=True)
        cookie = home / ".erlang.cookie"
        if not cookie.exists():
            cookie.touch(mode=0o600)
            cookie.write_text(secrets.token_hex(16), encoding="ascii")
            cookie.chmod(0o400)
        files = {
            "rabbitmq.conf": f"{self.configuration('rabbitmq.conf')}{self.settings.rabbitmq_extra_conf}\n",
            "advanced.config": self.settings.rabbitmq_advanced_conf + "\n",
            **{name: self.configuration(name) for name in ("enabled_plugins", "definitions.json")},
        }
        for name, text in files.items():
            (self.state / name).write_text(text, encoding="utf-8")

    def environment(self) -> dict[str, str]:
        """What keeps the node and rabbitmqctl to their own folders and ports."""
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("RABBITMQ_", "ERL_")) and name != "NOTIFY_SOCKET"
        }
        state, control = self.state, self.base + self.control_offset
        return inherited | {
            "HOME": str(state / "home"),
            "ERL_EPMD_PORT": str(self.ports["epmd"]),
            "ERL_EPMD_ADDRESS": HOST,
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_DIST_PORT": str(self.ports["erlang"]),
            "RABBITMQ_CTL_DIST_PORT_MIN": str(control),
            "RABBITMQ_CTL_DIST_PORT_MAX": str(control + 2),
            "RABBITMQ_CONF_ENV_FILE": str(state / "none.conf"),
            "RABBITMQ_MNESIA_BASE": str(state / "data"),
            "RABBITMQ_LOG_BASE": str(state / "log"),
            "RABBITMQ_CONFIG_FILE": str(state / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(state / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(state / "enabled_plugins"),
            "RABBITMQ_FEATURE_FLAGS_FILE": str(state / "feature_flags"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(state / "generated"),
            "RABBITMQ_PLUGINS_EXPAND_DIR": str(state / "expand"),
            "RABBITMQ_SCHEMA_DIR": str(state / "schema"),
            "RABBITMQ_PID_FILE": str(state / "node.pid"),
            # Two schedulers: a test node need not take every core of the machine.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"{_ERLANG} +S 2:2 +A 8",
            "RABBITMQ_CTL_ERL_ARGS": _ERLANG,
            "RABBITMQ_IGNORE_SIGINT": "true",
            # With this the start-up script becomes the node, instead of waiting for it: one process, one pid.
            "RABBITMQ_ALLOW_INPUT": "1",
        }

    def command(self, *command: str) -> list[str]:
        """How to run one of RabbitMQ's programs."""
        return list(command)

    def epmd_program(self) -> str:
        """Erlang's name server, which need not be on the PATH."""
        return shutil.which("epmd") or "/usr/lib/erlang/bin/epmd"

    def launch(self) -> None:
        """Start epmd, the name server that nodes need, and the node."""
        environment = self.environment()
        if self.epmd.pid() is None:
            command = self.command(self.epmd_program(), "-port", str(self.ports["epmd"]), "-address", HOST)
            self.epmd.spawn(command, environment=environment, folder=self.state, output=self.output)
        command = self.command(str(PROGRAMS / "rabbitmq-server"), "-noinput")
        self.daemon.spawn(command, environment=environment, folder=self.state, output=self.output)

    def after_stop(self) -> None:
        """End epmd."""
        self.epmd.stop()

    def control(self, arguments: list[str]) -> int:
        """Run rabbitmqctl; only while the node runs, else it would leave a stray epmd behind."""
        if self.daemon.pid() is None:
            raise SystemExit(f"brokers: {self.name} is not running; start it with `scripts/brokers start {self.name}`")
        command = self.command(str(PROGRAMS / "rabbitmqctl"), *arguments)
        return subprocess.run(command, env=self.environment(), cwd=self.state, check=False).returncode
