import json
import pickle

import pytest

from trio_stomp.spark.option_reader import OptionError
from trio_stomp.spark.stream_offsets import Offset, offset_of
from trio_stomp.spark.stream_options import SpoolTransport, Start, StreamOptions

NEEDED = {"brokers": "broker:61613", "subscribe": "/queue/a", "spoolLocation": "/data/spool"}


def test_options_when_only_the_needed_are_given_then_the_others_are_the_defaults_of_the_manual() -> None:
    options = StreamOptions.read(NEEDED)

    assert options.intake.destination == "/queue/a"
    assert (options.receivers, options.max_rows, options.transport) == (1, None, SpoolTransport.FILE)
    assert (options.max_bytes, options.min_rows, options.max_delay) == (None, 1, 900.0)
    assert (options.min_partitions, options.max_partitions) == (1, 8)
    assert options.intake.max_spool_bytes == 4 * 1024**3
    assert (options.poll_timeout, options.available_idle, options.available_timeout) == (0.2, 2.0, 300.0)
    assert options.fail_on_data_loss
    assert options.starting is Start.UNREAD
    assert pickle.loads(pickle.dumps(options)) == options  # noqa: S301  # what was pickled the line before


def test_options_when_all_are_given_then_read() -> None:
    given = {
        "receivers": "3",
        "maxOffsetsPerTrigger": "50_000",
        "maxBytesPerTrigger": "8m",
        "minOffsetsPerTrigger": "100",
        "maxTriggerDelayMs": "5000",
        "minPartitions": "2",
        "maxPartitions": "4",
        "maxSpoolBytes": "64m",
        "pollTimeoutMs": "100",
        "failOnDataLoss": "false",
        "availableNowIdleMs": "500",
        "availableNowTimeoutMs": "9000",
        "startingOffsets": "Earliest",
        "spoolTransport": "inline",
    }

    options = StreamOptions.read({**NEEDED, **given})

    assert (options.receivers, options.max_rows, options.transport) == (3, 50_000, SpoolTransport.INLINE)
    assert (options.max_bytes, options.min_rows, options.max_delay) == (8 * 1024**2, 100, 5.0)
    assert (options.min_partitions, options.max_partitions, options.intake.max_spool_bytes) == (2, 4, 64 * 1024**2)
    assert (options.poll_timeout, options.available_idle, options.available_timeout) == (0.1, 0.5, 9.0)
    assert not options.fail_on_data_loss
    assert options.starting is Start.EARLIEST


def test_start_when_given_as_spark_prints_an_offset_then_read() -> None:
    offset = Offset(spool="6f1c02aa97d3b184", rows={"a": 12}, retired=3)
    printed = json.dumps(offset_of("/queue/a", offset))

    assert StreamOptions.read({**NEEDED, "startingOffsets": printed}).starting == offset


def test_available_now_when_it_waits_for_nothing_then_allowed() -> None:
    assert StreamOptions.read({**NEEDED, "availableNowIdleMs": "0"}).available_idle == 0


def test_rows_when_they_travel_in_the_plan_then_a_batch_is_bounded_by_itself() -> None:
    assert StreamOptions.read({**NEEDED, "spoolTransport": "inline"}).max_rows == 10_000


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"maxOffsetPerTrigger": "1"}, "did you mean 'maxOffsetsPerTrigger'"),
        ({"spoolTransport": "smoke"}, "'spoolTransport' must be file or inline, got 'smoke'"),
        ({"minPartitions": "9"}, "'minPartitions' is 9 and 'maxPartitions' is 8"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "is 9, and a batch has at most 8 rows"),
        ({"receivers": "2", "subscribe": "/topic/a"}, "gives each of them every message"),
        ({"receivers": "-1"}, "'receivers' must be a whole number from 0"),
        ({"path": "/queue/a"}, "a destination is no path"),
        ({"startingOffsets": "newest"}, "'startingOffsets' must be unread, earliest, latest, or an offset as"),
        ({"startingOffsets": "[1]"}, "'startingOffsets' must be unread"),
        ({"startingOffsets": '{"destination": "/queue/b"}'}, "the checkpoint is of '/queue/b'"),
    ],
)
def test_option_when_it_cannot_be_meant_then_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        StreamOptions.read({**NEEDED, **given})
