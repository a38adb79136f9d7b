import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_stomp.spark.stream_offsets import limited, parsed

OFFSETS = st.dictionaries(st.sampled_from(["0", "1", "2"]), st.integers(0, 1000), max_size=3)


def test_offsets_when_read_from_a_checkpoint_then_as_they_were() -> None:
    assert parsed({"0": 12, "1": 0}) == {"0": 12, "1": 0}


@pytest.mark.parametrize("found", [{"0": "12"}, {"0": -1}, {"partition-0": 3}, {"0": None}])
def test_offsets_when_of_another_source_then_refused(found: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="the checkpoint is of another source"):
        parsed(found)


def test_limit_when_there_is_none_then_all_that_is_there() -> None:
    assert limited({"0": 5}, {"0": 9, "1": 4}, None) == {"0": 9, "1": 4}


def test_limit_when_it_is_reached_then_each_shard_has_a_share() -> None:
    assert limited({"0": 0, "1": 100}, {"0": 900, "1": 200}, 100) == {"0": 90, "1": 110}


@given(OFFSETS, OFFSETS, st.integers(1, 3000))
def test_limit_when_anything_then_no_row_too_many_and_none_too_few(
    start: dict[str, int], last: dict[str, int], most: int
) -> None:
    end = limited(start, last, most)

    there = sum(max(0, number - start.get(shard, 0)) for shard, number in last.items())
    assert sum(number - start.get(shard, 0) for shard, number in end.items()) == min(most, there)
    for shard, number in end.items():
        assert start.get(shard, 0) <= number <= max(start.get(shard, 0), last.get(shard, 0))
