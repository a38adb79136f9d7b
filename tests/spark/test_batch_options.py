import pickle
from pathlib import Path

import pytest

from trio_stomp.spark.batch_options import BatchOptions, Dedupe, spool_folder
from trio_stomp.spark.option_reader import OptionError

NEEDED = {"brokers": "broker:61613", "subscribe": "/queue/a", "spoolLocation": "/data/spool"}


def test_options_when_only_the_needed_are_given_then_the_others_are_the_defaults_of_the_manual() -> None:
    options = BatchOptions.read(NEEDED)

    assert (options.destination, options.spool) == ("/queue/a", Path("/data/spool"))
    assert (options.max_rows, options.idle_timeout, options.prefetch) == (None, 2.0, 2000)
    assert (options.segment_rows, options.linger, options.max_partitions) == (10_000, 0.005, 8)
    assert options.dedupe == Dedupe(by_broker=True)
    assert options.selector is None
    assert options.subscribe_headers == ()
    assert pickle.loads(pickle.dumps(options)) == options  # noqa: S301  # what was pickled the line before


def test_options_when_all_are_given_then_read() -> None:
    options = BatchOptions.read(
        {
            **NEEDED,
            "subscribeHeaders": '{"x-priority": "5"}',
            "selector": "a = 'b'",
            "maxRows": "10",
            "idleTimeoutMs": "500",
            "prefetch": "20",
            "segmentRows": "30",
            "lingerMs": "40",
            "maxPartitions": "2",
            "dedupe": "header:order-id",
            "includeHeaders": "true",
        }
    )

    assert options.subscribe_headers == (("x-priority", "5"),)
    assert options.selector == "a = 'b'"
    assert (options.max_rows, options.idle_timeout, options.prefetch) == (10, 0.5, 20)
    assert (options.segment_rows, options.linger, options.max_partitions) == (30, 0.04, 2)
    assert options.dedupe == Dedupe(by_broker=False, header="order-id")
    assert options.columns.include_headers


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"path": "/queue/a"}, "a destination is no path"),
        ({"dedupe": "header:"}, "'dedupe' must be auto, none or header:<name>"),
        ({"dedupe": "yes"}, "'dedupe' must be auto, none or header:<name>"),
        ({"maxRows": "0"}, "'maxRows' must be a whole number from 1"),
        ({"maxrow": "1"}, "did you mean 'maxRows'"),
        ({"destination": "/queue/a"}, "the STOMP batch source has no option 'destination'"),
        ({"spoolLocation": "s3://bucket/spool"}, "a spool on s3 was not tested"),
        ({"spoolLocation": "spool"}, "must be an absolute path"),
    ],
)
def test_option_when_it_cannot_be_meant_then_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        BatchOptions.read({**NEEDED, **given})


def test_dedupe_when_none_then_by_nothing() -> None:
    assert BatchOptions.read({**NEEDED, "dedupe": "none"}).dedupe == Dedupe(by_broker=False)
    assert BatchOptions.read({**NEEDED, "dedupe": "auto"}).dedupe == Dedupe(by_broker=True)


@pytest.mark.parametrize("location", ["/data/spool", "file:///data/spool", "file:/data/spool"])
def test_spool_when_written_in_any_of_these_ways_then_the_same_folder(location: str) -> None:
    assert spool_folder(location) == Path("/data/spool")
