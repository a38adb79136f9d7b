"""Decoding bodies: by the content-type, or by the ``decode=`` of a subscription or request.

A decoder is a function of bytes, or an object that other libraries make for the purpose, recognized by its method: a
Pydantic model class or TypeAdapter, or a msgspec Decoder. None of those libraries is imported here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final, Generic, Protocol, cast

from typing_extensions import TypeVar

from trio_stomp.errors import DecodeError, LocalProtocolError
from trio_stomp.printable import safe_str
from trio_stomp.protocol import charset_of, is_utf_8_text, text_encoding
from trio_stomp.runtime import called

__all__ = [
    "AS_JSON",
    "AS_TEXT",
    "Codec",
    "Decode",
    "ModelClass",
    "ObjectDecoder",
    "TypeValidator",
    "codec_of",
    "resent_body",
]

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T", default=object)

# Encodings that a JSON parser detects by itself, as its RFC says; libraries that want only UTF-8 get UTF-8.
_UTF: Final = ("utf-8", "utf-16", "utf-32")

_SHOWN: Final = 80


class ModelClass(Protocol[T_co]):
    """A class that parses itself from JSON, such as a Pydantic model."""

    def model_validate_json(self, json_data: bytes, /) -> T_co:
        """Decode bytes."""
        ...


class TypeValidator(Protocol[T_co]):
    """An object that parses a type from JSON, such as a Pydantic TypeAdapter."""

    def validate_json(self, data: bytes, /) -> T_co:
        """Decode bytes."""
        ...


class ObjectDecoder(Protocol[T_co]):
    """An object that decodes a format, such as a msgspec Decoder of JSON or MessagePack."""

    def decode(self, buf: bytes, /) -> T_co:
        """Decode bytes."""
        ...


Decode = Callable[[bytes], T] | ModelClass[T] | TypeValidator[T] | ObjectDecoder[T]


class Codec(Generic[T_co]):
    """Decodes the bodies of one subscription.

    Args:
        name: Name of the decoder in errors.
        read: Decodes a body, given with its content-type. May raise any Exception.
        chosen: Whether the user passed ``decode=``.

    Attributes:
        chosen: Whether the user passed ``decode=``. In a worker pool, an undecodable body is then a failure even if the
            handler does not look at it.
    """

    def __init__(self, name: str, read: Callable[[bytes, str | None], T_co], *, chosen: bool = False) -> None:
        self._name = name
        self._read = read
        self.chosen = chosen

    def decode(self, body: bytes, content_type: str | None, message_id: str) -> T_co:
        """Decode a body.

        Args:
            body: The body.
            content_type: Its MIME type.
            message_id: Id of the message, for errors.

        Raises:
            DecodeError: The decoder raised an exception, which is the cause. `Message.body` still has the bytes.
        """
        try:
            return self._read(body, content_type)
        except Exception as error:
            of = "without a content-type" if content_type is None else f"of type {content_type[:_SHOWN]!r}"
            raise DecodeError(
                f"the body of message {message_id!r}, {len(body)} bytes {of}, cannot be decoded by {self._name}: "
                f"{type(error).__name__}: {safe_str(error)}; its bytes are in .body"
            ) from error


def codec_of(decode: Decode[T] | None) -> Codec[T]:
    """Return the codec for a user's `decode=`; without one, the content-type decides.

    Raises:
        LocalProtocolError: It is not a decoder.
    """
    if decode is None:
        # T is its default, object.
        return cast("Codec[T]", _BY_CONTENT_TYPE)
    read = _reader(decode)
    return Codec(_name_of(decode), lambda body, content_type: called(read, _as_utf8(body, content_type)), chosen=True)


def _reader(decode: Decode[T]) -> Callable[[bytes], T]:
    # A model class is callable too, but calling it does something else, so look for its method first.
    for name in ("model_validate_json", "validate_json"):
        method: Callable[[bytes], T] | None = getattr(decode, name, None)
        if method is not None:
            return method
    if callable(decode):
        return decode
    decoder: Callable[[bytes], T] | None = getattr(decode, "decode", None)
    if decoder is not None:
        return decoder
    raise LocalProtocolError(
        "decode must be a function of bytes, a class with model_validate_json(), or an object with validate_json() or "
        f"decode(); got {decode!r}"
    )


def _name_of(decode: object) -> str:
    name: str | None = getattr(decode, "__qualname__", None)
    return type(decode).__qualname__ if name is None else name


def _as_utf8(body: bytes, content_type: str | None) -> bytes:
    """Return the body, converted to UTF-8 if its charset is not a Unicode encoding."""
    charset = charset_of(content_type)
    if charset is None or charset.startswith(_UTF):
        return body
    return body.decode(charset).encode()


def _json_of(body: bytes, content_type: str | None) -> object:
    text_encoding(content_type)  # raises for a charset that is not supported
    # json detects UTF-8, UTF-16 and UTF-32 by itself, as its RFC says; for the rest it needs the charset.
    value: object = json.loads(_as_utf8(body, content_type))
    return value


def _text_of(body: bytes, content_type: str | None) -> str:
    return body.decode(text_encoding(content_type))


def _by_content_type(body: bytes, content_type: str | None) -> object:
    kind = (content_type or "").partition(";")[0].strip().lower()
    # RFC 6839: the suffix +json says that a type is JSON as well.
    if kind in ("application/json", "text/json") or kind.endswith("+json"):
        return _json_of(body, content_type)
    charset = charset_of(content_type)
    return body if charset is None else body.decode(charset)


_BY_CONTENT_TYPE: Final[Codec[object]] = Codec("its content-type", _by_content_type)

# A hostile body raises more than ValueError (RecursionError, where it is nested too deep); a Codec converts all of it.
AS_JSON: Final[Codec[object]] = Codec("JSON", _json_of)
AS_TEXT: Final[Codec[str]] = Codec("text", _text_of)


def resent_body(body: bytes, headers: Mapping[str, str]) -> bytes | str:
    """Return a body as the type to resend it with: str for a JMS text message, else bytes.

    JMS brokers recognize a text message by the absence of ``content-length``. So a body is text if it came without that
    header or its content-type says so, and bytes otherwise.

    Args:
        body: The body.
        headers: The headers of its message.
    """
    content_type = headers.get("content-type")
    is_text = "content-length" not in headers or (content_type or "").startswith("text/")
    # A str is sent in UTF-8.
    if not is_text or not is_utf_8_text(content_type):
        return body
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return body
