from __future__ import annotations

import pytest

from trio_stomp.protocol.sent_heads import SentHeads
from trio_stomp.protocol.versions import Version


def remember(heads: SentHeads, name: str, version: Version = Version.V1_2) -> None:
    heads.remember("/q", [("a", name)], version)


def knows(heads: SentHeads, name: str) -> bool:
    return heads.frame("/q", [("a", name)], (), b"", content_length=True) is not None


def test_frame_when_its_head_is_known_then_is_made_of_it() -> None:
    heads = SentHeads()
    heads.remember("/q", [("a", "1:2")], Version.V1_2)

    assert heads.frame("/q", [("a", "1:2")], [("b", "3")], b"xy", content_length=True) == (
        b"SEND\ndestination:/q\na:1\\c2\nb:3\ncontent-length:2\n\nxy\0"
    )
    assert heads.frame("/q", [("a", "1:2")], (), b"xy", content_length=False) == (
        b"SEND\ndestination:/q\na:1\\c2\n\nxy\0"
    )
    assert heads.frame("/q", [("a", "1")], (), b"", content_length=True) is None
    assert heads.frame("/p", [("a", "1:2")], (), b"", content_length=True) is None


def test_head_when_it_is_long_or_of_1_0_or_has_a_length_then_is_not_kept() -> None:
    heads = SentHeads()
    remember(heads, "x" * 10_000)
    remember(heads, "1", Version.V1_0)
    heads.remember("/q", [("content-length", "0")], Version.V1_2)

    assert not knows(heads, "x" * 10_000)
    assert not knows(heads, "1")
    assert heads.frame("/q", [("content-length", "0")], (), b"", content_length=True) is None


def test_heads_when_none_was_of_use_then_no_more_are_kept() -> None:
    heads = SentHeads()
    for number in range(300):
        remember(heads, str(number))
    remember(heads, "last")

    assert not knows(heads, "last")


def test_heads_when_they_are_many_and_of_use_then_are_bounded_and_kept_anew() -> None:
    heads = SentHeads()
    for number in range(1000):
        remember(heads, str(number))
        assert knows(heads, str(number))

    assert sum(knows(heads, str(number)) for number in range(1000)) <= 256


@pytest.mark.parametrize("version", [Version.V1_1, Version.V1_2])
def test_own_headers_when_they_need_escapes_then_get_those_of_the_version(version: Version) -> None:
    heads = SentHeads()
    remember(heads, "1", version)

    frame = heads.frame("/q", [("a", "1")], [("b", "c:d")], b"", content_length=True)

    assert frame == b"SEND\ndestination:/q\na:1\nb:c\\cd\n\n\0"
