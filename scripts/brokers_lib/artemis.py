"""ActiveMQ Artemis: its distribution from Maven Central and a broker instance made with its own `artemis create`."""

import os
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import ClassVar, Final

from brokers_lib import install, java_programs
from brokers_lib.broker import Broker
from brokers_lib.settings import ARTEMIS_VERSION, HOST

# The instance's own choice is a large heap and G1; what is left out of it here serves the web console, which is off.
JAVA_OPTIONS: Final = (
    "-Xms64m -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Djava.net.preferIPv4Stack=true "
    "-Dlog4j2.disableJmx=true --add-opens java.base/jdk.internal.misc=ALL-UNNAMED"
)


class Artemis(Broker):
    """ActiveMQ Artemis, which accepts WebSocket on every STOMP port."""

    name = "artemis"
    offsets: ClassVar = {"stomp": 0, "stomp+ssl": 1, "bare": 2, "mtls": 4, "core": 5, "small": 6}
    configured_as = "artemis"
    container_folders: ClassVar = {"/var/lib/artemis-instance/data": "instance/data"}

    @property
    def ports(self) -> dict[str, int]:
        """The listeners; `ws` and `wss` are the plain and the TLS port once more."""
        ports = super().ports
        return ports | {"ws": ports["stomp"], "wss": ports["stomp+ssl"]}

    @property
    def instance(self) -> Path:
        """The folder of the broker instance."""
        return self.state / "instance"

    @property
    def home(self) -> Path:
        """The folder of the unpacked distribution."""
        return self.settings.state / "downloads" / f"apache-artemis-{ARTEMIS_VERSION}"

    @property
    def logs(self) -> tuple[Path, ...]:
        """The console holds everything: the instance's log file has the same lines."""
        return (self.output,)

    @property
    def responder(self) -> Path:
        """The folder of the compiled JMS service that the tests send requests to."""
        return self.settings.state / "downloads" / "jms-responder-artemis"

    def install(self) -> None:
        """Download and unpack the distribution."""
        install.java(self.settings.java)
        downloads = self.home.parent
        complete = downloads / f"artemis-{ARTEMIS_VERSION}.complete"
        if not (complete.exists() and self.home.is_dir()):
            self._fetch(downloads)
            complete.touch()
        java_programs.build(self.settings, "JmsResponder", self.responder, self.home / "lib", {"jms": "javax.jms"})

    def _fetch(self, downloads: Path) -> None:
        install.maven(
            "copy",
            f"-Dartifact=org.apache.activemq:apache-artemis:{ARTEMIS_VERSION}:zip:bin",
            f"-DoutputDirectory={downloads}",
            purpose=f"fetching ActiveMQ Artemis {ARTEMIS_VERSION}",
        )
        archive = downloads / f"apache-artemis-{ARTEMIS_VERSION}-bin.zip"
        with zipfile.ZipFile(archive) as file:
            file.extractall(downloads)
        (self.home / "bin" / "artemis").chmod(0o755)
        archive.unlink()

    def jms_responder(self) -> list[str]:
        """Over the core protocol."""
        program = java_programs.command(self.settings, "JmsResponder", self.responder, self.home / "lib")
        url = f"tcp://{HOST}:{self.ports['core']}"
        factory = "org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory"
        return [*program, factory, url, "guest", "guest"] if program else []

    def _environment(self) -> dict[str, str]:
        java_home = Path(install.java(self.settings.java)).resolve().parents[1]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("ARTEMIS_")}
        return inherited | {"JAVA_HOME": str(java_home), "JAVA_ARGS": JAVA_OPTIONS}

    def _create_instance(self) -> None:
        """Have the distribution write what depends on its version: scripts, login module, logging."""
        shutil.rmtree(self.instance / "etc", ignore_errors=True)
        options = "--silent --force --no-web --no-autotune --no-amqp-acceptor --no-mqtt-acceptor --no-hornetq-acceptor"
        command = [
            str(self.home / "bin" / "artemis"),
            "create",
            *options.split(),
            "--nio",
            "--no-fsync",
            "--require-login",
            "--user=guest",
            "--password=guest",
            "--role=users",
            str(self.instance),
        ]
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, env=self._environment(), cwd=self.state
        )
        if done.returncode:
            raise SystemExit(f"brokers: `artemis create` failed:\n{done.stdout}{done.stderr}")

    def configure(self) -> None:
        """Create the instance and replace its broker.xml, users and roles by ours."""
        self._create_instance()
        for name in ("broker.xml", "artemis-users.properties", "artemis-roles.properties"):
            (self.instance / "etc" / name).write_text(self.configuration(name), encoding="utf-8")

    def launch(self) -> None:
        """Start the instance; its script becomes the Java process."""
        command = [str(self.instance / "bin" / "artemis"), "run"]
        self.daemon.spawn(command, environment=self._environment(), folder=self.state, output=self.output)

    def control(self, arguments: list[str]) -> int:
        """Run the instance's `artemis` command, with the address and login of its broker where none is given."""
        command = [str(self.instance / "bin" / "artemis"), *arguments]
        if not any(argument.startswith("--url") for argument in arguments):
            command += [f"--url=tcp://{HOST}:{self.ports['core']}", "--user=guest", "--password=guest"]
        return subprocess.run(command, env=self._environment(), cwd=self.state, check=False).returncode
