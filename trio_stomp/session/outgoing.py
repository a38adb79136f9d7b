"""What a program gives to send: headers, `OutgoingMessage`, and what the senders make of their arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from trio_stomp.brokers import QueueArguments, SendOptions, check_send_options, require_destination, send_options
from trio_stomp.errors import LocalProtocolError
from trio_stomp.printable import shown, wrong_header
from trio_stomp.protocol import JSON, json_body
from trio_stomp.runtime import called

__all__ = [
    "EncodeValue",
    "HeaderInput",
    "OutgoingMessage",
    "Parts",
    "completed",
    "header_pairs",
    "message_of",
    "parts_of",
]

HeaderInput = Mapping[str, str] | Sequence[tuple[str, str]]

B = TypeVar("B")
# The type of `json=`.
J = TypeVar("J")

# Turns the value of `json=` into a body.
EncodeValue = Callable[[J], bytes | str]
# What a SEND is made of: destination, body, headers, content-type and the options that brokers add. Each send makes
# one, so it is a plain tuple, which costs 0.03 us: a named tuple costs 0.2 us, and an OutgoingMessage 0.4 us, where a
# plain send takes 3.5 us in all.
Parts = tuple[str, B, HeaderInput | None, str | None, SendOptions | None]

_SET_BY_CALLS: Final = {
    "receipt": "use receipt=True",
    "transaction": "use the methods of client.transaction()",
}


def header_pairs(headers: HeaderInput | None) -> list[tuple[str, str]]:
    """Convert headers to a list of pairs, in order.

    Raises:
        LocalProtocolError: A name or value is not a str (numbers are not converted, because the text of True would be a
            guess), or the client sets this header itself. Or they are neither a mapping nor pairs.
    """
    if not headers:
        return []
    try:
        # `dict` is for speed: a check against an abstract class takes as long as everything else here.
        pairs = list(headers.items()) if isinstance(headers, (dict, Mapping)) else list(headers)
        for name, value in pairs:
            if type(name) is not str or type(value) is not str or name in _SET_BY_CALLS:
                _require_sendable(name, value)
    except (TypeError, ValueError) as error:
        # The values may be secret, so they are not shown.
        raise LocalProtocolError(
            "headers must be a mapping such as {'type': 'order'}, or a list of pairs such as [('type', 'order')], got "
            f"a value of type {type(headers).__name__}: {error}"
        ) from None
    return pairs


def _require_sendable(name: object, value: object) -> None:
    if not isinstance(name, str) or not isinstance(value, str):
        raise LocalProtocolError(wrong_header(name, value))
    if name in _SET_BY_CALLS:
        msg = f"header {name!r} is set by the call itself: {_SET_BY_CALLS[name]}"
        raise LocalProtocolError(msg)


@dataclass(slots=True, init=False)
class OutgoingMessage:
    """A message to send: the arguments of `Client.send` as a value.

    `Client.send`, `Publisher.send` and `Transaction.send` take one in place of their arguments, and ``send_many`` takes
    many. The broker checks options that not every broker has when the message is sent.

    Attributes:
        destination: Where to send it, such as ``/queue/orders``. What it means depends on the broker.
        body: ``bytes`` are sent as they are, ``str`` as text, in UTF-8 or the charset of `content_type`. It is what
            ``encode=`` has made of ``json=``, if that was given in its place.
        headers: More headers: a mapping, or a list of pairs if a name occurs twice.
        content_type: MIME type of the body. Default: ``text/plain;charset=utf-8`` for str, ``application/json`` for
            ``json=``, none for bytes.
        persistent: Keep the message when the broker restarts.
        ttl: Seconds after which the message is no longer delivered.
        priority: Higher priorities are delivered first: 0 to 9, on RabbitMQ up to the queue's ``max_priority``.
        delay: Seconds before the broker delivers the message.
        group: Messages of one group go to one consumer, in order.
        dedup_id: The broker confirms and drops a second message with the same id.
        queue_arguments: How to declare the queue, on RabbitMQ.

    Raises:
        TypeError: There is no such option, or neither or both of ``body=`` and ``json=`` were given.
        LocalProtocolError: The destination is not a str, the value of an option is invalid for every broker, or
            ``json=`` cannot be encoded.
    """

    destination: str
    body: bytes | str
    headers: HeaderInput | None
    content_type: str | None
    persistent: bool
    ttl: float | None
    priority: int | None
    delay: float | None
    group: str | None
    dedup_id: str | None
    queue_arguments: QueueArguments | None

    def __init__(
        self,
        destination: str,
        body: bytes | str | None = None,
        *,
        json: J | None = None,
        encode: EncodeValue[J] | None = None,
        headers: HeaderInput | None = None,
        content_type: str | None = None,
        persistent: bool = False,
        ttl: float | None = None,
        priority: int | None = None,
        delay: float | None = None,
        group: str | None = None,
        dedup_id: str | None = None,
        queue_arguments: QueueArguments | None = None,
    ) -> None:
        if body is None or json is not None or encode is not None:
            self.body, content_type = _body(body, headers, content_type, json, encode, "OutgoingMessage()")
        else:
            self.body = body
        if type(destination) is not str:
            require_destination(destination)
        self.destination = destination
        self.headers = headers
        self.content_type = content_type
        self.persistent = persistent
        self.ttl = ttl
        self.priority = priority
        self.delay = delay
        self.group = group
        self.dedup_id = dedup_id
        self.queue_arguments = queue_arguments
        if ttl is not None or delay is not None:
            check_send_options(ttl, delay)


def parts_of(message: OutgoingMessage) -> Parts[bytes | str]:
    """Return what a SEND of a message is made of.

    Raises:
        LocalProtocolError: It is not an OutgoingMessage.
    """
    each = message
    try:
        options = send_options(
            each.persistent, each.ttl, each.priority, each.delay, each.group, each.dedup_id, each.queue_arguments
        )
    except AttributeError:
        raise LocalProtocolError(
            f"each message must be an OutgoingMessage, got {shown(message)}: use OutgoingMessage(destination, body)"
        ) from None
    return each.destination, each.body, each.headers, each.content_type, options


def message_of(
    destination: str | OutgoingMessage,
    body: bytes | str | None,
    headers: HeaderInput | None,
    content_type: str | None,
    options: SendOptions,
    json: J | None,
    encode: EncodeValue[J] | None,
) -> OutgoingMessage:
    """Return the arguments of a call of ``send()`` as a value.

    Raises:
        TypeError: Too much was given, or too little.
        LocalProtocolError: ``json=`` cannot be encoded.
    """
    if isinstance(destination, OutgoingMessage):
        completed(destination, body, headers, content_type, options or None, json, encode)
        return destination
    return OutgoingMessage(
        destination, body, json=json, encode=encode, headers=headers, content_type=content_type, **options
    )


def completed(
    destination: str | OutgoingMessage,
    body: B | None,
    headers: HeaderInput | None,
    content_type: str | None,
    options: SendOptions | None,
    json: J | None,
    encode: EncodeValue[J] | None,
    *,
    call: str = "send()",
) -> Parts[B | bytes | str]:
    """Return what a call sends that was given an OutgoingMessage, or ``json=`` in place of a body.

    Raises:
        TypeError: Too much was given, or too little.
        LocalProtocolError: ``json=`` cannot be encoded, or the destination is not a str.
    """
    if type(destination) is str:
        pass
    elif isinstance(destination, OutgoingMessage):
        if any(each is not None for each in (body, headers, content_type, options, json, encode)):
            raise TypeError(f"{call} was given an OutgoingMessage and more besides; set all of it in the message")
        return parts_of(destination)
    else:
        require_destination(destination)
    encoded, content_type = _body(body, headers, content_type, json, encode, call)
    return destination, encoded, headers, content_type, options


def _body(
    body: B | None,
    headers: HeaderInput | None,
    content_type: str | None,
    json: J | None,
    encode: EncodeValue[J] | None,
    call: str,
) -> tuple[B | bytes | str, str | None]:
    """Return the body and its content-type."""
    if json is None:
        if encode is not None:
            raise TypeError(f"{call} was given encode= without json=, the value to encode")
        if body is None:
            raise TypeError(
                f"{call} needs a body, or json= and a value to encode; for JSON's null, send b'null' "
                'with content_type="application/json"'
            )
        return body, content_type
    if body is not None:
        raise TypeError(f"{call} was given a body and json=; leave out one")
    if content_type is None and all(name != "content-type" for name, _ in header_pairs(headers)):
        content_type = JSON
    if encode is None:
        try:
            return json_body(json), content_type
        except (TypeError, ValueError, RecursionError) as error:
            msg = f"json= cannot be encoded: {error}; pass encode=, for example encode=msgspec.json.encode"
            raise LocalProtocolError(msg) from error
    made = called(encode, json)
    if not isinstance(made, (bytes, str)):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
        raise LocalProtocolError(f"encode= must return bytes or str, got a value of type {type(made).__name__}")
    return made, content_type
