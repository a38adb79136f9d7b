"""What a user gives to be sent, as what goes into a SEND."""

from __future__ import annotations

import time
from dataclasses import dataclass

from trio_stomp.brokers import Pairs, Profile, SendOptions, require_options
from trio_stomp.errors import LocalProtocolError, NotSupported
from trio_stomp.protocol import ClientProtocol, is_mime_type, is_utf_8_text, plain_head, read_only, text_encoding
from trio_stomp.session.settings import HeaderInput, header_pairs

__all__ = ["Outgoing", "OutgoingMessage", "encode", "outgoing", "plain_outgoing"]

# Spec: Header content-type: text in another encoding than the default names it; naming the default costs little.
_TEXT = "text/plain;charset=utf-8"


@read_only
class OutgoingMessage:
    """A message to be sent, for the verbs that take many.

    Attributes:
        destination: Where to; the broker gives it its meaning.
        body: ``bytes`` are sent as they are, ``str`` as text, in UTF-8 or the charset of `content_type`.
        headers: More headers; a list of pairs may repeat names.
        content_type: MIME type of the body. Default: none for bytes, ``text/plain;charset=utf-8`` for str.
        options: What brokers add, such as ``{"persistent": True}``; see `SendOptions`.
    """

    destination: str
    body: bytes | str
    headers: HeaderInput | None = None
    content_type: str | None = None
    options: SendOptions | None = None


@dataclass(slots=True)
class Outgoing:
    """A SEND in the making: its headers but for the destination, and its body.

    Attributes:
        headers: The headers that its sender gave it.
        body: Its body.
        content_length: Whether to say how long that is.
    """

    headers: Pairs
    body: bytes
    content_length: bool


def outgoing(
    body: object,
    headers: HeaderInput | None,
    content_type: str | None,
    profile: Profile,
    options: SendOptions | None = None,
) -> Outgoing:
    """Encode a body by its Python type: bytes are octets, str is text, in UTF-8 or the charset of its content-type.

    Raises:
        LocalProtocolError: The body is neither, or the charset lacks a character of it, or the content-type is no MIME
            type or given twice, or an option cannot be meant.
        NotSupported: The broker has no such option; or the body is not UTF-8, and on this link it would drop that.
        TypeError: There is no such option.
    """
    pairs = header_pairs(headers)
    given = _content_type(pairs)
    if given is not None:
        if content_type is not None:
            msg = f"the content-type is given twice: {content_type!r} as an argument, {given!r} as a header"
            raise LocalProtocolError(msg)
        # Taken out here and put back first, checked like the argument.
        content_type = given
        pairs = [pair for pair in pairs if pair[0] != "content-type"]
    content_length = True
    if isinstance(body, str):
        charset = _charset(content_type)
        octets = body.encode() if charset == "utf-8" else _encoded(body, charset)
        content_type = content_type or _TEXT
        # JMS brokers tell text from bytes by the absence of this header, and take all text for UTF-8. Empty text needs
        # no length anywhere.
        content_length = octets != b"" and (not profile.text_without_content_length or charset != "utf-8")
    elif isinstance(body, bytes):
        octets = body
    elif isinstance(body, bytearray):
        octets = bytes(body)
    else:
        msg = f"a body must be bytes or str, got a {type(body).__name__}; encode it, for example with json.dumps()"
        raise LocalProtocolError(msg)
    if profile.bodies_are_text and (content_type is None or content_type != profile.binary_content_type):
        _require_text(octets, profile)
    if content_type is not None:
        # STOMP 1.2, Header content-type: its value MUST be a MIME type.
        if not is_mime_type(content_type):
            msg = f"content_type must be a MIME type such as 'application/json', got {content_type!r}"
            raise LocalProtocolError(msg)
        pairs.insert(0, ("content-type", content_type))
    if options:
        pairs += _option_headers(options, pairs, profile)
    return Outgoing(pairs, octets, content_length)


def plain_outgoing(
    destination: str,
    body: object,
    headers: HeaderInput | None,
    content_type: str | None,
    profile: Profile,
    options: SendOptions | None = None,
) -> tuple[bytes, bytes, bool] | None:
    """`outgoing` of a message in which nothing needs a second look, in a fraction of the time.

    Returns:
        Its encoded head (see `plain_head`), its body, and whether to say how long that is; None where `outgoing` is to
        take that second look, and to say what is wrong, if anything is.

    Raises:
        StompError: As for `outgoing`, where it is about the options.
        TypeError: There is no such option.
    """
    if profile.bodies_are_text:
        return None
    if content_type is None and isinstance(headers, dict) and type(headers.get("content-type")) is str:
        headers = headers.copy()
        content_type = headers.pop("content-type")
    if options:
        headers = _with_options(headers, options, profile)
        if headers is None:
            return None
    content_length = True
    if type(body) is bytes:
        octets = body
    elif type(body) is str and (content_type is None or is_utf_8_text(content_type)):
        octets = body.encode()
        content_type = content_type or _TEXT
        content_length = octets != b"" and not profile.text_without_content_length
    else:
        return None
    head = plain_head(destination, content_type, headers)
    return None if head is None else (head, octets, content_length)


def encode(protocol: ClientProtocol, destination: str, out: Outgoing) -> bytes:
    """The frame of a message that is not plain, for one connection.

    Raises:
        LocalProtocolError: It cannot be represented there.
    """
    return protocol.send(destination, out.body, headers=out.headers, content_length=out.content_length)


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
        msg = f"the body cannot be written in {charset}, which its content-type names: {error}; leave the charset out"
        raise LocalProtocolError(msg) from error


def _asked(options: SendOptions, profile: Profile) -> Pairs:
    require_options("send", options)
    return profile.dialect.send_headers(options, time.time())


def _with_options(headers: HeaderInput | None, options: SendOptions, profile: Profile) -> dict[str, str] | None:
    """The headers of a sender and those of its options; None where they may collide."""
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


def _require_text(octets: bytes, profile: Profile) -> None:
    try:
        octets.decode()
    except UnicodeDecodeError as error:
        binary = profile.binary_content_type
        fate, way_out = (
            ("drops bodies that are not UTF-8, without a word", "connect by stomp:// or stomps://, or encode the body")
            if binary is None
            else ("damages bodies that are not UTF-8", f"say content_type={binary!r}, or encode the body")
        )
        msg = (
            f"over a WebSocket {profile.name} {fate} ({error.reason} at octet {error.start}); {way_out}, say as base64"
        )
        raise NotSupported(msg) from None
