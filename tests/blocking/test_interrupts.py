"""Ctrl-C at random moments, by a real signal, a thousand times: each a program of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from typing import Final

import pytest

HEAD: Final = """
import random, signal, sys, threading, time
import trio_stomp, trio_stomp.blocking
from trio_stomp.testing import run_broker_in_thread

QUEUE, WANTED = "/queue/a", 1000
armed, interrupts = False, 0

def strike(*_):
    global armed
    if armed:
        armed = False
        raise KeyboardInterrupt

signal.signal(signal.SIGALRM, strike)

def interrupted(function, longest):
    global armed, interrupts
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, longest))
        try:
            while armed:
                function()
        finally:
            armed = False
    except KeyboardInterrupt:
        interrupts += 1
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs signal.setitimer()"),
]


def run(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", HEAD + textwrap.dedent(program)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    # Python reports a Ctrl-C that comes while it removes an object from a WeakSet, as Trio and `threading` have them.
    assert done.returncode == 0, done.stderr


RECEIVERS: Final = {
    "receive_batch": "batch = messages.receive_batch(random.randint(1, 5)); taken.extend(batch)",
    "lingering": "batch = messages.receive_batch(5, linger=0.0002); taken.extend(batch)",
    "receive": "message = messages.receive(); taken.append(message)",
    "iteration": "\n        for message in messages:\n            taken.append(message)\n",
}


@pytest.mark.parametrize("how", RECEIVERS)
def test_receiving_when_interrupted_a_thousand_times_then_each_message_is_returned_once_and_in_order(how: str) -> None:
    program = f"""
    taken, sent = [], 0

    def feed():
        global sent
        while interrupts < WANTED:
            if sent - len(taken) < 200:
                numbers = range(sent, sent + 100)
                broker.call(lambda inner: [inner.publish(QUEUE, b"%d" % each) for each in numbers])
                sent += 100
            else:
                time.sleep(0.001)

    def take():
        {RECEIVERS[how]}

    with run_broker_in_thread() as broker:
        with trio_stomp.blocking.connect(broker.url) as client, client.subscribe(QUEUE, ack="auto") as messages:
            feeding = threading.Thread(target=feed)
            feeding.start()
            while interrupts < WANTED:
                interrupted(take, 0.0005)
            feeding.join()
            while len(taken) < sent:
                taken.append(messages.receive(timeout=10))
    assert [int(each.body) for each in taken] == list(range(sent)), [each.body for each in taken]
    """

    run(program)


def test_settling_when_interrupted_a_thousand_times_then_what_was_acknowledged_is_not_delivered_again() -> None:
    run(
        """
        acknowledged, tried = set(), set()

        def settle():
            message = messages.receive(timeout=10)
            tried.add(message.body)
            if random.random() < 0.5:
                message.ack()
            else:
                with message:
                    pass
            acknowledged.add(message.body)

        count = 100_000
        with run_broker_in_thread() as broker:
            broker.call(lambda inner: [inner.publish(QUEUE, b"%d" % each) for each in range(count)])
            with trio_stomp.blocking.connect(broker.url) as client, client.subscribe(QUEUE, prefetch=5000) as messages:
                while interrupts < WANTED:
                    interrupted(settle, 0.001)
            left = broker.call(lambda inner: [message.body for message in inner.messages(QUEUE)])
        assert len(acknowledged) > 100
        assert not acknowledged & set(left)
        assert len(set(left)) == len(left)
        assert set(left) | tried == {b"%d" % each for each in range(count)}
        """
    )


def test_verbs_when_interrupted_a_thousand_times_then_the_client_works_and_nothing_is_left_behind() -> None:
    run(
        """
        def confirmed():
            client.send(QUEUE, b"x", receipt=True)

        def plain():
            client.send(QUEUE, b"x")

        def subscribed():
            with client.subscribe("/queue/idle") as messages:
                try:
                    messages.receive(timeout=0)
                except TimeoutError:
                    pass

        def transacted():
            with client.transaction() as transaction:
                transaction.send(QUEUE, b"x")

        def published():
            with client.publisher() as publisher:
                publisher.send(QUEUE, b"x").wait()

        def opened():
            with trio_stomp.blocking.open(broker.url) as other:
                other.send(QUEUE, b"x")

        import warnings
        # Ctrl-C may come after open() has connected and before it has returned.
        warnings.simplefilter("ignore", ResourceWarning)
        verbs = (confirmed, plain, subscribed, transacted, published, opened)
        with run_broker_in_thread() as broker:
            with trio_stomp.blocking.connect(broker.url) as client:
                while interrupts < WANTED:
                    interrupted(random.choice(verbs), 0.003)
                for verb in verbs:
                    verb()
                deadline = time.monotonic() + 10
                while len(sessions := broker.call(lambda inner: list(inner.sessions))) > 1:
                    assert time.monotonic() < deadline, sessions
                assert client.statistics().subscriptions == ()
                assert client.statistics().unconfirmed == 0
        assert not [each for each in threading.enumerate() if each.name not in ("MainThread", "trio_stomp")
                    and not each.daemon], threading.enumerate()
        """
    )
