"""The rules of the source that a machine can check, in one table.

Each row has what is looked for, files that break it, and the exceptions with their reasons. CONTRIBUTING.md
says the rules in words.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

import pytest

from tests.architecture import finders
from tests.architecture.source_tree import Finding, SourceFile, python_files


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule, its finder, files that break it, and the places that may: place (or its start) -> reason."""

    name: str
    find: Callable[[finders.Files], Iterator[Finding]]
    offenders: Mapping[str, str]
    exceptions: Mapping[str, str] = field(default_factory=dict[str, str])


RULES = (
    Rule(
        name="nothing catches Exception or BaseException outside the modules that own the error policy",
        find=finders.broad_excepts,
        offenders={"trio_stomp/client/dial.py": "try:\n  f()\nexcept (OSError, Exception):\n  pass"},
        exceptions={
            "trio_stomp/spark/receiver.py:_Receiver._receive.receive_from": "carries it out of the group, as it is",
            "trio_stomp/spark/receiver.py:ReceiverThread._run": "hands it to the thread that waits, which raises it",
            "trio_stomp/spark/executor_receivers.py:_ExecutorReceivers._run": "hands it on, or logs it",
            "trio_stomp/session/failures.py:guarded": "owns the error policy of a connection's tasks",
            "trio_stomp/runtime/_trio.py:open_background_nursery": "carries the block's exception around it",
            "trio_stomp/runtime/_asyncio.py:BackgroundNursery._run": "carries what a task raised to the block's end",
            "trio_stomp/session/reconnecting.py:_read_again": "reads a file of the user's: its message is lost",
            "trio_stomp/client/connecting.py:_Serving.__aenter__": "closes what it has opened, whatever ended it",
            "trio_stomp/client/connecting.py:_Serving.__aexit__": "carries the exception around the background tasks",
            "trio_stomp/runtime/_asyncio.py:_WaitQueue.park": "passes a wake-up on, whatever ended the wait",
            "trio_stomp/session/receipts.py:Publication.wait": "forgets the wait, whatever ended it",
            "trio_stomp/session/dialing.py:_Race._attempt": "carries an error around the nursery",
            "trio_stomp/session/dialing.py:_credentials": "runs a function of the user's: the attempt failed",
            "trio_stomp/session/bodies.py:Codec.decode": "runs the user's decoder: what it raises is DecodeError",
            "trio_stomp/session/hooks.py:_contained": "runs hooks of the user's: what they raise is logged",
            "trio_stomp/client/work.py:BlockingReport.watch": "raises in the handler what is raised at its await",
            "trio_stomp/client/work.py:_Pool._key_of": "runs a function of the user's: it failed for its message",
            "trio_stomp/client/work.py:_Pool._work": "runs policies of the user's: what they raise ends the pool",
            "trio_stomp/client/work.py:_Pool._attempt": "runs the user's handler: its errors go by the retry policy",
            "trio_stomp/otel/telemetry.py:OpenTelemetryHooks._handling": "puts it into the span, and lets it go on",
            "trio_stomp/blocking/queue.py:InContext.__await__": "throws on, into what is awaited",
            "trio_stomp/blocking/calls.py:entered": "tells a manager what its block has raised, and lets it go on",
            "trio_stomp/blocking/subscription.py:Subscription.__next__": "puts back what it does not return",
            "trio_stomp/blocking/subscription.py:Subscription._take": "puts back what it does not return",
            "trio_stomp/blocking/calls.py:_Leaving.leave": "tells a context manager what was raised, and raises it",
            "trio_stomp/blocking/queue.py:Queue.run": "keeps what was raised for the thread that has posted it",
            "trio_stomp/blocking/calls.py:ConfirmedSend.begin": "carries what was raised to the thread that waits",
            "trio_stomp/blocking/thread.py:Call._run": "carries what was raised to the thread that waits for it",
            "trio_stomp/blocking/thread.py:LoopThread._run": "logs a crash of the thread, which nothing can handle",
            "trio_stomp/printable.py:safe_str": "runs a method of the user's: what it shows must not break anything",
            "trio_stomp/printable.py:safe_repr": "runs a method of the user's: what it shows must not break anything",
            "trio_stomp/session/failures.py:add_note": "runs a method of the user's: the note goes to the log instead",
            "trio_stomp/client/publisher.py:open_publisher": "adds a note to the exception, and lets it go on",
        },
    ),
    Rule(
        name="a suppression names its code and its reason",
        find=finders.unexplained_suppressions,
        # Put together, so that the linters do not take it for one of ours.
        offenders={"scripts/tool.py": "x = 1\nimport os  # " + "no" + "qa: F401\n"},
    ),
    Rule(
        name="unit tests sleep on the mock clock",
        find=finders.real_sleeps,
        offenders={
            "tests/client/test_dial.py": (
                "async def nap(): await trio.sleep(1)\nasync def test_a_when_b_then_c(): await nap()"
            ),
            "tests/client/test_dialing.py": (
                "pytestmark = pytest.mark.anyio\n"
                "@on_loops('uvloop')\nasync def test_a_when_b_then_c(): await anyio.sleep(1)"
            ),
        },
    ),
    Rule(
        name="the name of a test says what, when and then",
        find=finders.vague_test_names,
        offenders={"tests/client/test_dial.py": "def test_dial(): pass"},
    ),
    Rule(
        name="milliseconds exist in protocol/heartbeat_terms.py only",
        find=finders.stray_milliseconds,
        offenders={"trio_stomp/client/dial.py": "def f(timeout_ms): pass"},
        exceptions={"trio_stomp/protocol/heartbeat_terms.py": "the heart-beat header counts in milliseconds"},
    ),
    Rule(
        name="packages use each other through their __init__",
        find=finders.imports_past_doors,
        offenders={
            "trio_stomp/protocol/__init__.py": "__all__ = ['Frame']",
            "trio_stomp/client/dial.py": "from trio_stomp.protocol.frames import Frame",
        },
    ),
)

EACH_RULE = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.find.__name__)


@cache
def in_project(find: Callable[[finders.Files], Iterator[Finding]]) -> tuple[Finding, ...]:
    return tuple(find(python_files()))


def excused(rule: Rule, finding: Finding) -> bool:
    return any(finding.place.startswith(place) for place in rule.exceptions)


@EACH_RULE
def test_rule_when_applied_to_the_project_then_nothing_breaks_it(rule: Rule) -> None:
    broken = [str(finding) for finding in in_project(rule.find) if not excused(rule, finding)]

    assert not broken, f"{rule.name}:\n" + "\n".join(broken)


@EACH_RULE
def test_rule_when_given_an_offender_then_finds_it(rule: Rule) -> None:
    files = [SourceFile.of(path, text) for path, text in rule.offenders.items()]

    assert list(rule.find(files))


@EACH_RULE
def test_exception_when_nothing_needs_it_any_more_then_fails(rule: Rule) -> None:
    places = [finding.place for finding in in_project(rule.find)]

    stale = [place for place in rule.exceptions if not any(found.startswith(place) for found in places)]

    assert not stale, f"{rule.name}: take these exceptions out: {stale}"
