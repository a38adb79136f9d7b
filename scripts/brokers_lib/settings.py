"""What is pinned, where things live and who may log in: the one place to change any of it."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

PROJECT_ROOT: Final = Path(__file__).resolve().parents[2]
LIBRARY: Final = Path(__file__).resolve().parent

# The last release that Maven Central has as a ready-made zip under its old group; it runs on Java 17.
ARTEMIS_VERSION: Final = "2.44.0"
# The newest line whose WebSocket connector runs on Java 17. The same number stands in activemq-pom.xml.
ACTIVEMQ_VERSION: Final = "6.1.8"
# The newest line of Spring that runs on Java 17. The same number stands in spring-pom.xml.
SPRING_VERSION: Final = "6.1.21"
# The Eclipse compiler for our own Java programs; the newest line that runs on Java 17.
ECJ_VERSION: Final = "3.33.0"
# The suite of Debian that RabbitMQ 4 comes from: the first that had the newest line. `trixie` has 4.0.
RABBITMQ4_SUITE: Final = "sid"
# Pinned so that a new plugin cannot change what `install` does.
MAVEN_DEPENDENCY_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"

HOST: Final = "127.0.0.1"
# Every port of a broker is its base plus a small offset. The bases are apart by a thousand, and below 49152, where
# the systems' ephemeral ports start; Linux's start lower, but rarely are all taken.
BASE_PORTS: Final[Mapping[str, int]] = {
    "rabbitmq": 41613,
    "activemq": 42613,
    "artemis": 43613,
    "spring": 45613,
    # 44613 is the Spark cluster's.
    "rabbitmq4": 46613,
}
# The passcodes of all brokers but Spring's, which has no login: as in the files of config/, where RabbitMQ's are hashed
# (`rabbitmqctl hash_password`). alice's has a colon, to see that it survives the escaping of CONNECT.
USERS: Final[Mapping[str, str]] = {"guest": "guest", "alice": "s3cret:x", "readonly": "readonly"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The choices that the environment may override."""

    state: Path
    base_ports: Mapping[str, int] = field(default_factory=lambda: BASE_PORTS)
    java: str | None = None
    rabbitmq4_suite: str = RABBITMQ4_SUITE
    rabbitmq_extra_conf: str = ""
    rabbitmq_advanced_conf: str = "[]."

    @property
    def certificates(self) -> Path:
        """The folder of the throw-away certificates, shared by all brokers."""
        return self.state / "certs"


def from_environment(environment: Mapping[str, str]) -> Settings:
    """Read the settings.

    Args:
        environment: The variables, usually `os.environ`. The names are listed in the help of `scripts/brokers`.

    Returns:
        The settings, with defaults for whatever is not set.

    Raises:
        SystemExit: A port is not a number.
    """
    bases = dict(BASE_PORTS)
    for name, base in BASE_PORTS.items():
        variable = f"TRIO_STOMP_{name.upper()}_PORT"
        if text := environment.get(variable):
            if not text.isdecimal():
                raise SystemExit(f"brokers: {variable} must be a port number, such as {base}; it is {text!r}")
            bases[name] = int(text)
    state = Path(environment.get("TRIO_STOMP_BROKERS_DIR") or PROJECT_ROOT / ".brokers").resolve()
    return Settings(
        state=state,
        base_ports=bases,
        java=environment.get("TRIO_STOMP_JAVA") or None,
        rabbitmq4_suite=environment.get("TRIO_STOMP_RABBITMQ4_SUITE") or RABBITMQ4_SUITE,
        rabbitmq_extra_conf=environment.get("TRIO_STOMP_RABBITMQ_CONF", ""),
        rabbitmq_advanced_conf=environment.get("TRIO_STOMP_RABBITMQ_ADVANCED_CONF") or "[].",
    )


def make_state(state: Path) -> None:
    """Create the folder of all state, which hides itself from git."""
    if state == Path(tempfile.gettempdir()) or state == Path.home():
        raise SystemExit(f"brokers: TRIO_STOMP_BROKERS_DIR must be a folder of its own; it is {state}")
    state.mkdir(parents=True, exist_ok=True)
    (state / ".gitignore").write_text("*\n", encoding="utf-8")
