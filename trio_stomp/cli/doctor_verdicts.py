"""What the answer to CONNECT says about the steps CONNECT, login, vhost and broker."""

from __future__ import annotations

import re
import ssl
from typing import Final

from trio_stomp.brokers import ACTIVEMQ, ARTEMIS, GENERIC, RABBITMQ, Profile, is_authentication_refusal, profile_for
from trio_stomp.cli.doctor_findings import Finding, Status, Step, duration
from trio_stomp.cli.doctor_handshake import Answer, Kind
from trio_stomp.cli.doctor_target import Target
from trio_stomp.cli.doctor_tls import CLIENT_ADVICE, Certificate, refusal_of_client
from trio_stomp.client import is_tls_alert, speaker_of
from trio_stomp.errors import BrokerError, RemoteProtocolError
from trio_stomp.protocol import Connected, ServerInfo

__all__ = ["broker_finding", "on_connected", "on_refused", "on_unanswered"]

_VHOST: Final = re.compile(r"virtual host", re.IGNORECASE)
_VERSION: Final = re.compile(r"version", re.IGNORECASE)


def on_connected(connected: Connected, answer: Answer, target: Target) -> list[Finding]:
    """The findings where the broker has let us in."""
    what = f"the broker answers, and speaks STOMP {connected.version} ({duration(answer.seconds)})"
    user = "nobody: no login was sent, and none was asked for" if target.login is None else repr(target.login)
    return [
        Finding(step=Step.CONNECT, status=Status.OK, what=what),
        Finding(step=Step.LOGIN, status=Status.OK, what=f"let in as {user}"),
        _accepted_vhost(connected, target),
    ]


def _accepted_vhost(connected: Connected, target: Target) -> Finding:
    profile = target.profile or profile_for(connected.server)
    if profile.name in (ACTIVEMQ.name, ARTEMIS.name):
        what = f"{profile.name} has no virtual hosts"
        if target.vhost is None:
            return Finding(step=Step.VHOST, status=Status.SKIPPED, what=what)
        advice = (f"{target.vhost!r} is ignored: all destinations are seen whatever it is",)
        return Finding(step=Step.VHOST, status=Status.WARNING, what=what, advice=advice)
    which = f"{target.host_header!r}" + ("" if target.vhost is not None else ", the default")
    return Finding(step=Step.VHOST, status=Status.OK, what=which)


def broker_finding(server: str | None, named: Profile | None) -> Finding:
    """What the broker says of itself, and what this library makes of it.

    Args:
        server: The ``server`` header of CONNECTED.
        named: The broker that the user named.
    """
    profile = named or profile_for(server)
    if server is None:
        what, known = "it does not say what it is", False
    else:
        try:
            info = ServerInfo.parse(server)
        except RemoteProtocolError:
            what = repr(server)
        else:
            what = info.name + ("" if info.version is None else f" {info.version}")
        known = profile is not GENERIC
    if known:
        return Finding(step=Step.BROKER, status=Status.OK, what=f"{what}; its ways are known here")
    if named is not None:
        return Finding(step=Step.BROKER, status=Status.OK, what=f"{what}; taken for {profile.name}, as you say")
    advice = ("its ways are not known here, so none are assumed; if it is one of the known, say so: --profile",)
    return Finding(step=Step.BROKER, status=Status.WARNING, what=what, advice=advice)


def on_refused(error: BrokerError, answer: Answer, target: Target) -> list[Finding]:
    """The findings where the broker answers CONNECT with an ERROR."""
    text = f"{error.message}\n{error.body.decode('utf-8', 'replace')}"
    said = f"the broker says: {error}"
    spoke = Finding(
        step=Step.CONNECT, status=Status.OK, what=f"the broker answers, and speaks STOMP ({duration(answer.seconds)})"
    )
    if _VHOST.search(text):
        login = Finding(step=Step.LOGIN, status=Status.OK, what="not refused: the broker got as far as the vhost")
        return [spoke, login, _failed(Step.VHOST, said, *_vhost_advice(target))]
    if is_authentication_refusal(error.message, error.body):
        return [spoke, _failed(Step.LOGIN, said, *_login_advice(target, error))]
    if _VERSION.search(error.message):
        supported = error.headers.get("version")
        more = "" if supported is None else f"; it speaks {supported}"
        return [_failed(Step.CONNECT, said + more, "offer a version that it speaks: --stomp-version")]
    return [_failed(Step.CONNECT, said, "these are the broker's own words; its log may say more")]


def _vhost_advice(target: Target) -> list[str]:
    if target.vhost is None:
        return [f"{target.host_header!r} was asked for, the usual default; name another one: --vhost, or in the URL"]
    advice = [f"does the virtual host {target.vhost!r} exist, and may {target.login or 'this user'} use it?"]
    if not target.vhost.startswith("/"):
        advice.append(f"a name that begins with a slash is written /%2F{target.vhost} in a URL")
    return advice


def _login_advice(target: Target, error: BrokerError) -> list[str]:
    if target.login is None:
        return ["no login was sent: --login USER, and the passcode by --ask-passcode, --passcode-file or a variable"]
    if target.passcode is None:
        return [f"no passcode was sent for {target.login!r}: --ask-passcode, --passcode-file or a variable"]
    advice = [f"is the passcode of {target.login!r} right? It was sent, and is not shown here"]
    if target.passcode != target.passcode.strip():
        advice.append("the passcode begins or ends with white space; is that part of it?")
    if "\\" in target.passcode and target.profile is None:
        advice.append("brokers read the backslash in the passcode in different ways; say which one it is: --profile")
    if target.login == "guest" and "Access refused" in str(error):
        advice.append(f"{RABBITMQ.name} lets guest in from its own machine only, unless it is told otherwise")
    return advice


def on_unanswered(answer: Answer, certificate: Certificate | None, target: Target) -> Finding:
    """The finding where no STOMP comes back.

    Args:
        answer: What came.
        certificate: What the port shows to TLS, where plain STOMP was tried and it speaks TLS.
        target: What was asked for.
    """
    seen = _seen(answer, target)
    if certificate is not None or (not target.tls and is_tls_alert(answer.seen)):
        whose = "" if certificate is None else f"; {certificate}"
        what = f"this port speaks TLS, and was spoken to without ({seen}){whose}"
        return _failed(Step.CONNECT, what, "write stomps:// in place of stomp://")
    if answer.kind is Kind.STRANGE:
        advice = "find the port where the broker speaks STOMP, usually 61613, or 61614 for TLS"
        return _failed(Step.CONNECT, f"what answers is no STOMP: it is {speaker_of(answer.seen)}", advice)
    if isinstance(answer.error, ssl.SSLError) and refusal_of_client(answer.error):
        what = f"the broker wants another certificate of this client: {answer.error.reason}"
        return _failed(Step.CONNECT, what, CLIENT_ADVICE)
    if answer.kind is Kind.SILENT:
        advice = (
            "the host takes connections and is silent: the broker hangs or is still starting, "
            "or a proxy or load balancer has none behind it"
        )
        return _failed(Step.CONNECT, seen, advice, "a broker under load may take longer: --connect-timeout")
    return _failed(
        Step.CONNECT,
        seen,
        "is it the port for STOMP? Brokers end what they don't understand without a word",
        "a broker that has too many connections, or a proxy without a broker, does so as well",
    )


def _seen(answer: Answer, target: Target) -> str:
    if answer.kind is Kind.SILENT:
        return f"no answer to CONNECT within {duration(target.timeout)}"
    if answer.kind is Kind.BROKEN:
        return f"the connection broke at CONNECT: {answer.error}"
    if answer.kind is Kind.CLOSED:
        return f"the connection was closed in place of an answer to CONNECT ({duration(answer.seconds)})"
    return f"it answered {speaker_of(answer.seen)}"


def _failed(step: Step, what: str, *advice: str) -> Finding:
    return Finding(step=step, status=Status.FAILED, what=what, advice=advice)
