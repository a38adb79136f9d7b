"""The queues of a broker, from its management interface over HTTP.

RabbitMQ has an interface of its own (the plugin ``rabbitmq_management``); ActiveMQ Classic and Artemis have Jolokia,
which reads the MBeans of the JVM. This module requests what both provide.
"""

from __future__ import annotations

import base64
import fnmatch
import http.client
import json
import ssl
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Self, TypeGuard

import anyio

from trio_stomp.cli.options import Link
from trio_stomp.cli.running import CommandFailed, ExitCode, InvalidUsage
from trio_stomp.cli.saved_contexts import is_array, is_object
from trio_stomp.transport import Endpoint, UrlParts

__all__ = ["Management", "Queue", "is_chosen"]

_TIMEOUT: Final = 10.0

# A longer answer must be from another kind of server.
_MAX_BYTES: Final = 64 * 1024 * 1024

# No counter of a broker has more bits.
_LARGEST: Final = 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """The figures that a broker reports for a queue."""

    # On RabbitMQ after its virtual host, unless that is ``/``.
    name: str
    # Messages that wait for a consumer.
    ready: int
    unacknowledged: int
    consumers: int
    # Since the broker started. For ActiveMQ, those that were acknowledged are delivered.
    received: int
    delivered: int
    received_per_second: float | None = None
    delivered_per_second: float | None = None


def is_chosen(name: str, wanted: Iterable[str]) -> bool:
    """Whether the name of a queue is among these names and patterns, which may be written as destinations."""
    # Only * and ? are special.
    patterns = [each.replace("[", "[[]") for each in wanted]
    return any(
        fnmatch.fnmatchcase(name, pattern) for each in patterns for pattern in (each, each.removeprefix("/queue/"))
    )


_COUNTERS: Final = ("publish", "publish_details.rate", "deliver_get", "deliver_get_details.rate")

# RabbitMQ sends hundreds of fields for each queue unless the columns are named.
_RABBITMQ: Final = "/api/queues?columns=" + ",".join(
    ["name", "vhost", "messages_ready", "messages_unacknowledged", "consumers"]
    + [f"message_stats.{each}" for each in _COUNTERS]
)

# Where Classic and Artemis have Jolokia.
_JOLOKIA: Final = ("/api/jolokia", "/console/jolokia")


@dataclass(frozen=True, slots=True)
class _Beans:
    """The MBeans of a broker's queues, and the meaning of their attributes."""

    broker: str
    queues: str
    size: str
    in_flight: str
    received: str
    delivered: str

    def requests(self) -> list[dict[str, object]]:
        """Return the requests for Jolokia: whether the broker is of this kind, and its queues."""
        wanted = ["Name", "ConsumerCount", self.size, self.in_flight, self.received, self.delivered]
        return [{"type": "search", "mbean": self.broker}, {"type": "read", "mbean": self.queues, "attribute": wanted}]

    def queue(self, bean: Mapping[str, object]) -> Queue:
        in_flight = _number(bean, self.in_flight)
        return Queue(
            name=str(bean.get("Name")),
            # The size includes messages in flight.
            ready=max(0, _number(bean, self.size) - in_flight),
            unacknowledged=in_flight,
            consumers=_number(bean, "ConsumerCount"),
            received=_number(bean, self.received),
            delivered=_number(bean, self.delivered),
        )


_KINDS: Final = (
    _Beans(
        broker="org.apache.activemq:type=Broker,brokerName=*",
        queues="org.apache.activemq:type=Broker,brokerName=*,destinationType=Queue,destinationName=*",
        size="QueueSize",
        in_flight="InFlightCount",
        received="EnqueueCount",
        delivered="DequeueCount",
    ),
    _Beans(
        broker="org.apache.activemq.artemis:broker=*",
        queues="org.apache.activemq.artemis:broker=*,component=addresses,address=*,subcomponent=queues,"
        "routing-type=*,queue=*",
        size="MessageCount",
        in_flight="DeliveringCount",
        received="MessagesAdded",
        delivered="MessagesAcknowledged",
    ),
)


class _Https(http.client.HTTPSConnection):
    """HTTPS to a host whose name may have a final dot, which is no part of its certificate: RFC 6066, 3."""

    def __init__(self, host: str, port: int | None, tls: ssl.SSLContext | None) -> None:
        self._tls = ssl.create_default_context() if tls is None else tls
        super().__init__(host, port, timeout=_TIMEOUT, context=self._tls)

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self.host.removesuffix("."))


class Management:
    """The management interface of a broker. A user and a passcode in its URL come before the others."""

    def __init__(self, url: str, *, login: str | None, passcode: str | None, tls: ssl.SSLContext | None) -> None:
        parts = UrlParts(url, "URL of --management", "expected one such as http://localhost:15672")
        if parts.scheme not in ("http", "https") or not parts.host or not parts.path.isascii():
            raise InvalidUsage("--management must be a URL such as http://localhost:15672")
        self._scheme, self._host, self._port, self._path = parts.scheme, parts.host, parts.port, parts.path.rstrip("/")
        self._tls = tls
        host = f"[{self._host}]" if ":" in self._host else self._host
        port = "" if self._port is None else f":{self._port}"
        self._origin = f"{self._scheme}://{host}{port}"
        if parts.login is not None:
            login, passcode = parts.login, parts.passcode
        self._login = None if login is None else f"{login}:{passcode or ''}".encode(errors="surrogateescape")
        # Found by the first answer.
        self._jolokia: str | None = self._path if self._path.endswith("/jolokia") else None

    @classmethod
    def beside(cls, link: Link, url: str | None) -> Self:
        """The management interface at a URL, of the broker that a command would connect to.

        The user and the passcode are those of the options of the command, or else of the URL of the broker.
        """
        if url is None:
            raise InvalidUsage("queues are read from the management interface: pass --management URL")
        tls, endpoint = link.options.get("tls"), Endpoint.parse(link.urls[0])
        return cls(
            url,
            login=link.options.get("login") or endpoint.login,
            passcode=link.options.get("passcode") or endpoint.passcode,
            tls=tls if not isinstance(tls, bool) else None,
        )

    def __str__(self) -> str:
        # Without user and passcode.
        return f"{self._origin}{self._path}"

    async def queues(self) -> list[Queue]:
        """Return all queues.

        Raises:
            CommandFailed: The interface does not answer, refuses the login, or is of another kind.

        Cancellation: does not wait for the answer.
        """
        return await anyio.to_thread.run_sync(self._queues, abandon_on_cancel=True)

    def _queues(self) -> list[Queue]:
        if self._jolokia is None:
            found = self._ask(f"{self._path}{_RABBITMQ}")
            if found is not None:
                return list(_rabbitmq_queues(found))
        places = [f"{self._path}{each}" for each in _JOLOKIA]
        if self._jolokia is not None:
            # Jolokia's agent for a JVM without a web console answers only at the second.
            places = [self._jolokia, f"{self._jolokia}/"]
        requests = [request for kind in _KINDS for request in kind.requests()]
        for place in places:
            found = self._ask(place, requests)
            if found is not None:
                self._jolokia = place
                return _jolokia_queues(found)
        raise CommandFailed(f"{self} is not a management interface of RabbitMQ, ActiveMQ Classic or Artemis")

    def _ask(self, path: str, content: object = None) -> object:
        """Return the decoded JSON at a path; None if nothing is there."""
        # Jolokia refuses requests that do not say which page they are from.
        headers = {"Accept": "application/json", "Origin": self._origin}
        if self._login is not None:
            headers["Authorization"] = f"Basic {base64.b64encode(self._login).decode('ascii')}"
        body = None
        if content is not None:
            body, headers["Content-Type"] = json.dumps(content), "application/json"
        connection = self._connection()
        try:
            # This follows no redirect, which would send the passcode to another place.
            connection.request("GET" if body is None else "POST", path, body, headers)
            with connection.getresponse() as response:
                answer = response.read(_MAX_BYTES + 1)
                status = response.status
        except OSError as error:
            why = error.strerror or str(error) or type(error).__name__
            raise CommandFailed(f"{self} does not answer: {why}", ExitCode.NOT_CONNECTED) from None
        except http.client.HTTPException as error:
            raise CommandFailed(f"{self} does not speak HTTP: {error!r}", ExitCode.NOT_CONNECTED) from None
        finally:
            connection.close()
        if status in (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN):
            hint = "is the passcode right, and may it see this? (RabbitMQ: tag management)"
            if self._login is None:
                hint = "pass --login, and --ask-passcode or --passcode-file"
            raise CommandFailed(f"{self} refuses this user (HTTP {status}); {hint}", ExitCode.REFUSED)
        if status == http.HTTPStatus.NOT_FOUND:
            return None
        if status != http.HTTPStatus.OK or len(answer) > _MAX_BYTES:
            raise CommandFailed(f"{self} answers with HTTP status {status} and {len(answer)} bytes")
        try:
            found: object = json.loads(answer)
        except (ValueError, RecursionError):
            # An HTML page, not JSON; or JSON that no broker writes.
            return None
        return found

    def _connection(self) -> http.client.HTTPConnection:
        if self._scheme == "http":
            return http.client.HTTPConnection(self._host, self._port, timeout=_TIMEOUT)
        return _Https(self._host, self._port, self._tls)


def _is_count(value: object) -> TypeGuard[int | float]:
    """Whether a value from JSON is a number that a broker may count; Python also reads NaN, Infinity and 1e999."""
    return isinstance(value, int | float) and abs(value) < _LARGEST


def _number(fields: Mapping[str, object], name: str) -> int:
    # RabbitMQ leaves out the counters of queues that were never used.
    value = fields.get(name, 0)
    return int(value) if _is_count(value) else 0


def _rate(counters: Mapping[str, object], name: str) -> float:
    details = counters.get(name)
    rate = details.get("rate") if is_object(details) else None
    return float(rate) if _is_count(rate) else 0.0


def _objects(values: object) -> Iterator[dict[str, object]]:
    if is_array(values):
        yield from filter(is_object, values)


def _rabbitmq_queues(found: object) -> Iterator[Queue]:
    for each in _objects(found):
        counters = each.get("message_stats")
        counters = counters if is_object(counters) else {}
        vhost, name = str(each.get("vhost", "/")), str(each.get("name"))
        yield Queue(
            name=name if vhost == "/" else f"{vhost}/{name}",
            ready=_number(each, "messages_ready"),
            unacknowledged=_number(each, "messages_unacknowledged"),
            consumers=_number(each, "consumers"),
            received=_number(counters, "publish"),
            delivered=_number(counters, "deliver_get"),
            # It counts only every few seconds, so two samples would show no rate, and then one that is too high.
            received_per_second=_rate(counters, "publish_details"),
            delivered_per_second=_rate(counters, "deliver_get_details"),
        )


def _jolokia_queues(found: object) -> list[Queue]:
    answers = list(_objects(found))
    # Two answers for each kind, as it has two requests.
    for kind, broker, queues in zip(_KINDS, answers[::2], answers[1::2], strict=False):
        if is_array(broker.get("value")) and broker["value"]:
            beans = queues.get("value")
            # Without any queue, Jolokia answers with an error and no value.
            return [kind.queue(bean) for bean in beans.values() if is_object(bean)] if is_object(beans) else []
    errors = "; ".join(dict.fromkeys(str(answer["error"]) for answer in answers if "error" in answer))
    raise CommandFailed(f"Jolokia finds no broker{f': {errors}' if errors else ''}")
