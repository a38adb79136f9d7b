"""``trio-stomp doctor``."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import click
from rich.console import Console
from rich.text import Text

from trio_stomp.cli.doctor import diagnose
from trio_stomp.cli.doctor_findings import Finding, Report, Status, exit_code_for
from trio_stomp.cli.doctor_network import Internet
from trio_stomp.cli.doctor_target import Target
from trio_stomp.cli.doctor_transports import diagnose_by_connecting
from trio_stomp.cli.exit_codes import ExitCode
from trio_stomp.cli.link_options import LinkOptions, gathered, link_options
from trio_stomp.cli.running import Stop, run
from trio_stomp.client import Endpoint, Transport
from trio_stomp.printable import harmless, one_line

__all__ = ["as_json", "doctor", "print_finding"]

_MARKS: Final = {
    Status.OK: ("✓", "green"),
    Status.WARNING: ("!", "yellow"),
    Status.FAILED: ("✗", "bold red"),
    Status.SKIPPED: ("-", "dim"),
}
# For output that cannot hold the marks.
_PLAIN_MARKS: Final = {Status.OK: "+", Status.WARNING: "!", Status.FAILED: "x", Status.SKIPPED: "-"}

_STEP_WIDTH: Final = 12


def print_finding(finding: Finding, console: Console) -> None:
    """Print a finding for people."""
    mark, style = _MARKS[finding.status]
    try:
        mark.encode(console.encoding)
    except UnicodeEncodeError:
        mark = _PLAIN_MARKS[finding.status]
    # What a broker says must not drive the terminal.
    line = Text(f"{mark} ", style=style).append(f"{finding.step:<{_STEP_WIDTH}}", style=style)
    line.append(one_line(finding.what), style="dim" if finding.status is Status.SKIPPED else "")
    console.print(line, soft_wrap=True)
    for advice in finding.advice:
        console.print(Text(f"{'':{_STEP_WIDTH + 2}}-> {one_line(advice)}", style="cyan"), soft_wrap=True)


def as_json(address: str, findings: list[Finding]) -> str:
    """All findings about one broker, as a line of JSON."""
    steps = [
        {"step": each.step, "status": each.status, "what": each.what, "advice": list(each.advice)} for each in findings
    ]
    healthy = exit_code_for(findings) is ExitCode.OK
    # Still the same JSON: what is shown in place of control characters are its own escapes.
    return harmless(json.dumps({"address": address, "healthy": healthy, "steps": steps}, ensure_ascii=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """One broker, and the way of looking at it.

    Attributes:
        address: The broker, for people.
        look: Looks, and reports each finding.
    """

    address: str
    look: Callable[[Report], Awaitable[list[Finding]]]

    @classmethod
    def of(cls, url: str, link: LinkOptions, passcode: str | None) -> Examination:
        """The examination of that URL.

        Raises:
            LocalProtocolError: It is no URL. The message never shows it.
            CommandFailed: An option cannot be meant.
        """
        endpoint = Endpoint.parse(url)
        if link.proxy is None and endpoint.transport is Transport.TCP:
            target = Target.of(endpoint, link, passcode)
            return cls(address=target.address, look=lambda report: diagnose(target, Internet(), report))
        options = link.connect_options(passcode)
        options.pop("reconnect", None)
        return cls(address=str(endpoint), look=lambda report: diagnose_by_connecting(url, options, report))


async def examine(examination: Examination, console: Console, *, json_lines: bool) -> list[Finding]:
    """Examine one broker, and print what is found.

    Cancellation: what was opened is closed.
    """
    if json_lines:
        findings = await examination.look(_say_nothing)
        click.echo(as_json(examination.address, findings))
        return findings
    console.print(Text(examination.address, style="bold"))
    findings = await examination.look(lambda finding: print_finding(finding, console))
    healthy = exit_code_for(findings) is ExitCode.OK
    console.print(Text("all is well" if healthy else "it does not work", style="green" if healthy else "bold red"))
    return findings


def _say_nothing(_finding: Finding) -> None:
    pass


@click.command(short_help="Find out why a connection fails.")
@click.option("--json", "json_lines", is_flag=True, help="Print a line of JSON for each broker.")
@link_options
@click.pass_context
def doctor(context: click.Context, /, **_options: object) -> None:
    """Find out step by step why a connection fails, and what to do about it.

    It looks at the name, the port, TLS and its certificate, the answer to CONNECT, the login, the virtual host, the
    heart-beat, and what the broker is. Nothing is sent to a destination.
    """
    link, json_lines = gathered(LinkOptions, context), bool(context.params["json_lines"])

    async def command(_stop: Stop) -> ExitCode:
        passcode = link.passcode()
        examinations = [Examination.of(url, link, passcode) for url in link.url]
        console = Console(highlight=False)
        codes = [exit_code_for(await examine(each, console, json_lines=json_lines)) for each in examinations]
        # The first that is not well tells how it ends.
        return next(filter(None, codes), ExitCode.OK)

    run(command)
