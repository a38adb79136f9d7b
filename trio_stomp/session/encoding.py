"""Encoding: from what a user gives to the bytes of a SEND.

A message takes one of two ways to the same bytes. Most are plain: nothing in them has to be escaped or checked one by
one. `encode` recognizes those with a few calls in C for all headers together, which makes sends and transactions
twice as fast, and publishers 1.8 times. Everything else goes through `encode_exactly`, which reports errors. Hooks see
headers one by one and may add some, so a connection with hooks uses the second way only.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Final

from trio_stomp.brokers import Pairs, Profile, SendOptions, require_options
from trio_stomp.errors import LocalProtocolError, NotSupportedError, StompError
from trio_stomp.protocol import ClientProtocol, is_mime_type, is_utf_8_text, plain_head, text_encoding
from trio_stomp.session.body_source import BodySource
from trio_stomp.session.connection import Connection
from trio_stomp.session.header_input import HeaderInput, header_pairs
from trio_stomp.session.hooks import SendCallback
from trio_stomp.session.outgoing import Parts
from trio_stomp.session.publication import Encode, EncodeHead

__all__ = ["Outgoing", "encode", "encode_exactly", "frame_of", "outgoing", "own_header", "stable_id_of"]

# Spec: Header content-type: text in another encoding than the default names it; naming the default costs little.
_TEXT: Final = "text/plain;charset=utf-8"


def own_header(name: str, value: str) -> bytes:
    """Encode a header that the client itself adds. Its characters must be ones that no STOMP version escapes."""
    return f"\n{name}:{value}".encode()


# The frame, up to the body if that comes from a source; a function that encodes it for another connection, or the frame
# again if it is the same there; the length of the body; and the function that reports the end to the hooks, if any.
_Encoded = tuple[bytes, bytes | Encode, int, SendCallback | None]


def encode(connection: Connection, message: Parts[object], own: bytes = b"", *, is_request: bool = False) -> _Encoded:
    """Encode a SEND for a connection; everything that is sent goes through this.

    A message in which nothing has to be escaped takes a fraction of the time of `encode_exactly`, which looks at every
    other one closely, reports what is wrong with it, and shows it to the hooks.

    Args:
        connection: The connection.
        message: The message.
        own: Headers that the client sets, such as the transaction; see `own_header`.
        is_request: What to tell the hooks.

    Raises:
        LocalProtocolError: The message is invalid, or cannot be sent now.
        NotSupportedError: The broker does not support an option.
        TypeError: There is no such option.
    """
    destination, body, headers, content_type, options = message
    profile = connection.profile
    if connection.observer is not None or profile.bodies_are_text or not connection.protocol.takes_plain_heads:
        return encode_exactly(connection, message, own, is_request=is_request)
    if content_type is None and isinstance(headers, dict) and type(headers.get("content-type")) is str:
        headers = headers.copy()
        content_type = headers.pop("content-type")
    if options:
        headers = _with_options(headers, options, profile)
        if headers is None:
            return encode_exactly(connection, message, own, is_request=is_request)
    content_length = True
    if type(body) is bytes:
        data = body
    elif type(body) is str and (content_type is None or is_utf_8_text(content_type)):
        try:
            data = body.encode()
        except UnicodeEncodeError:
            # A lone surrogate.
            return encode_exactly(connection, message, own, is_request=is_request)
        content_type = content_type or _TEXT
        content_length = data != b"" and not profile.text_without_content_length
    else:
        return encode_exactly(connection, message, own, is_request=is_request)
    head = plain_head(destination, content_type, headers)
    if head is None:
        return encode_exactly(connection, message, own, is_request=is_request)
    frame = connection.protocol.send_plain(head, data, own, content_length=content_length)
    return frame, frame, len(data), None


def encode_exactly(
    connection: Connection, message: Parts[object], own: bytes = b"", *, is_request: bool = False
) -> _Encoded:
    """Encode a message for a connection, checking its headers one by one."""
    destination, body, headers, content_type, options = message
    source = body if isinstance(body, BodySource) else None
    if source is not None and not connection.can_lend:
        raise NotSupportedError(
            "over a WebSocket a body is sent as one message, so it must be in memory: connect by stomp:// or "
            f"stomps://, or read {source.name} and send bytes"
        )
    in_memory = b"" if source is not None else body
    out = outgoing((destination, in_memory, headers, content_type, options), connection.profile)
    size = len(out.body) if source is None else source.size
    # Hooks see all headers except for these.
    hidden: dict[str, str | None] = {"transaction": None, "receipt": None}
    for line in own.decode().split("\n")[1:]:
        name, _, value = line.partition(":")
        if name in hidden:
            hidden[name] = value
        else:
            out.headers.append((name, value))
    transaction, receipt_id = hidden["transaction"], hidden["receipt"]
    ended: SendCallback | None = None
    if connection.observer is not None:
        ended = connection.observer.sending(
            destination,
            out.headers,
            size,
            transaction=transaction,
            is_request=is_request,
            confirmed=receipt_id is not None and transaction is None,
        )
    if receipt_id is not None:
        out.headers.append(("receipt", receipt_id))
    encode: Encode = partial(frame_of, destination, out, transaction)
    if source is not None:
        encode = EncodeHead(destination, out.headers, transaction, source)
    try:
        frame = encode(connection.protocol)
    except StompError as error:
        if ended is not None:
            ended(None, error)
        raise
    return frame, encode, size, ended


def stable_id_of(headers: HeaderInput | None, options: SendOptions | None, profile: Profile) -> str | None:
    """Return the stable id that the sender of a message has set, if any. It may outlive this process."""
    naming = profile.stable_id_header
    if options and "dedup_id" in options and profile.dialect.dedup_header == naming:
        return options["dedup_id"]
    if not headers:
        return None
    if isinstance(headers, dict):
        return headers.get(naming)
    return next((value for name, value in header_pairs(headers) if name == naming), None)


@dataclass(slots=True)
class Outgoing:
    """A SEND that is being prepared.

    Attributes:
        headers: The headers of its sender, without the destination.
        body: Its body.
        content_length: Whether to add a content-length header.
    """

    headers: Pairs
    body: bytes
    content_length: bool


def outgoing(message: Parts[object], profile: Profile) -> Outgoing:
    """Encode a body by its Python type: bytes as they are, str as text, in UTF-8 or the charset of its content-type.

    Raises:
        LocalProtocolError: The body is of another type, the charset lacks one of its characters, the content-type is
            not a MIME type or is given twice, or an option is invalid.
        NotSupportedError: The broker does not support an option, or would drop or damage this body.
        TypeError: There is no such option.
    """
    _, body, headers, content_type, options = message
    pairs = header_pairs(headers)
    given = _content_type(pairs)
    if given is not None:
        if content_type is not None:
            msg = f"the content-type is given twice: {content_type!r} as an argument, {given!r} as a header"
            raise LocalProtocolError(msg)
        # Removed here, checked like the argument, and inserted as the first header.
        content_type = given
        pairs = [pair for pair in pairs if pair[0] != "content-type"]
    content_length = True
    if isinstance(body, str):
        charset = _charset(content_type)
        data = _encoded(body, charset)
        content_type = content_type or _TEXT
        # JMS brokers recognize text by the absence of this header, and decode it as UTF-8. Empty text never needs it.
        content_length = data != b"" and (not profile.text_without_content_length or charset != "utf-8")
    elif isinstance(body, bytes):
        data = body
    elif isinstance(body, bytearray):
        data = bytes(body)
    else:
        msg = (
            f"a body must be bytes or str, got a {type(body).__name__}; pass json= to send JSON, or encode it. "
            "Client.send() and Transaction.send() take files too"
        )
        raise LocalProtocolError(msg)
    if profile.bodies_are_text and (content_type is None or content_type != profile.binary_content_type):
        _require_text(data, profile)
    if content_type is not None:
        # STOMP 1.2, Header content-type: its value MUST be a MIME type.
        if not is_mime_type(content_type):
            msg = f"content_type must be a MIME type such as 'application/json', got {content_type!r}"
            raise LocalProtocolError(msg)
        pairs.insert(0, ("content-type", content_type))
    if options:
        pairs += _option_headers(options, pairs, profile)
    return Outgoing(pairs, data, content_length)


def frame_of(destination: str, out: Outgoing, transaction: str | None, protocol: ClientProtocol) -> bytes:
    """Encode a message that is not plain, for one connection.

    Raises:
        LocalProtocolError: The STOMP version of the connection cannot represent it.
    """
    return protocol.send(
        destination, out.body, headers=out.headers, content_length=out.content_length, transaction=transaction
    )


def _content_type(pairs: Pairs) -> str | None:
    for name, value in pairs:
        if name == "content-type":
            return value
    return None


def _charset(content_type: str | None) -> str:
    try:
        return text_encoding(content_type)
    except LookupError as error:
        msg = f"the body is text, and its content-type cannot be used to encode it: {error}; send bytes instead"
        raise LocalProtocolError(msg) from None


def _encoded(text: str, charset: str) -> bytes:
    try:
        return text.encode(charset)
    except UnicodeEncodeError as error:
        if charset.startswith("utf"):
            msg = f"the body cannot be encoded in {charset}: it holds a lone surrogate, at position {error.start}"
        else:
            why = f"the body cannot be written in {charset}, which its content-type names: {error}"
            msg = f"{why}; leave the charset out"
        raise LocalProtocolError(msg) from error


def _asked(options: SendOptions, profile: Profile) -> Pairs:
    require_options("send", options)
    return profile.dialect.send_headers(options, time.time())


def _with_options(headers: HeaderInput | None, options: SendOptions, profile: Profile) -> dict[str, str] | None:
    """Return the headers of a sender together with those of its options; None if they may collide."""
    given: dict[str, str] = {}
    if isinstance(headers, dict):
        given = headers
    elif headers:
        return None
    asked = dict(_asked(options, profile))
    return {**given, **asked} if asked.keys().isdisjoint(given) else None


def _option_headers(options: SendOptions, given: Pairs, profile: Profile) -> Pairs:
    asked = _asked(options, profile)
    twice = {name for name, _ in given} & {name for name, _ in asked}
    if twice:
        # Which of two counts depends on the broker.
        msg = f"the header {min(twice)!r} is given twice: in headers= and by an option; leave out one"
        raise LocalProtocolError(msg)
    return asked


def _require_text(data: bytes, profile: Profile) -> None:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        binary = profile.binary_content_type
        fate, way_out = (
            ("drops bodies that are not UTF-8", "connect by stomp:// or stomps://, or encode the body")
            if binary is None
            else ("damages bodies that are not UTF-8", f"pass content_type={binary!r}, or encode the body")
        )
        msg = f"over a WebSocket {profile.name} {fate} ({error.reason} at byte {error.start}); {way_out} as base64"
        raise NotSupportedError(msg) from None
