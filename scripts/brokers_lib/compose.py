"""The files that compose.yaml mounts, rendered from the same templates as the private brokers' own."""

import sys
from pathlib import Path
from typing import Final

from brokers_lib.activemq import ActiveMQ
from brokers_lib.artemis import Artemis
from brokers_lib.broker import render
from brokers_lib.rabbitmq import PLUGINS, RabbitMQ, definitions
from brokers_lib.rabbitmq4 import RabbitMQ4
from brokers_lib.settings import PROJECT_ROOT, Settings

FOLDER: Final = PROJECT_ROOT / "scripts" / "compose"
# In a container everything is allowed in, and compose.yaml publishes the ports on the host's loopback alone.
ANYWHERE: Final = "0.0.0.0"  # noqa: S104 - see above
# Under the root of the container, so that the certificates are at /certs, where compose.yaml mounts them.
SETTINGS: Final = Settings(state=Path("/"))


def files() -> dict[str, str]:
    """The content of each file, by its path below `scripts/compose`."""
    activemq, artemis = ActiveMQ(SETTINGS), Artemis(SETTINGS)
    rabbitmq_values = {"host": ANYWHERE, "definitions": "/etc/rabbitmq/definitions.json"}
    activemq_values = {"host": ANYWHERE, "data": "/opt/apache-activemq/data"}
    artemis_values = {"host": ANYWHERE, "data": "/var/lib/artemis-instance/data"}
    both = {
        f"{rabbitmq.name}/rabbitmq.conf": render("rabbitmq.conf", rabbitmq.template_values() | rabbitmq_values)
        for rabbitmq in (RabbitMQ(SETTINGS), RabbitMQ4(SETTINGS))
    }
    return {
        **both,
        "rabbitmq/definitions.json": definitions(),
        "rabbitmq/enabled_plugins": PLUGINS,
        "activemq/activemq.xml": render("activemq.xml", activemq.template_values() | activemq_values),
        "artemis/broker.xml": render("artemis-broker.xml", artemis.template_values() | artemis_values),
        **{f"artemis/{name}": text for name, text in artemis.logins().items()},
    }


def write(*, check: bool) -> int:
    """Write the files, or only tell whether they are current.

    Args:
        check: Whether to write nothing.

    Returns:
        The exit status: 1 where `check` found a file that is not as it should be.
    """
    stale = 0
    for name, text in files().items():
        path = FOLDER / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        if check:
            print(f"brokers: {path} is stale; run `scripts/brokers compose`", file=sys.stderr)
            stale = 1
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return stale
