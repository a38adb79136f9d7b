"""The doctor on a network in memory: each way in which connecting fails."""

import dataclasses
import socket

import pytest
import trio

from tests.cli.fake_network import FakeNetwork, Hosts, Port, says, silent
from tests.cli.tls_ports import HOST, Authority
from trio_stomp.cli.doctor import diagnose
from trio_stomp.cli.doctor_findings import Finding, Status, Step
from trio_stomp.cli.doctor_target import Target
from trio_stomp.protocol import Command
from trio_stomp.testing import AnswerConnect, BrokerOptions, open_broker

ADDRESS = "10.0.0.1"
HOSTS: Hosts = {HOST: [ADDRESS]}
TARGET = Target(host=HOST, port=1000, login="ann", passcode="s3cret")
MARKS = {Status.OK: "+", Status.WARNING: "!", Status.FAILED: "x", Status.SKIPPED: "-"}


def network(nursery: trio.Nursery, port: Port | OSError | None) -> FakeNetwork:
    return FakeNetwork(nursery, {(ADDRESS, TARGET.port): port}, HOSTS)


async def diagnosed(target: Target, world: FakeNetwork) -> tuple[str, dict[Step, Finding]]:
    """One mark for each step, and the findings."""
    reported: list[Finding] = []
    findings = await diagnose(target, world, reported.append)
    assert reported == findings
    assert [finding.step for finding in findings] == list(Step)
    assert "s3cret" not in str(findings)
    return "".join(MARKS[finding.status] for finding in findings), {finding.step: finding for finding in findings}


# The marks are of: DNS, TCP, TLS, CONNECT, login, vhost, heart-beat, broker.


async def test_doctor_when_all_is_well_then_every_step_is(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    options = BrokerOptions(logins={"ann": "s3cret"}, vhosts={"orders"})
    async with open_broker(listen=False, options=options) as broker:
        target = dataclasses.replace(TARGET, vhost="orders")
        marks, findings = await diagnosed(target, network(nursery, broker.serve_stream))

        assert marks == "++-+++++"
        assert findings[Step.LOGIN].what == "let in as 'ann'"
        assert findings[Step.BROKER].what.startswith("trio-stomp-testing")
        # It leaves well, and has sent nothing else.
        assert broker.statistics().received == {Command.CONNECT: 1, Command.DISCONNECT: 1}


async def test_doctor_when_tls_is_asked_for_then_it_is_a_step(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    authority = Authority.new()
    async with open_broker(listen=False) as broker:
        target = dataclasses.replace(TARGET, tls=True, context=authority.trusted())
        marks, _ = await diagnosed(target, network(nursery, authority.port(broker.serve_stream)))

    assert marks == "++++++++"


async def test_doctor_when_the_name_is_wrong_then_it_ends_there(nursery: trio.Nursery) -> None:
    hosts: Hosts = {HOST: socket.gaierror(socket.EAI_NONAME, "Name or service not known")}

    marks, findings = await diagnosed(TARGET, FakeNetwork(nursery, {}, hosts))

    assert marks == "x-------"
    assert findings[Step.TCP].what == "not reached"


async def test_doctor_when_the_port_is_wrong_then_names_the_usual_one(nursery: trio.Nursery) -> None:
    world = FakeNetwork(nursery, {(ADDRESS, 61613): silent}, HOSTS)

    marks, findings = await diagnosed(TARGET, world)

    assert marks == "+x------"
    assert "Connection refused" in findings[Step.TCP].what
    assert any("61613" in advice for advice in findings[Step.TCP].advice)


async def test_doctor_when_the_port_is_that_of_something_else_then_says_of_what(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    marks, findings = await diagnosed(TARGET, network(nursery, says(b"AMQP\x00\x00\x09\x01")))

    assert marks == "++-x----"
    assert "it is AMQP" in findings[Step.CONNECT].what


async def test_doctor_when_the_passcode_is_wrong_then_the_login_failed(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_broker(listen=False, options=BrokerOptions(logins={"ann": "another"})) as broker:
        marks, findings = await diagnosed(TARGET, network(nursery, broker.serve_stream))

    assert marks == "++-+x---"
    assert "access refused" in findings[Step.LOGIN].what


async def test_doctor_when_the_vhost_is_wrong_then_that_step_failed(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_broker(listen=False, options=BrokerOptions(vhosts={"orders"})) as broker:
        target = dataclasses.replace(TARGET, vhost="odrers")
        marks, findings = await diagnosed(target, network(nursery, broker.serve_stream))

    assert marks == "++-++x--"
    assert "virtual host 'odrers' is not known" in findings[Step.VHOST].what


async def test_doctor_when_tls_goes_to_a_plain_port_then_says_so(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_broker(listen=False) as broker:
        target = dataclasses.replace(TARGET, tls=True)
        marks, findings = await diagnosed(target, network(nursery, broker.serve_stream))

    assert marks == "++x-----"
    assert "plain STOMP port" in findings[Step.TLS].what


async def test_doctor_when_plain_goes_to_a_tls_port_then_says_so_and_whose_it_is(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_broker(listen=False) as broker:
        port = Authority.new().port(broker.serve_stream)
        marks, findings = await diagnosed(TARGET, network(nursery, port))

    assert marks == "++-x----"
    assert "this port speaks TLS" in findings[Step.CONNECT].what
    assert f"the certificate is for {HOST}" in findings[Step.CONNECT].what


async def test_doctor_when_the_certificate_is_not_trusted_then_tells_how_to_trust_it(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_broker(listen=False) as broker:
        target = dataclasses.replace(TARGET, tls=True)
        marks, findings = await diagnosed(target, network(nursery, Authority.new().port(broker.serve_stream)))

    assert marks == "++x-----"
    assert "--ca" in findings[Step.TLS].advice[0]


@pytest.mark.parametrize("port", [silent, None])
async def test_doctor_when_the_host_is_silent_then_says_at_which_step(
    port: Port | None, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    marks, findings = await diagnosed(TARGET, network(nursery, port))

    if port is None:
        assert marks == "+x------"
        assert "no answer within 10 s" in findings[Step.TCP].what
    else:
        assert marks == "++-x----"
        assert "silent" in findings[Step.CONNECT].advice[0]


async def test_doctor_when_the_broker_closes_without_a_word_then_says_so(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_broker(listen=False) as broker:
        broker.faults.plan(AnswerConnect(octets=b"", close=True), connections=None)
        marks, findings = await diagnosed(TARGET, network(nursery, broker.serve_stream))

    assert marks == "++-x----"
    assert "closed in place of an answer" in findings[Step.CONNECT].what


async def test_doctor_when_heart_beats_do_not_come_then_that_step_failed(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    async def promises(stream: trio.abc.Stream) -> None:
        await stream.receive_some()
        await stream.send_all(b"CONNECTED\nversion:1.2\nheart-beat:1000,1000\nserver:RabbitMQ/3\n\n\0")
        await silent(stream)

    marks, findings = await diagnosed(TARGET, network(nursery, promises))

    assert marks == "++-+++x+"
    assert "but none came within 2.5 s" in findings[Step.HEART_BEAT].what
