from trio_stomp.protocol import Command
from trio_stomp.testing.counters import Counters


def test_snapshot_when_counters_go_on_then_stays_as_it_was() -> None:
    counters = Counters()
    counters.received[Command.SEND] += 2
    counters.connections = 1

    snapshot = counters.snapshot()
    counters.received[Command.SEND] += 1
    counters.connections = 2

    assert snapshot.received == {Command.SEND: 2}
    assert snapshot.connections == 1
    assert snapshot.sent == {}
