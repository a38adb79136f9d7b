"""The layout of a spool: names, contents, listing."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.spark.receiving import bodies_of, opened, segments_in, write
from trio_stomp.spark import SpoolError
from trio_stomp.spark.segments import SegmentFormat, describe_spool, list_spool, mark_spool, new_shard, open_batches
from trio_stomp.spark.spool_store import SpoolDamaged, SpoolStore


@pytest.mark.parametrize("form", SegmentFormat)
def test_segment_when_written_then_its_name_says_what_it_is(store: SpoolStore, form: SegmentFormat) -> None:
    second = write(store, "b", 4, ["x", "y"], form=form)
    first = write(store, "b", 1, ["x", None, "z"], redelivered=[1], form=form, time=5)
    other = write(store, "a", 1, ["x"], form=form)

    assert segments_in(store) == [other, first, second]
    assert (first.last, second.last) == (3, 5)
    assert bodies_of(store, first) == [1, 2, 3]
    listing = list_spool(store)
    assert listing.size == first.size + second.size + other.size
    assert listing.damaged == {}


def test_segment_when_damaged_then_said_which_and_what_to_do(store: SpoolStore) -> None:
    for form in SegmentFormat:
        segment = write(store, form.value, 1, ["x", "y"], form=form)
        path = Path(store.path(segment.name))
        path.write_bytes(bytes(segment.size))

        with pytest.raises(SpoolError, match=rf"cannot read {path} of the spool: .*it is damaged"):
            list(open_batches(store, str(path), ["body"]))


@pytest.mark.parametrize(
    "name", ["0/seg-000000000000001-000000000000003.arrow", "read-000001/seg-000000000000001-000000000000003.arrow"]
)
def test_listing_when_of_an_earlier_version_then_refused(store: SpoolStore, name: str) -> None:
    store.put(name, b"")

    with pytest.raises(SpoolError, match="written by an earlier version of trio_stomp"):
        list_spool(store)


def test_mark_when_the_spool_is_new_then_written_and_when_old_then_checked(store: SpoolStore) -> None:
    made = mark_spool(store, "/queue/a")
    assert mark_spool(store, "/queue/a") == made

    about = json.loads(store.get("spool.json") or b"")
    assert about == {"trio_stomp_spool": 2, "destination": "/queue/a", "id": made}


def test_mark_when_several_processes_make_the_spool_at_once_then_it_has_one_id(store: SpoolStore) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(mark_spool, [opened(Path(store.folder)) for _ in range(32)], ["/queue/a"] * 32))

    assert len(made) == 1


@pytest.mark.parametrize("about", [b'{"trio_stomp_spool": 1}', b"[]"])
def test_mark_when_of_another_layout_then_refused(store: SpoolStore, about: bytes) -> None:
    store.put("spool.json", about)

    with pytest.raises(
        SpoolError, match=r"spool.json says layout (1|None), but this version of trio_stomp has layout 2"
    ):
        mark_spool(store, "/queue/a")


def test_mark_when_damaged_then_the_error_names_it_and_a_status_skips_it(store: SpoolStore) -> None:
    store.put("spool.json", b"nonsense")

    with pytest.raises(SpoolDamaged, match=rf"cannot read {store.path('spool.json')} of the spool"):
        mark_spool(store, "/queue/a")
    assert describe_spool(store) is None


def test_shards_when_named_then_all_differ_and_sort_by_age() -> None:
    names = [new_shard(1e9 + number) for number in range(100)]

    assert names == sorted(names)
    assert len({new_shard(1e9) for _ in range(1000)}) == 1000
