"""Spring's simple broker: a small application of our own, with what it needs from Maven Central."""

import os
from pathlib import Path
from typing import ClassVar

from brokers_lib import install, java_programs, ping
from brokers_lib.broker import Broker
from brokers_lib.settings import HOST, LIBRARY, SPRING_VERSION

_PATH = "/ws"


class Spring(Broker):
    """Spring's simple broker behind the WebSocket of an embedded Tomcat; there is no login, and nothing is stored."""

    name = "spring"
    offsets: ClassVar = {"ws": 0}

    @property
    def library(self) -> Path:
        """The folder of the jars, by version, so that a new pin downloads anew."""
        return self.settings.state / "downloads" / f"spring-{SPRING_VERSION}"

    @property
    def classes(self) -> Path:
        """The folder of the compiled application."""
        return self.settings.state / "downloads" / "spring-broker"

    def install(self) -> None:
        """Download the jars that `spring-pom.xml` names, and compile the application."""
        install.java(self.settings.java)
        install.jars(
            LIBRARY / "spring-pom.xml",
            f"spring.version={SPRING_VERSION}",
            self.library,
            purpose=f"fetching Spring {SPRING_VERSION}",
        )
        java_programs.build(self.settings, "SpringBroker", self.classes, self.library)

    def configure(self) -> None:
        """All of it is in the program."""

    def launch(self) -> None:
        """Start the application."""
        options = ("-Xms32m", "-Xmx256m", "-Djava.net.preferIPv4Stack=true")
        program = java_programs.command(self.settings, "SpringBroker", self.classes, self.library, options)
        command = [*program, HOST, str(self.ports["ws"]), str(self.state / "tomcat")]
        self.daemon.spawn(command, environment=os.environ, folder=self.state, output=self.output)

    def answer(self) -> str | None:
        """Its version, where it answers; it does not call itself anything."""
        connected = ping.answers_on_websocket(HOST, self.ports["ws"], _PATH)
        return f"Spring's simple broker {SPRING_VERSION}" if connected else None

    def url(self) -> str:
        """The address of its WebSocket."""
        return f"ws://{HOST}:{self.ports['ws']}{_PATH}"
