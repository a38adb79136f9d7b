"""ActiveMQ Classic: its jars from Maven Central, run without the distribution around them."""

import os
from pathlib import Path
from typing import ClassVar, Final

from brokers_lib import install, java_programs
from brokers_lib.broker import Broker
from brokers_lib.settings import ACTIVEMQ_VERSION, HOST, LIBRARY

# One collector thread and one compiler: the quickest to start, and two cores are shared by three brokers.
JAVA_OPTIONS: Final = ("-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")


class ActiveMQ(Broker):
    """ActiveMQ Classic with every STOMP connector that it has."""

    name = "activemq"
    offsets: ClassVar = {
        "stomp": 0,
        "stomp+ssl": 1,
        "stomp+nio": 2,
        "stomp+nio+ssl": 3,
        "mtls": 4,
        "openwire": 5,
        "small": 6,
        "ws": 7,
        "wss": 8,
    }
    configured_as = "activemq"
    container_folders: ClassVar = {"/opt/apache-activemq/data": "data"}

    @property
    def logs(self) -> tuple[Path, ...]:
        """What the Java machine said, and the broker's own log."""
        return (self.output, self.state / "log" / "activemq.log")

    @property
    def library(self) -> Path:
        """The folder of the jars, by version, so that a new pin downloads anew."""
        return self.settings.state / "downloads" / f"activemq-{ACTIVEMQ_VERSION}"

    @property
    def responder(self) -> Path:
        """The folder of the compiled JMS service that the tests send requests to."""
        return self.settings.state / "downloads" / "jms-responder-activemq"

    def install(self) -> None:
        """Download the jars that `activemq-pom.xml` names."""
        install.java(self.settings.java)
        install.jars(
            LIBRARY / "activemq-pom.xml",
            f"activemq.version={ACTIVEMQ_VERSION}",
            self.library,
            purpose=f"fetching ActiveMQ Classic {ACTIVEMQ_VERSION}",
        )
        java_programs.build(self.settings, "JmsResponder", self.responder, self.library, {"jms": "jakarta.jms"})

    def jms_responder(self) -> list[str]:
        """Over OpenWire."""
        program = java_programs.command(self.settings, "JmsResponder", self.responder, self.library)
        url = f"tcp://{HOST}:{self.ports['openwire']}"
        factory = "org.apache.activemq.ActiveMQConnectionFactory"
        return [*program, factory, url, "guest", "guest"] if program else []

    def configure(self) -> None:
        """Write the broker's configuration and that of its log."""
        for folder in ("conf", "data", "tmp"):
            (self.state / folder).mkdir(exist_ok=True)
        for name in ("activemq.xml", "logging.properties"):
            (self.state / "conf" / name).write_text(self.configuration(name), encoding="utf-8")

    def launch(self) -> None:
        """Start the broker, not its start-up script: one process, and no guesses at where Java is."""
        conf = self.state / "conf"
        command = [
            install.java(self.settings.java),
            *JAVA_OPTIONS,
            f"-Djava.util.logging.config.file={conf / 'logging.properties'}",
            f"-Djava.io.tmpdir={self.state / 'tmp'}",
            f"-Dactivemq.home={self.state}",
            f"-Dactivemq.base={self.state}",
            f"-Dactivemq.conf={conf}",
            f"-Dactivemq.data={self.state / 'data'}",
            "-Djava.net.preferIPv4Stack=true",
            "-cp",
            f"{conf}:{self.library}/*",
            "org.apache.activemq.console.command.ShellCommand",
            "start",
            f"xbean:file:{conf / 'activemq.xml'}",
        ]
        self.daemon.spawn(command, environment=os.environ, folder=self.state, output=self.output)
