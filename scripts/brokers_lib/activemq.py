"""ActiveMQ Classic: its jars from Maven Central, run without the distribution around them."""

import os
from pathlib import Path
from typing import ClassVar, Final

from brokers_lib import install, java_programs
from brokers_lib.broker import Broker, render
from brokers_lib.settings import ACTIVEMQ_VERSION, HOST, LIBRARY, STORE_PASSWORD

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
    schemes: ClassVar = {
        "stomp": ("stomp", ""),
        "stomp+ssl": ("stomps", ""),
        "stomp+nio": ("stomp", ""),
        "stomp+nio+ssl": ("stomps", ""),
        "mtls": ("stomps", ""),
        "small": ("stomp", ""),
        "ws": ("ws", "/ws"),
        "wss": ("wss", "/ws"),
    }
    dead_letters: ClassVar = {"queue_prefix": "/queue/dlq-src.", "destination": "/queue/dlq"}
    vhosts = ("/",)

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

    def template_values(self) -> dict[str, object]:
        """See `templates/activemq.xml`."""
        return {
            "host": HOST,
            "certs": self.settings.certificates,
            "data": self.state / "data",
            "password": STORE_PASSWORD,
            **{what.replace("+", "_"): port for what, port in self.ports.items()},
        }

    def configure(self) -> None:
        """Write the broker's configuration and that of its log."""
        for folder in ("conf", "data", "tmp"):
            (self.state / folder).mkdir(exist_ok=True)
        log = {"log": self.state / "log" / "activemq.log"}
        for name, text in (
            ("activemq.xml", render("activemq.xml", self.template_values())),
            ("logging.properties", render("logging.properties", log)),
        ):
            (self.state / "conf" / name).write_text(text, encoding="utf-8")

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
