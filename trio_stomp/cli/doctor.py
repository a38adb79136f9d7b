"""``trio-stomp doctor``.

The doctor connects with `connect`, as any program does, and reports how far it got. After a failure, it makes checks
that `connect` has no reason to make: it reads a certificate that is not trusted, and tries the port without TLS, or
with it. None of these checks sends a passcode.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import ipaddress
import json
import socket
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, cast

import anyio
import click
from rich.console import Console
from rich.text import Text

from trio_stomp.brokers import ACTIVEMQ, ARTEMIS, GENERIC, RABBITMQ, is_vhost_refusal
from trio_stomp.cli.commands import Command, options
from trio_stomp.cli.options import Connecting, Link, LinkOptions, json_option
from trio_stomp.cli.running import ExitCode, Stop
from trio_stomp.cli.terminal import console, duration
from trio_stomp.client import Client, ConnectOptions, Phase, connect
from trio_stomp.errors import BrokerError, ConnectError, ConnectFailure, RemoteProtocolError, StompError
from trio_stomp.printable import harmless, one_line
from trio_stomp.protocol import ServerInfo, Version
from trio_stomp.runtime import current_time
from trio_stomp.session import Settings
from trio_stomp.transport import Endpoint, StepFailed, Steps, TlsStream, Transport, for_command_line, open_transport

__all__ = ["Finding", "Status", "Step", "diagnose", "doctor", "exit_code_for", "print_finding"]

# Brokers send their first heart-beat after one interval. RabbitMQ accepts nothing below one second.
_HEART_BEAT: Final = (1.0, 1.0)

# Maximum seconds to wait for a heart-beat, and seconds between two checks whether it came.
_PATIENCE: Final = 15.0
_LOOK: Final = 0.05

# `connect` gives up after 2.5 intervals, so wait a little longer than that.
_INTERVALS: Final = 2.6

# Seconds for an additional check.
_GLANCE: Final = 3.0

# The usual ports for STOMP: plain, and over TLS.
_USUAL_PORTS: Final = (61613, 61614)

# X509_V_FLAG_NO_CHECK_TIME (OpenSSL, x509_vfy.h): an expired certificate can be read, too.
_NO_CHECK_TIME: Final = ssl.VerifyFlags(0x200000)

# --- findings ---------------------------------------------------------------------------------------------------------


class Step(enum.StrEnum):
    """The steps of connecting, in order. WEBSOCKET is omitted for other URLs."""

    DNS = "DNS"
    TCP = "TCP"
    TLS = "TLS"
    WEBSOCKET = "WebSocket"
    CONNECT = "CONNECT"
    LOGIN = "login"
    VHOST = "vhost"
    HEART_BEAT = "heart-beat"
    BROKER = "broker"


class Status(enum.StrEnum):
    """The result of a step."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one step: what was found, and what to do about it."""

    step: Step
    status: Status
    what: str
    advice: tuple[str, ...] = ()


# Called with each finding as soon as there is one.
Report = Callable[[Finding], None]

# The steps in which `connect` can fail, and the steps here that they belong to.
_STEPS: Final = {
    "dns": Step.DNS,
    "tcp": Step.TCP,
    "unix": Step.TCP,
    "proxy": Step.TCP,
    "tls": Step.TLS,
    "websocket": Step.WEBSOCKET,
    "connect": Step.CONNECT,
}


def exit_code_for(findings: Iterable[Finding]) -> ExitCode:
    """Return the exit status for these findings."""
    failed = {finding.step for finding in findings if finding.status is Status.FAILED}
    if not failed:
        return ExitCode.OK
    if failed & {Step.LOGIN, Step.VHOST}:
        return ExitCode.REFUSED
    return ExitCode.FAILED if failed == {Step.HEART_BEAT} else ExitCode.NOT_CONNECTED


# --- the examination --------------------------------------------------------------------------------------------------


async def diagnose(url: str, options: ConnectOptions, report: Report) -> list[Finding]:
    """Connect to one broker, and report each step at once; return one finding for each step, in order.

    Raises:
        LocalProtocolError: The URL or an option is invalid.

    Cancellation: what was opened is closed.
    """
    return await _Examination(url, options, report).run()


class _Examination:
    """One broker under examination."""

    def __init__(self, url: str, options: ConnectOptions, report: Report) -> None:
        self._options: ConnectOptions = {"heart_beat": _HEART_BEAT, **options}
        self._settings = Settings.of(url, self._options)
        (self._endpoint,) = self._settings.endpoints
        self._url = url
        self._report = report
        self.findings: list[Finding] = []
        self._login = self._settings.login or self._endpoint.login
        given = self._settings.passcode
        self._passcode = self._endpoint.passcode if given is None else given
        self._vhost = self._settings.vhost or self._endpoint.vhost

    def _add(self, step: Step, status: Status, what: str, *advice: str) -> None:
        finding = Finding(step, status, what, tuple(filter(None, advice)))
        self.findings.append(finding)
        self._report(finding)

    async def run(self) -> list[Finding]:
        started = current_time()
        try:
            async with connect(self._url, **self._options) as client:
                took = duration(current_time() - started)
                await self._add_transport(until=Step.CONNECT)
                self._add(Step.CONNECT, Status.OK, f"the broker answers, and speaks STOMP {client.version} ({took})")
                self._add_accepted(client)
                await self._add_heart_beat(client)
                self._add_broker(client)
        except ConnectError as error:
            (failure,) = error.failures
            step = _STEPS[failure.pending_step or failure.step]
            await self._add_transport(until=step)
            if exit_code_for(self.findings) is ExitCode.OK:
                await self._add_failure(step, failure)
        except StompError:
            # After CONNECTED, the finding about the heart-beat reports it. Before: an extra is not installed.
            if not self.findings:
                raise
        taken = {finding.step for finding in self.findings}
        for step in Step:
            if step not in taken and (step is not Step.WEBSOCKET or self._endpoint.transport is Transport.WEBSOCKET):
                self._add(step, Status.SKIPPED, "not reached")
        return self.findings

    # --- up to CONNECT ------------------------------------------------------------------------------------------------

    async def _add_transport(self, *, until: Step) -> None:
        """Add the findings for the steps that succeeded before `until`."""
        endpoint = self._endpoint
        order = list(Step)
        reached = order[: order.index(until)]
        if Step.DNS in reached:
            await self._add_name()
        if Step.TCP in reached:
            if self._settings.proxy is not None:
                what = f"the proxy {self._settings.proxy} connects to {endpoint.authority}"
            elif endpoint.transport is Transport.UNIX:
                what = f"{endpoint.host} accepts connections"
            else:
                what = f"port {endpoint.port} accepts connections"
            self._add(Step.TCP, Status.OK, what)
        if Step.TLS in reached:
            await self._add_tls()
        if Step.WEBSOCKET in reached and endpoint.transport is Transport.WEBSOCKET:
            self._add(Step.WEBSOCKET, Status.OK, "the server speaks WebSocket")

    async def _add_name(self) -> None:
        host = self._endpoint.host
        if self._endpoint.transport is Transport.UNIX:
            self._add(Step.DNS, Status.SKIPPED, "a Unix socket has no host name")
        elif self._settings.proxy is not None:
            self._add(Step.DNS, Status.SKIPPED, f"the proxy looks up {host}")
        elif _is_address(host):
            self._add(Step.DNS, Status.SKIPPED, f"{host} is an address")
        else:
            started, timeout = current_time(), self._settings.connect_timeout
            try:
                with anyio.fail_after(timeout):
                    found = await anyio.getaddrinfo(host, self._endpoint.port, type=socket.SOCK_STREAM)
            except TimeoutError:
                # `connect` counts looking up a name as a part of TCP.
                what = f"{host}: no answer from the name servers within {timeout:g} s (--connect-timeout)"
                self._add(Step.DNS, Status.FAILED, what, "is this machine connected to a network?")
            except OSError as error:
                # `connect` resolved it a moment ago.
                self._add(Step.DNS, Status.WARNING, f"{host} cannot be looked up any more: {error}")
            else:
                addresses = ", ".join(dict.fromkeys(str(entry[4][0]) for entry in found))
                self._add(Step.DNS, Status.OK, f"{host} is {addresses} ({duration(current_time() - started)})")

    async def _add_tls(self) -> None:
        if not self._endpoint.tls:
            secret = "" if self._passcode is None else ", the passcode included,"
            what = f"not requested: what is sent{secret} can be read on the way"
            if self._endpoint.transport is Transport.UNIX:
                what = "a Unix socket has no TLS"
            self._add(Step.TLS, Status.SKIPPED, what)
            return
        context = self._settings.tls
        stream = await self._handshake(context if isinstance(context, ssl.SSLContext) else ssl.create_default_context())
        what = "the certificate is trusted"
        if stream is not None:
            cipher = stream.cipher()
            agreed = f"{stream.version()}, {cipher[0] if cipher is not None else 'no cipher'}"
            what = f"{agreed}; {what}: {_certificate_of(stream)}"
        self._add(Step.TLS, Status.OK, what)

    # --- after CONNECTED ----------------------------------------------------------------------------------------------

    def _add_accepted(self, client: Client) -> None:
        login, vhost, profile = self._login, self._vhost, client.profile.name
        what = "no login was sent, and none was required" if login is None else f"accepted as {login!r}"
        self._add(Step.LOGIN, Status.OK, what)
        if profile not in (ACTIVEMQ.name, ARTEMIS.name):
            self._add(Step.VHOST, Status.OK, "'/', the default" if vhost is None else repr(vhost))
        elif vhost is None:
            self._add(Step.VHOST, Status.SKIPPED, f"{profile} has no virtual hosts")
        else:
            advice = f"{vhost!r} is ignored; leave it out"
            self._add(Step.VHOST, Status.WARNING, f"{profile} has no virtual hosts", advice)

    async def _add_heart_beat(self, client: Client) -> None:
        theirs, ours = client.heart_beat.server_sends_seconds, client.heart_beat.client_sends_seconds
        agreed = f"the broker sends {_every(theirs)}, this side {_every(ours)}"
        if not theirs:
            why = "the broker or --heart-beat turned them off"
            if client.version is Version.V1_0:
                why = "STOMP 1.0 has no heart-beats"
            self._add(Step.HEART_BEAT, Status.WARNING, agreed, f"{why}; a dead connection goes unnoticed")
            return
        if _INTERVALS * theirs > _PATIENCE:
            self._add(Step.HEART_BEAT, Status.OK, f"{agreed}; not waited for")
            return
        started = current_time()
        try:
            with anyio.fail_after(_INTERVALS * theirs):
                await _next_read(client)
        except (TimeoutError, StompError) as error:
            why = f"none came within {duration(current_time() - started)}"
            if isinstance(error, StompError):
                why = str(error)
            advice = "clients drop such a connection again and again: does a proxy hold back small packets?"
            self._add(Step.HEART_BEAT, Status.FAILED, f"{agreed}, but {why}", advice)
        else:
            waited = duration(current_time() - started)
            self._add(Step.HEART_BEAT, Status.OK, f"{agreed}; the first one came after {waited}")

    def _add_broker(self, client: Client) -> None:
        server, named = client.server, self._settings.profile
        what = "the broker does not name itself" if server is None else _server_name(server)
        if named is not None:
            self._add(Step.BROKER, Status.OK, f"{what}; treated as {named.name}, as --profile says")
        elif client.profile.name == GENERIC.name:
            advice = "no profile for this broker, so only plain STOMP is used; if it is a known one, pass --profile"
            self._add(Step.BROKER, Status.WARNING, what, advice)
        else:
            self._add(Step.BROKER, Status.OK, f"{what}; profile {client.profile.name}")

    # --- failures -----------------------------------------------------------------------------------------------------

    async def _add_failure(self, step: Step, failure: ConnectFailure) -> None:
        """Add the finding for the step that failed, after additional checks if they help."""
        hint = for_command_line(failure.hint)
        what = for_command_line(failure.reason.removesuffix(f"; {failure.hint}"))
        direct = self._endpoint.transport is Transport.TCP
        if isinstance(failure.cause, BrokerError):
            self._add_refusal(failure.cause, failure, what, hint)
        elif isinstance(failure.cause, ssl.SSLCertVerificationError):
            certificate = await self._certificate()
            self._add(step, Status.FAILED, what if certificate is None else f"{what}; {certificate}", hint)
        elif step is Step.TCP:
            self._add(step, Status.FAILED, what, hint, *await self._neighbors())
        elif step is Step.TLS and direct and await self._is_plain_stomp():
            advice = "write stomp:// for this port, or find the broker's port for TLS, usually 61614"
            self._add(step, Status.FAILED, f"this is a plain STOMP port, without TLS ({what})", advice)
        elif step is Step.CONNECT and direct and not self._endpoint.tls and (shown := await self._certificate()):
            self._add(step, Status.FAILED, f"this port speaks TLS ({what}); {shown}", "write stomps:// for this port")
        else:
            self._add(step, Status.FAILED, what, hint)

    def _add_refusal(self, error: BrokerError, failure: ConnectFailure, what: str, hint: str) -> None:
        """Add the findings for an ERROR frame in answer to CONNECT."""
        spoke = "the broker answers, and speaks STOMP"
        if is_vhost_refusal(error.message, error.body):
            self._add(Step.CONNECT, Status.OK, spoke)
            self._add(Step.LOGIN, Status.OK, "not refused")
            advice = ""
            if self._vhost is not None and not self._vhost.startswith("/"):
                advice = f"a name that begins with a slash is written /%2F{self._vhost} in a URL"
            self._add(Step.VHOST, Status.FAILED, what, hint, advice)
        elif failure.refused:
            self._add(Step.CONNECT, Status.OK, spoke)
            self._add(Step.LOGIN, Status.FAILED, what, *self._login_advice(error, hint))
        else:
            self._add(Step.CONNECT, Status.FAILED, what, hint or "the broker's log may say more")

    def _login_advice(self, error: BrokerError, hint: str) -> list[str]:
        if self._login is None:
            return ["no login was sent: pass --login USER, and the passcode by --ask-passcode or --passcode-file"]
        if self._passcode is None:
            return [f"no passcode was sent for {self._login!r}: pass --ask-passcode or --passcode-file"]
        advice = [hint]
        if self._passcode != self._passcode.strip():
            advice.append("the passcode begins or ends with white space; is that part of it?")
        if "\\" in self._passcode and self._settings.profile is None:
            advice.append("brokers read a backslash in the passcode in different ways: name the broker with --profile")
        if self._login == "guest" and "access refused" in str(error).lower():
            advice.append(f"by default, {RABBITMQ.name} accepts guest only from its own machine")
        return advice

    # --- second looks -------------------------------------------------------------------------------------------------

    async def _handshake(self, context: ssl.SSLContext) -> ssl.SSLObject | None:
        """Make another TLS handshake at this port and close it at once; None if it fails."""
        endpoint = dataclasses.replace(self._endpoint, transport=Transport.TCP, tls=True)
        options = dataclasses.replace(self._settings, tls=context)
        with anyio.move_on_after(_GLANCE):
            try:
                opened = await open_transport(endpoint, options, Steps(endpoint, tls=True))
            except StepFailed:
                return None
            await anyio.aclose_forcefully(opened)
            # The result of the handshake can still be read.
            return opened.ssl_object if isinstance(opened, TlsStream) else None
        return None

    async def _certificate(self) -> str | None:
        """Return the certificate that this port presents, trusted or not; None if the port does not speak TLS."""
        stream = await self._handshake(_trusting())
        encoded: bytes | None = None if stream is None else stream.getpeercert(binary_form=True)
        if stream is None or encoded is None:
            return None
        # Python decodes only certificates that it trusts, so a second handshake trusts this very one.
        return _certificate_of(await self._handshake(_trusting(ssl.DER_cert_to_PEM_cert(encoded))) or stream)

    async def _is_plain_stomp(self) -> bool:
        """Whether the port answers CONNECT without TLS; neither login nor passcode is sent."""
        plain = str(dataclasses.replace(self._endpoint, tls=False))
        try:
            async with connect(plain, connect_timeout=_GLANCE, disconnect_timeout=_GLANCE, heart_beat=(0, 0)):
                return True
        except ConnectError as error:
            return isinstance(error.failures[0].cause, BrokerError)
        except StompError:
            # The connection was lost after CONNECTED.
            return True

    async def _neighbors(self) -> list[str]:
        """Return the usual ports that accept connections, if this one does not."""
        if self._endpoint.transport is not Transport.TCP or self._settings.proxy is not None:
            return []
        found: list[str] = []
        for port in _USUAL_PORTS:
            if port == self._endpoint.port:
                continue
            with anyio.move_on_after(_GLANCE):
                try:
                    stream = await anyio.connect_tcp(self._endpoint.host, port)
                except OSError:
                    continue
                await anyio.aclose_forcefully(stream)
                found.append(f"port {port} of this host accepts connections, and is a usual one: is that the broker?")
        return found


def _certificate_of(handshake: ssl.SSLObject) -> str:
    """Describe the certificate of the server. Without trust in it, nothing but its fingerprint is known."""
    encoded = handshake.getpeercert(binary_form=True) or b""
    # Typed loosely, because each entry has a type of its own.
    found = cast("dict[str, object]", handshake.getpeercert() or {})
    pairs = cast("Iterable[tuple[str, str]]", found.get("subjectAltName", ()))
    names = ", ".join(value for kind, value in pairs if kind in ("DNS", "IP Address"))
    parts = cast("Iterable[Iterable[tuple[str, str]]]", found.get("issuer", ()))
    issuers = {key: value for part in parts for key, value in part}
    issuer = issuers.get("commonName") or issuers.get("organizationName")
    return (
        f"the certificate is for {names or 'unknown names'}, by {issuer or 'an unknown issuer'}, "
        f"until {found.get('notAfter') or 'an unknown date'} (SHA-256 {hashlib.sha256(encoded).hexdigest()})"
    )


def _trusting(*certificates: str) -> ssl.SSLContext:
    """Return a TLS context for reading certificates. It trusts these; without any, it trusts all."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # No data is sent over it.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    for pem in certificates:
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
        context.load_verify_locations(cadata=pem)
    return context


async def _next_read(client: Client) -> None:
    """Wait until the client reads something, or is closed."""
    before = client.statistics()
    # The clock is read after the statistics: an early start would make the last read look like a new one.
    started = current_time() - before.seconds_since_read
    while current_time() - client.statistics().seconds_since_read <= started:
        if client.state.phase is not Phase.CONNECTED:
            await client.wait_closed()
        await anyio.sleep(_LOOK)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _every(seconds: float) -> str:
    return f"every {seconds:g} s" if seconds else "none"


def _server_name(server: str) -> str:
    try:
        info = ServerInfo.parse(server)
    except RemoteProtocolError:
        return repr(server)
    return info.name if info.version is None else f"{info.name} {info.version}"


# --- the command ------------------------------------------------------------------------------------------------------

_MARKS: Final = {
    Status.OK: ("✓", "+", "green"),
    Status.WARNING: ("!", "!", "yellow"),
    Status.FAILED: ("✗", "x", "bold red"),
    Status.SKIPPED: ("-", "-", "dim"),
}

_STEP_WIDTH: Final = 12


def print_finding(finding: Finding, console: Console) -> None:
    """Print a finding as text."""
    mark, plain, style = _MARKS[finding.status]
    try:
        mark.encode(console.encoding)
    except UnicodeEncodeError:
        mark = plain
    line = Text().append(f"{mark} {finding.step:<{_STEP_WIDTH}}", style=style)
    # Text from a broker must not control the terminal.
    line.append(one_line(finding.what), style=style if finding.status is Status.SKIPPED else "")
    console.print(line, soft_wrap=True)
    for advice in finding.advice:
        console.print(Text(f"{'':{_STEP_WIDTH + 2}}-> {one_line(advice)}", style="cyan"), soft_wrap=True)


async def _examine(url: str, options: ConnectOptions, *, as_json: bool) -> ExitCode:
    address, output = str(Endpoint.parse(url)), console(quiet=as_json)
    output.print(Text(address, style="bold"), soft_wrap=True)
    findings = await diagnose(url, options, lambda finding: print_finding(finding, output))
    code = exit_code_for(findings)
    healthy = code is ExitCode.OK
    verdict, style = ("the connection works", "green") if healthy else ("it does not work", "bold red")
    output.print(Text(verdict, style=style), soft_wrap=True)
    if as_json:
        line = {"address": address, "healthy": healthy, "steps": list(map(dataclasses.asdict, findings))}
        # It is still the same JSON: control characters become JSON escapes.
        click.echo(harmless(json.dumps(line, ensure_ascii=False)))
    return code


@dataclass(frozen=True, kw_only=True)
class Doctor(Connecting):
    """Find out step by step why a connection fails, and what to do about it.

    Checks the host name, the port, TLS and its certificate, the answer to CONNECT, login, virtual host and heart-beat,
    and which broker it is. No message is sent.
    """

    as_json: bool = json_option("Print one line of JSON for each broker.")
    connection: LinkOptions = options(LinkOptions)

    async def run(self, link: Link, stop: Stop) -> ExitCode:  # noqa: ARG002  # a signal ends all of it
        """Examine one broker after the other; the first one that fails decides."""
        link.options.pop("reconnect", None)
        codes = [await _examine(url, link.options, as_json=self.as_json) for url in link.urls]
        return next(filter(None, codes), ExitCode.OK)


doctor = Command(
    Doctor,
    "trio-stomp doctor --url stomp://localhost:61613 --login ann",
    "trio-stomp doctor --json --url stomps://a.example.org --url stomps://b.example.org",
)
