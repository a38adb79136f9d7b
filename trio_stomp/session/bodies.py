"""What a body means: values made of octets, by the content-type or by what a subscription was given for it.

A decoder is a function of octets, or one of the objects that other libraries make for the purpose, known by the method
that they have: a Pydantic model class or TypeAdapter, a msgspec Decoder. None of those libraries is imported here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final, Generic, Protocol, cast

from typing_extensions import TypeVar

from trio_stomp.errors import DecodeFailed, LocalProtocolError
from trio_stomp.protocol import charset_of, is_utf_8_text, text_encoding

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

# The encodings that a JSON reader finds by itself, as its RFC says; libraries that want UTF-8 alone get UTF-8.
_UTF: Final = ("utf-8", "utf_8", "utf-16", "utf-32")

_SHOWN: Final = 80


class ModelClass(Protocol[T_co]):
    """A class that reads itself from JSON: a Pydantic model."""

    def model_validate_json(self, json_data: bytes, /) -> T_co:
        """The value that the octets stand for."""
        ...


class TypeValidator(Protocol[T_co]):
    """What reads a type that has no such method itself from JSON: a Pydantic TypeAdapter."""

    def validate_json(self, data: bytes, /) -> T_co:
        """The value that the octets stand for."""
        ...


class ObjectDecoder(Protocol[T_co]):
    """What reads values of a format of its own: a msgspec Decoder, of JSON or MessagePack."""

    def decode(self, buf: bytes, /) -> T_co:
        """The value that the octets stand for."""
        ...


Decode = Callable[[bytes], T] | ModelClass[T] | TypeValidator[T] | ObjectDecoder[T]


class Codec(Generic[T_co]):
    """How the bodies of one subscription become values.

    Args:
        name: What to call it in errors.
        read: Makes a value of a body and its content-type; may raise any Exception.
        chosen: Whether the user asked for it.

    Attributes:
        chosen: Whether the user asked for it, so that a body that it cannot read is a failure whatever the handler
            does.
    """

    def __init__(self, name: str, read: Callable[[bytes, str | None], T_co], *, chosen: bool) -> None:
        self._name = name
        self._read = read
        self.chosen = chosen

    def decode(self, body: bytes, content_type: str | None, message_id: str) -> T_co:
        """The value of a body.

        Args:
            body: The octets.
            content_type: Their MIME type.
            message_id: The message, for errors.

        Raises:
            DecodeFailed: The decoder has raised; that is its cause. The bytes are in `Message.body` all the same.
        """
        try:
            return self._read(body, content_type)
        except Exception as error:
            of = "without a content-type" if content_type is None else f"of type {content_type[:_SHOWN]!r}"
            msg = (
                f"the body of message {message_id!r}, {len(body)} octets {of}, cannot be decoded by {self._name}: "
                f"{type(error).__name__}: {error}; its bytes are in .body"
            )
            raise DecodeFailed(msg) from error


def codec_of(decode: Decode[T] | None) -> Codec[T]:
    """The codec that a user's `decode=` stands for; without one, the content-type decides.

    Raises:
        LocalProtocolError: It is none of the things that can decode.
    """
    if decode is None:
        # Nothing says what T is, so it is its default: object.
        return cast("Codec[T]", _BY_CONTENT_TYPE)
    read = _reader(decode)
    return Codec(_name_of(decode), lambda body, content_type: read(_as_utf8(body, content_type)), chosen=True)


def _reader(decode: Decode[T]) -> Callable[[bytes], T]:
    # A model class is callable too, but calling it means something else; so its method is looked for first.
    for name in ("model_validate_json", "validate_json"):
        method: Callable[[bytes], T] | None = getattr(decode, name, None)
        if method is not None:
            return method
    if callable(decode):
        return decode
    decoder: Callable[[bytes], T] | None = getattr(decode, "decode", None)
    if decoder is not None:
        return decoder
    msg = (
        "decode must be a function of bytes, a class with model_validate_json(), or an object with validate_json() or "
        f"decode(); got {decode!r}"
    )
    raise LocalProtocolError(msg)


def _name_of(decode: object) -> str:
    name: str | None = getattr(decode, "__qualname__", None)
    return type(decode).__qualname__ if name is None else name


def _as_utf8(body: bytes, content_type: str | None) -> bytes:
    """The body, in UTF-8 where its type says that it is text in something else than Unicode."""
    charset = charset_of(content_type)
    if charset is None or charset.startswith(_UTF):
        return body
    return body.decode(charset).encode()


def _json_of(body: bytes, content_type: str | None) -> object:
    text_encoding(content_type)  # raises for a charset that is not supported
    # json finds UTF-8, UTF-16 and UTF-32 by itself, as its RFC says; for all else it needs the charset.
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


_BY_CONTENT_TYPE: Final[Codec[object]] = Codec("its content-type", _by_content_type, chosen=False)

# A hostile body raises more than ValueError (RecursionError, where it is nested too deep); a Codec converts all of it.
AS_JSON: Final[Codec[object]] = Codec("JSON", _json_of, chosen=False)
AS_TEXT: Final[Codec[str]] = Codec("text", _text_of, chosen=False)


def resent_body(body: bytes, headers: Mapping[str, str]) -> bytes | str:
    """A body as the type that it came as, octet for octet.

    Brokers of the JMS kind tell text from bytes by the absence of ``content-length``. So text is what bore no such
    header, and what its content-type calls so; all else is bytes.

    Args:
        body: The body.
        headers: The headers that it came with.
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
