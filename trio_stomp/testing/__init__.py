"""For tests: an embedded STOMP broker, a scripted peer, faults on demand, and pytest fixtures.

The broker keeps everything in memory and speaks STOMP 1.0, 1.1 and 1.2 over sockets, TLS, WebSocket or streams in
memory. It shares the codec of the client, so tests against it cannot find bugs of the codec.
"""

from trio_stomp.runtime import protect
from trio_stomp.testing.broker import Broker, QueuedMessage, open_broker
from trio_stomp.testing.broker_options import BrokerOptions, NackPolicy
from trio_stomp.testing.broker_session import BrokerSession
from trio_stomp.testing.broker_state import BrokerStatistics
from trio_stomp.testing.broker_thread import ThreadedBroker, run_broker_in_thread
from trio_stomp.testing.fault_rules import (
    AnswerConnect,
    DelayReceipts,
    DropLink,
    DuplicateReceipts,
    Fault,
    HalfOpen,
    ReceiptRule,
    RefuseConnection,
    ReverseReceipts,
    SlowWriting,
    StallReading,
    StallWriting,
    SwallowReceipts,
)
from trio_stomp.testing.faults import Faults
from trio_stomp.testing.memory_links import MemoryLink, open_memory_links
from trio_stomp.testing.refusals import Refusal
from trio_stomp.testing.scripted_peer import ScriptedPeer, ScriptMismatchError, open_scripted_peer

__all__ = [
    "AnswerConnect",
    "Broker",
    "BrokerOptions",
    "BrokerSession",
    "BrokerStatistics",
    "DelayReceipts",
    "DropLink",
    "DuplicateReceipts",
    "Fault",
    "Faults",
    "HalfOpen",
    "MemoryLink",
    "NackPolicy",
    "QueuedMessage",
    "ReceiptRule",
    "Refusal",
    "RefuseConnection",
    "ReverseReceipts",
    "ScriptMismatchError",
    "ScriptedPeer",
    "SlowWriting",
    "StallReading",
    "StallWriting",
    "SwallowReceipts",
    "ThreadedBroker",
    "open_broker",
    "open_memory_links",
    "open_scripted_peer",
    "run_broker_in_thread",
]

# A test may run the other side, too, in its own trio.run().
protect(__name__)
