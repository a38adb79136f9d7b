import pytest
import trio

from trio_stomp.cli.doctor_findings import Finding, Status
from trio_stomp.cli.doctor_handshake import knock
from trio_stomp.cli.doctor_pulse import feel_pulse
from trio_stomp.cli.doctor_target import Target
from trio_stomp.protocol import HeartBeatOffer, Version
from trio_stomp.testing import Broker, BrokerOptions, StallWriting, open_broker


async def pulse_of(broker: Broker, *, offer: tuple[float, float] = (1, 1), version: Version = Version.V1_2) -> Finding:
    stream = broker.connect_stream()
    target = Target(host="broker", port=1, offer=HeartBeatOffer.of_seconds(*offer), versions=(version,))
    answer = await knock(stream, target)
    assert answer.connected is not None
    async with stream:
        return await feel_pulse(stream, answer.protocol, answer.connected.terms)


async def test_pulse_when_it_comes_then_well(autojump_clock: trio.testing.MockClock) -> None:
    async with open_broker(listen=False) as broker:
        started = trio.current_time()
        finding = await pulse_of(broker)

    assert finding.status is Status.OK
    assert finding.what.startswith("the broker beats every 1 s, this side beats every 1 s; the first came after")
    assert trio.current_time() - started <= 1


async def test_pulse_when_waited_for_then_ours_is_heard(autojump_clock: trio.testing.MockClock) -> None:
    # The broker beats each 5 s and gives up on a client that is silent for 2 s.
    async with open_broker(listen=False, options=BrokerOptions(heart_beat=(5, 1))) as broker:
        finding = await pulse_of(broker)

    assert finding.status is Status.OK


async def test_pulse_when_it_does_not_come_then_failed(autojump_clock: trio.testing.MockClock) -> None:
    async with open_broker(listen=False) as broker:
        broker.faults.plan(StallWriting(after_octets=120))
        stream = broker.connect_stream()
        target = Target(host="broker", port=1)
        answer = await knock(stream, target)
        broker.faults.now(StallWriting())
        assert answer.connected is not None
        finding = await feel_pulse(stream, answer.protocol, answer.connected.terms)

    assert finding.status is Status.FAILED
    assert "but none came within 2.5 s" in finding.what


async def test_pulse_when_the_connection_ends_meanwhile_then_failed(autojump_clock: trio.testing.MockClock) -> None:
    async with open_broker(listen=False, options=BrokerOptions(heart_beat=(5, 1))) as broker:
        async with trio.open_nursery() as nursery:
            findings: list[Finding] = []

            async def feel() -> None:
                findings.append(await pulse_of(broker))

            nursery.start_soon(feel)
            await trio.sleep(1.5)
            broker.drop_connections()

    assert findings[0].status is Status.FAILED
    assert "but the connection ended" in findings[0].what


@pytest.mark.parametrize(
    ("offer", "version", "why"),
    [((0, 0), Version.V1_2, "switched them off"), ((1, 1), Version.V1_0, "STOMP 1.0 has no heart-beats")],
)
async def test_pulse_when_there_is_none_then_a_warning(
    offer: tuple[float, float], version: Version, why: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_broker(listen=False) as broker:
        finding = await pulse_of(broker, offer=offer, version=version)

    assert finding.status is Status.WARNING
    assert finding.what == "the broker does not beat, this side does not beat"
    assert why in finding.advice[0]


async def test_pulse_when_it_is_rare_then_not_waited_for(autojump_clock: trio.testing.MockClock) -> None:
    async with open_broker(listen=False) as broker:
        started = trio.current_time()
        finding = await pulse_of(broker, offer=(60, 60))

    assert finding.status is Status.OK
    assert "too rare to wait for one" in finding.what
    assert trio.current_time() == started
