"""What a broker means by an ERROR, told by its words, since STOMP has no codes for it.

The words are the peer's, up to 64 KiB of them in a header. So they are looked for by `str.find`, each behind the one
before: linear for any text, which a regular expression with ``.*`` between two words is not.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["Phrase", "says_any"]

# Words that stand in a text in this order, with anything between them; in lower case.
Phrase = tuple[str, ...]

# The body may be a long stack trace; what it is about stands at its beginning.
_BODY_OCTETS = 500


def says_any(phrases: Iterable[Phrase], message: str, body: bytes) -> bool:
    """Whether an ERROR says one of the phrases, in any case.

    Args:
        phrases: What to look for.
        message: Its ``message`` header.
        body: Its body.
    """
    text = f"{message}\n{body[:_BODY_OCTETS].decode('utf-8', 'replace')}".lower()
    return any(_says(phrase, text) for phrase in phrases)


def _says(phrase: Phrase, text: str) -> bool:
    position = 0
    for words in phrase:
        found = text.find(words, position)
        if found < 0:
            return False
        position = found + len(words)
    return True
