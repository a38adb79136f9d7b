"""The window of ids in memory: what it remembers, in which order it forgets, and its size."""

from __future__ import annotations

import tracemalloc

from trio_stomp.spark.recent_ids import DigestWindow, digest_of


def test_digest_when_forgotten_then_not_found_and_it_can_be_added_again() -> None:
    window = DigestWindow()
    window.add(digest_of("a"), 1)
    window.add(digest_of("b"), 1)
    window.forget(1)

    assert [window.find(digest_of(each)) for each in "ab"] == [None, 1]
    window.add(digest_of("a"), 0)
    assert [window.find(digest_of(each)) for each in "ab"] == [0, 1]
    assert len(window) == 2


def test_digests_when_many_come_and_go_then_the_newest_are_found() -> None:
    window, kept = DigestWindow(), 3000
    for number in range(20_000):
        window.add(digest_of(str(number)), number % 2)
        if len(window) > kept:
            window.forget(1)
        if number % 1999 == 0:
            newest = range(max(0, number + 1 - kept), number + 1)
            assert [window.find(digest_of(str(each))) for each in newest] == [each % 2 for each in newest]
            assert window.find(digest_of(str(newest[0] - 1))) is None


def test_digests_when_there_are_many_then_each_takes_a_third_of_a_string_in_a_dictionary() -> None:
    window, kept = DigestWindow(), 10_000
    tracemalloc.start()
    try:
        for number in range(2 * kept):
            window.add(digest_of(f"ID:broker.example.com-{number}"), 0)
            if len(window) > kept:
                window.forget(1)
        size, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert size < 50 * kept
    assert peak < 80 * kept
