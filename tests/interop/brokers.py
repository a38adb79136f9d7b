"""The real brokers: where they are, and in what they differ. What a broker does its own way is an expectation here."""

from __future__ import annotations

import enum
import json
import ssl
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from typing_extensions import TypeIs

SCRIPT: Final = Path(__file__).parents[2] / "scripts" / "brokers"


class Nack(enum.Enum):
    """What becomes of a message that a consumer refuses."""

    REQUEUED = "back to its queue, and delivered again"
    DEAD_LETTERED = "to the dead letters"
    NOT_SUPPORTED = "refused by our client, because the broker would lose it"


class Reply(enum.Enum):
    """Where the answer to a request goes."""

    OWN_QUEUE = "an ordinary queue that only the asker knows"
    TEMPORARY_QUEUE = "a queue under /temp-queue/ that the asker subscribes to"


@dataclass(frozen=True, slots=True, kw_only=True)
class Behavior:
    """What one broker does where the others do otherwise.

    Attributes:
        profile: The name of the profile that its ``server`` header selects.
        checks_vhosts: It refuses a ``host`` that it does not have.
        alerts_cleartext: It answers a CONNECT on its TLS port with a TLS alert; else it just closes.
        nack_of_transient: What a NACK does to a message that is not persistent, on a queue without dead letters.
        nack_of_persistent: What it does to a persistent one, on a queue with dead letters.
        nacks_in_transactions: A NACK may be part of a transaction.
        given_back_are_redelivered: Buffered messages that were given back say ``redelivered:true`` to whom gets them.
        one_client_subscription_in_1_0: Our client refuses a second subscription in mode ``client`` in 1.0.
        keeps_unsettled_in_1_0: In 1.0 what was delivered and not settled stays locked until the connection ends.
        escapes_names: It decodes and encodes escapes in header names.
        escapes_in_1_0: It does so with values even in 1.0.
        last_repeat_wins: The versions in which the last of repeated headers counts, not the first.
        selects: It knows selectors.
        prefetch_is_exact: It never sends more than ``prefetch`` messages ahead of what was settled.
        forbidden_send_closes: The versions in which a SEND without the right to ends the connection.
        names_receipt: Its ERROR names the receipt of the frame that failed.
        durable_needs_client_id: A durable subscription belongs to a ``client-id``.
        forget_durable: Headers of the UNSUBSCRIBE that deletes a durable subscription, besides its id.
        reply: Where the answer to a request goes.
        dead_letter_prefix: Queues whose names begin so have dead letters.
    """

    profile: str
    checks_vhosts: bool = False
    alerts_cleartext: bool = True
    nack_of_transient: Nack
    nack_of_persistent: Nack
    nacks_in_transactions: bool = False
    given_back_are_redelivered: bool = True
    one_client_subscription_in_1_0: bool = False
    keeps_unsettled_in_1_0: bool = False
    escapes_names: bool = True
    escapes_in_1_0: bool = False
    last_repeat_wins: frozenset[str] = frozenset()
    selects: bool = True
    prefetch_is_exact: bool = True
    forbidden_send_closes: frozenset[str] = frozenset()
    names_receipt: bool = True
    durable_needs_client_id: bool = True
    forget_durable: Mapping[str, str] = field(default_factory=dict[str, str])
    reply: Reply = Reply.OWN_QUEUE
    dead_letter_prefix: str = "dlq-src."


BEHAVIORS: Final[Mapping[str, Behavior]] = {
    "rabbitmq": Behavior(
        profile="RabbitMQ",
        checks_vhosts=True,
        nack_of_transient=Nack.REQUEUED,
        nack_of_persistent=Nack.REQUEUED,
        nacks_in_transactions=True,
        one_client_subscription_in_1_0=True,
        keeps_unsettled_in_1_0=True,
        escapes_in_1_0=True,
        selects=False,
        forbidden_send_closes=frozenset({"1.0", "1.1", "1.2"}),
        names_receipt=False,
        durable_needs_client_id=False,
        forget_durable={"durable": "true"},
    ),
    "activemq": Behavior(
        profile="ActiveMQ Classic",
        nack_of_transient=Nack.NOT_SUPPORTED,
        nack_of_persistent=Nack.DEAD_LETTERED,
        escapes_names=False,
        forget_durable={"activemq.subscriptionName": "{name}"},
        reply=Reply.TEMPORARY_QUEUE,
    ),
    "artemis": Behavior(
        profile="ActiveMQ Artemis",
        alerts_cleartext=False,
        nack_of_transient=Nack.NOT_SUPPORTED,
        nack_of_persistent=Nack.NOT_SUPPORTED,
        given_back_are_redelivered=False,
        last_repeat_wins=frozenset({"1.0", "1.1"}),
        prefetch_is_exact=False,
        forbidden_send_closes=frozenset({"1.2"}),
        forget_durable={"durable-subscription-name": "{name}"},
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A user of the brokers."""

    login: str
    passcode: str
    vhost: str


GUEST: Final = Account(login="guest", passcode="guest", vhost="/")
# Her passcode has a colon, which no escape may touch in CONNECT.
ALICE: Final = Account(login="alice", passcode="s3cret:x", vhost="/test")
READ_ONLY: Final = Account(login="readonly", passcode="readonly", vhost="/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A running broker.

    Attributes:
        name: As `scripts/brokers` calls it.
        host: Where it listens.
        ports: Its ports by kind: ``stomp``, ``stomp+ssl``, ``mtls`` where it has one.
        files: The certificates by name: ``ca``, ``other_ca``, ``client_cert``, ``client_key``.
        dead_letters: The queue that takes the dead letters.
        behavior: What it does its own way.
    """

    name: str
    host: str
    ports: Mapping[str, int]
    files: Mapping[str, str]
    dead_letters: str
    behavior: Behavior

    def url(self, kind: str = "stomp", *, port: int | None = None, host: str | None = None) -> str:
        """The URL of one of its ports, without user."""
        scheme = "stomps" if kind in {"stomp+ssl", "mtls"} else "stomp"
        return f"{scheme}://{host or self.host}:{port or self.ports[kind]}"

    def trust(self, *, ca: str = "ca", client_certificate: bool = False) -> ssl.SSLContext:
        """A TLS context that trusts one of the certificate authorities."""
        context = ssl.create_default_context(cafile=self.files[ca])
        if client_certificate:
            context.load_cert_chain(self.files["client_cert"], self.files["client_key"])
        return context


def running_brokers() -> dict[str, Broker]:
    """The brokers that run now, as `scripts/brokers env` tells."""
    done = subprocess.run([SCRIPT, "env"], check=True, capture_output=True, text=True)
    described = _entries(json.loads(done.stdout))
    return {name: _broker(name, _entries(entry)) for name, entry in described.items() if _runs(_entries(entry))}


def _runs(entry: Mapping[str, object]) -> bool:
    return entry["running"] is True and entry["server"] is not None


def _broker(name: str, entry: Mapping[str, object]) -> Broker:
    ports = {kind: port for kind, port in _entries(entry["ports"]).items() if isinstance(port, int)}
    return Broker(
        name=name,
        host=str(entry["host"]),
        ports=ports,
        files={what: str(path) for what, path in _entries(entry["tls"]).items()},
        dead_letters=str(_entries(entry["dead_letters"])["destination"]),
        behavior=BEHAVIORS[name],
    )


def _is_object(value: object) -> TypeIs[Mapping[str, object]]:
    return isinstance(value, Mapping)


def _entries(value: object) -> Mapping[str, object]:
    if not _is_object(value):
        raise TypeError(f"`scripts/brokers env` gave {value!r} where an object was expected")
    return value
