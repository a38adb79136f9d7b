"""Each tolerance: what the broker sends, the refusal without it, and what it comes to with it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.kit.chunks import fed
from trio_stomp import Limits
from trio_stomp.errors import LimitExceeded
from trio_stomp.protocol import Decoder, Role, Tolerances
from trio_stomp.types import Version

STRICT = Tolerances()
# How the MESSAGEs below begin, and the headers of that.
HEAD = b"MESSAGE\nsubscription:1\nmessage-id:m\ndestination:/queue/a\n"
PAIRS = (("subscription", "1"), ("message-id", "m"), ("destination", "/queue/a"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    tolerance: str
    version: Version
    data: bytes
    pairs: tuple[tuple[str, str], ...]
    strict_pairs: tuple[tuple[str, str], ...] | None = None
    # Another tolerance that reads the same bytes, in its own way.
    overlaps: str | None = None


CASES = [
    # ActiveMQ Classic: header names are never escaped, so that a name with a backslash arrives raw.
    Case(
        tolerance="undefined_escapes",
        version=Version.V1_2,
        data=b"MESSAGE\nsubscription:1\nmessage-id:ID\\cbox-1\\c1\ndestination:/queue/a\na\\tb:c\\\n\nx\0\n",
        pairs=(("subscription", "1"), ("message-id", "ID:box-1:1"), ("destination", "/queue/a"), ("a\\tb", "c\\")),
    ),
    # ActiveMQ Classic in 1.0: nothing is escaped, so a line feed in a value breaks its line in two.
    Case(
        tolerance="lines_without_colon",
        version=Version.V1_0,
        data=b"MESSAGE\ndestination:/queue/a\nmessage-id:ID:1\nk:first\nsecond\n\nx\0\n",
        pairs=(("destination", "/queue/a"), ("message-id", "ID:1"), ("k", "first"), ("second", "")),
    ),
    # ActiveMQ Classic: an ERROR quotes in its message header what it could not parse.
    Case(
        tolerance="nul_in_error_headers",
        version=Version.V1_2,
        data=b"ERROR\nmessage:Unknown STOMP action\\c a\0b\ncontent-type:text/plain\n\nx\0\n",
        pairs=(("message", "Unknown STOMP action: a\0b"), ("content-type", "text/plain")),
    ),
    # RabbitMQ: a header of an AMQP publisher, in name and value.
    Case(
        tolerance="nul_in_message_headers",
        version=Version.V1_2,
        data=HEAD + b"h\0:a\0b\n\0:\\c\0\ncontent-length:1\n\nx\0\n",
        pairs=(*PAIRS, ("h\0", "a\0b"), ("\0", ":\0"), ("content-length", "1")),
    ),
    # RabbitMQ: a header of an AMQP publisher without a name.
    Case(
        tolerance="empty_header_names",
        version=Version.V1_2,
        data=HEAD + b":v\n:\n\nx\0\n",
        pairs=(*PAIRS, ("", "v"), ("", "")),
    ),
    # RabbitMQ and Artemis: CR is escaped in 1.1, as it is in 1.2.
    Case(
        tolerance="cr_escape_in_1_1",
        version=Version.V1_1,
        data=HEAD + b"k\\r:\\\\r\\r\\n\n\nx\0\n",
        pairs=(*PAIRS, ("k\r", "\\r\r\n")),
        overlaps="undefined_escapes",
    ),
    # RabbitMQ: headers pass through as the sender wrote them, UTF-8 or not.
    Case(
        tolerance="invalid_utf8",
        version=Version.V1_2,
        data=HEAD + b"k:caf\xe9\n\nx\0\n",
        pairs=(*PAIRS, ("k", "caf\udce9")),
    ),
    # RabbitMQ: escapes in every version.
    Case(
        tolerance="escapes_in_1_0",
        version=Version.V1_0,
        data=b"MESSAGE\ndestination:/queue/a\nmessage-id:1\nk:a\\cb\\\\\n\nx\0\n",
        pairs=(("destination", "/queue/a"), ("message-id", "1"), ("k", "a:b\\")),
        strict_pairs=(("destination", "/queue/a"), ("message-id", "1"), ("k", "a\\cb\\\\")),
    ),
]
EACH_CASE = pytest.mark.parametrize("case", CASES, ids=lambda case: case.tolerance)


def pairs_of(case: Case, tolerances: Tolerances, size: int) -> tuple[tuple[str, str], ...] | None:
    """The headers of the one frame, fed in pieces of `size`; None where it is refused."""
    decoder = Decoder(role=Role.CLIENT, version=case.version, tolerances=tolerances)
    frames = fed(decoder, case.data, size)
    if decoder.error is not None:
        assert frames == []
        return None
    (frame,) = frames
    assert frame.body == b"x"
    return frame.headers.pairs


@EACH_CASE
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_bytes_of_the_broker_when_tolerated_then_are_read_and_otherwise_refused_or_taken_literally(
    case: Case, size: int
) -> None:
    assert pairs_of(case, Tolerances(**{case.tolerance: True}), size) == case.pairs
    assert pairs_of(case, STRICT, size) == case.strict_pairs


@EACH_CASE
def test_other_tolerances_when_switched_on_then_do_not_help(case: Case) -> None:
    others = {name: name not in (case.tolerance, case.overlaps) for name in Tolerances._fields}

    assert pairs_of(case, Tolerances(**others), 1000) == case.strict_pairs


@pytest.mark.parametrize("command", ["MESSAGE", "ERROR", "RECEIPT"])
def test_nul_in_headers_when_the_frame_is_of_another_command_then_is_not_tolerated(command: str) -> None:
    tolerances = Tolerances(nul_in_error_headers=command != "ERROR", nul_in_message_headers=command != "MESSAGE")
    decoder = Decoder(role=Role.CLIENT, version=Version.V1_2, tolerances=tolerances)

    assert decoder.receive_data(f"{command}\nreceipt-id:1\n\0".encode()) == []
    assert decoder.error is not None


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_nul_in_headers_when_tolerated_then_the_limits_hold(size: int) -> None:
    limits = Limits(header_line_bytes=20)
    tolerances = Tolerances(nul_in_message_headers=True, empty_header_names=True)
    decoder = Decoder(role=Role.CLIENT, version=Version.V1_2, limits=limits, tolerances=tolerances)

    fed(decoder, b"MESSAGE\n:" + b"\0" * 1000, size)

    assert isinstance(decoder.error, LimitExceeded)
