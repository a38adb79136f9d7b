import errno
import socket

import pytest
import trio

from tests.cli.fake_network import FakeNetwork, silent
from trio_stomp.cli.doctor_findings import Status
from trio_stomp.cli.doctor_network import Internet, look_up, reach
from trio_stomp.cli.doctor_target import Target

TARGET = Target(host="broker", port=1000)


async def test_name_when_it_has_addresses_then_found(nursery: trio.Nursery) -> None:
    network = FakeNetwork(nursery, {}, {"broker": ["10.0.0.1", "10.0.0.2"]})

    finding, addresses = await look_up(TARGET, network)

    assert addresses == ["10.0.0.1", "10.0.0.2"]
    assert finding.status is Status.OK
    assert finding.what.startswith("broker is 10.0.0.1, 10.0.0.2")


@pytest.mark.parametrize("host", ["10.0.0.1", "::1"])
async def test_name_when_it_is_an_address_then_not_looked_up(host: str, nursery: trio.Nursery) -> None:
    finding, addresses = await look_up(Target(host=host, port=1000), FakeNetwork(nursery, {}))

    assert (finding.status, addresses) == (Status.SKIPPED, [host])


@pytest.mark.parametrize(
    ("error", "what", "advice"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service not known", "spelling"),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure"), "Temporary failure", "name servers do not answer"),
        (UnicodeError("label too long"), "is no host name", "how it is written"),
        (None, "no answer about 'broker' within 10 s", "name servers do not answer"),
    ],
)
async def test_name_when_it_cannot_be_looked_up_then_says_why(
    error: Exception | None,
    what: str,
    advice: str,
    nursery: trio.Nursery,
    autojump_clock: trio.testing.MockClock,
) -> None:
    finding, addresses = await look_up(TARGET, FakeNetwork(nursery, {}, {"broker": error}))

    assert (finding.status, addresses) == (Status.FAILED, [])
    assert what in finding.what
    assert advice in finding.advice[0]


async def test_port_when_it_accepts_then_reached(nursery: trio.Nursery) -> None:
    finding, reached = await reach(TARGET, ["10.0.0.1"], FakeNetwork(nursery, {("10.0.0.1", 1000): silent}))

    assert finding.status is Status.OK
    assert reached is not None
    assert reached.address == "10.0.0.1"


async def test_port_when_the_first_address_says_no_then_the_next_is_reached_with_a_warning(
    nursery: trio.Nursery,
) -> None:
    network = FakeNetwork(nursery, {("10.0.0.2", 1000): silent})

    finding, reached = await reach(TARGET, ["10.0.0.1", "10.0.0.2"], network)

    assert finding.status is Status.WARNING
    assert "10.0.0.1 port 1000: Connection refused" in finding.what
    assert reached is not None
    assert reached.address == "10.0.0.2"


@pytest.mark.parametrize(
    ("error", "what", "advice"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), "Connection refused", "nothing listens"),
        (OSError(errno.EHOSTUNREACH, "x"), "No route to host", "no way"),
        (OSError("odd"), "odd", "look at the network"),
        (None, "no answer within 10 s", "firewall"),
    ],
)
async def test_port_when_no_address_answers_then_says_why(
    error: OSError | None,
    what: str,
    advice: str,
    nursery: trio.Nursery,
    autojump_clock: trio.testing.MockClock,
) -> None:
    finding, reached = await reach(TARGET, ["10.0.0.1"], FakeNetwork(nursery, {("10.0.0.1", 1000): error}))

    assert reached is None
    assert finding.status is Status.FAILED
    assert finding.what == f"10.0.0.1 port 1000: {what}"
    assert advice in finding.advice[0]


async def test_port_when_a_usual_one_answers_in_its_place_then_named(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    network = FakeNetwork(nursery, {("10.0.0.1", 61613): silent, ("10.0.0.1", 61614): None})

    finding, _ = await reach(TARGET, ["10.0.0.1"], network)

    assert [advice for advice in finding.advice if "61613" in advice]
    assert not [advice for advice in finding.advice if "61614" in advice]


async def test_internet_when_asked_for_this_machine_then_answers() -> None:
    network = Internet()
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    async with listener:
        addresses = await network.resolve("127.0.0.1", port)
        async with await network.open("127.0.0.1", port):
            pass

    assert addresses == ["127.0.0.1"]


async def test_internet_when_the_port_is_closed_then_the_reason_is_the_systems() -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    target = Target(host="127.0.0.1", port=int(listener.socket.getsockname()[1]))
    await listener.aclose()

    finding, _ = await reach(target, ["127.0.0.1"], Internet())

    assert finding.what == f"127.0.0.1 port {target.port}: Connection refused"
