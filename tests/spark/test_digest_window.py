"""The window of ids in memory: what it remembers, in which order it forgets, and its size."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Sequence

from trio_stomp.spark.recent_ids import DigestWindow, digest_of


def digests_of(ids: Sequence[str]) -> bytes:
    return b"".join(map(digest_of, ids))


def test_digest_when_forgotten_then_not_found_and_it_can_be_added_again() -> None:
    window = DigestWindow()
    assert window.add(digests_of("ab"), bytes([1, 1])) == []
    window.forget(1)

    assert [window.find(digest_of(each)) for each in "ab"] == [None, 1]
    assert window.add(digests_of("ab"), bytes([0, 0])) == [(1, 1)]
    assert [window.find(digest_of(each)) for each in "ab"] == [0, 1]
    assert len(window) == 2


def test_digests_when_they_repeat_or_are_among_others_or_have_no_id_then_not_added() -> None:
    window, others = DigestWindow(), DigestWindow()
    others.add(digests_of("b"), bytes([1]))

    assert window.add(digests_of("abac"), bytes([0, 0, 1, 2]), others) == [(1, 1), (2, 0)]
    assert list(window.oldest(len(window))) == [(digest_of("a"), 0)]


def test_digests_when_many_come_and_go_then_those_that_are_not_forgotten_are_found() -> None:
    chance = random.Random(1)  # noqa: S311  # no secret
    window, known = DigestWindow(), dict[str, int]()
    for _ in range(500):
        ids = [str(chance.randrange(4000)) for _ in range(chance.randrange(100))]
        marks = bytes(chance.randrange(2) for _ in ids)
        found: list[tuple[int, int]] = []
        for position, (each, mark) in enumerate(zip(ids, marks, strict=True)):
            if each in known:
                found.append((position, known[each]))
            else:
                known[each] = mark

        assert window.add(digests_of(ids), marks) == found
        forgotten = list(known)[: max(0, len(known) - 1000)]
        window.forget(len(forgotten))
        for each in forgotten:
            del known[each]
        assert list(window.oldest(len(window))) == [(digest_of(each), mark) for each, mark in known.items()]
    assert [window.find(digest_of(str(each))) for each in range(4000)] == [known.get(str(each)) for each in range(4000)]


def test_digests_when_there_are_many_then_each_takes_a_third_of_a_string_in_a_dictionary() -> None:
    window, kept, some = DigestWindow(), 10_000, 100
    tracemalloc.start()
    try:
        for first in range(0, 3 * kept, some):
            ids = [f"ID:broker.example.com-{number}" for number in range(first, first + some)]
            window.add(digests_of(ids), bytes(some))
            window.forget(max(0, len(window) - kept))
        size, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert size < 55 * kept
    assert peak < 75 * kept
