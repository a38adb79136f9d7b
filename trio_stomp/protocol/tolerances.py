"""Deviations from the specification that can be accepted from a peer: each named, each for a broker that needs it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Tolerances"]


class Tolerances(NamedTuple):
    """Named leniencies of the decoder; all are off by default, and a broker's profile switches on what it needs.

    Attributes:
        undefined_escapes: Keep an undefined escape as it is. ActiveMQ Classic never escapes header names, so a name
            with a backslash arrives raw.
        lines_without_colon: Read a header line without a colon as a name with an empty value. ActiveMQ Classic
            and Artemis in 1.0 send line feeds inside values raw, which breaks the line in two.
        nul_in_error_headers: Accept a NUL in the headers of an ERROR frame. ActiveMQ Classic quotes what it
            could not parse in the ``message`` header, a NUL included.
        nul_in_message_headers: Accept a NUL in the headers of a MESSAGE frame. RabbitMQ passes on what an AMQP or STOMP
            publisher wrote there; ActiveMQ Classic and Artemis, by their source, what a JMS publisher wrote. Each of
            them ends the headers with a blank line.
        empty_header_names: Accept a header without a name. RabbitMQ passes on that of an AMQP publisher, and in
            1.0 a line of ActiveMQ Classic or Artemis that a line feed has broken in two may begin with a colon.
        invalid_utf8: Decode header bytes that are not UTF-8 as surrogate escapes. RabbitMQ passes on what the
            sender wrote.
        cr_escape_in_1_1: Decode the escape of CR, which came with 1.2, in a 1.1 session too. RabbitMQ and Artemis write
            it in every version.
        escapes_in_1_0: Decode the escapes of 1.2 in a 1.0 session. RabbitMQ escapes in every version.
        decodes_in_1_0: Double the backslashes in values that are sent in 1.0. ActiveMQ Classic decodes the escapes of
            1.1 in every version, though in 1.0 it sends none itself.
        ack_by_message_id: Use the ``message-id`` of a message in place of its ``ack``. Artemis passes on an ``ack``
            header of the sender before its own, so that a sender could forge it; its own always equals the
            ``message-id``.
        errors_leave_open: Go on after an ERROR in 1.2, where the specification says that the server closes. RabbitMQ
            and ActiveMQ Classic close only after some of them.
        messages_without_id: Accept a MESSAGE without ``message-id`` in auto mode, in which no frame names it.
            stomp-broker-js and stompserver send none.
    """

    undefined_escapes: bool = False
    lines_without_colon: bool = False
    nul_in_error_headers: bool = False
    nul_in_message_headers: bool = False
    empty_header_names: bool = False
    invalid_utf8: bool = False
    cr_escape_in_1_1: bool = False
    escapes_in_1_0: bool = False
    decodes_in_1_0: bool = False
    ack_by_message_id: bool = False
    errors_leave_open: bool = False
    messages_without_id: bool = False


STRICT = Tolerances()
