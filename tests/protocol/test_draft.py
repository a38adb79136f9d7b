from __future__ import annotations

import pytest

from trio_stomp.errors import LimitExceeded, RemoteProtocolError
from trio_stomp.protocol import Command, DraftDecoder, Frame, Headers, Limits, Role

EACH_SIZE = pytest.mark.parametrize("size", [1, 2, 7, 1000])


def feed(decoder: DraftDecoder, data: bytes, size: int) -> list[Frame]:
    return [frame for at in range(0, len(data), size) for frame in decoder.receive_data(data[at : at + size])]


@EACH_SIZE
def test_draft_when_read_then_takes_any_case_and_padding(size: int) -> None:
    decoder = DraftDecoder(role=Role.SERVER)

    (frame,) = feed(decoder, b" \r\nsend \r \nDestination:  /q \r\n \r\n x \0", size)

    assert frame == Frame(command=Command.SEND, headers=Headers({"destination": "/q"}), body=b" x ")


@EACH_SIZE
def test_draft_when_a_value_looks_escaped_then_is_kept_as_it_is(size: int) -> None:
    (frame,) = feed(DraftDecoder(role=Role.CLIENT), b"error\nMessage:a\\cb\n\n\0", size)

    assert frame.headers == {"message": "a\\cb"}


@EACH_SIZE
def test_draft_when_padding_turns_out_to_be_a_header_then_counts_towards_the_limit(size: int) -> None:
    decoder = DraftDecoder(role=Role.CLIENT, limits=Limits(header_count=2))

    assert feed(decoder, b"ERROR\na:b\nc:d\n  \r x", size) == []

    assert isinstance(decoder.error, LimitExceeded)


@EACH_SIZE
def test_draft_when_lines_are_exactly_at_the_limits_then_pass(size: int) -> None:
    decoder = DraftDecoder(
        role=Role.CLIENT, limits=Limits(command_bytes=5, header_line_bytes=4, header_count=2, body_bytes=0)
    )

    (frame,) = feed(decoder, b"ERROR\r\na:bc\r\nd:ef\r\n\r\n\0", size)

    assert frame.headers == {"a": "bc", "d": "ef"}


@EACH_SIZE
def test_draft_when_a_command_is_unknown_then_ends(size: int) -> None:
    decoder = DraftDecoder(role=Role.SERVER)
    feed(decoder, b"recieve\n\n\0", size)

    assert type(decoder.error) is RemoteProtocolError
    assert "unknown command 'recieve'" in str(decoder.error)
