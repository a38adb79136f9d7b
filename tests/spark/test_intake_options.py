import pytest

from trio_stomp.spark.intake_options import Dedupe, IntakeOptions, destination_folder
from trio_stomp.spark.option_reader import OptionError, OptionReader
from trio_stomp.spark.recent_ids import Window
from trio_stomp.spark.segments import SegmentFormat
from trio_stomp.spark.spool_store import SpoolLocation

NEEDED = {"brokers": "broker:61613", "subscribe": "/queue/a", "spoolLocation": "/data/spool"}


def read(**given: str) -> IntakeOptions:
    return IntakeOptions.read(OptionReader({**NEEDED, **given}))


def test_options_when_only_the_needed_are_given_then_the_others_are_the_defaults_of_the_manual() -> None:
    options = read()

    assert (options.destination, options.spool) == ("/queue/a", SpoolLocation(uri="/data/spool"))
    assert (options.prefetch, options.segment_rows, options.linger) == (2_000, 10_000, 0.005)
    assert options.dedupe == Dedupe(by_broker=True, window=Window(rows=500_000, seconds=3600))
    assert options.segment_format is SegmentFormat.ARROW
    assert options.selector is None
    assert options.spool_timeout == 10
    assert options.subscribe_headers == ()


def test_options_when_all_are_given_then_read() -> None:
    options = read(
        subscribeHeaders='{"x-priority": "5"}',
        selector="a = 'b'",
        prefetch="20",
        segmentRows="30",
        lingerMs="40",
        dedupe="header:order-id",
        includeHeaders="true",
        segmentFormat="parquet",
        dedupeWindowRows="5",
        dedupeWindowMs="6000",
        spoolTimeoutMs="7000",
    )

    assert options.subscribe_headers == (("x-priority", "5"),)
    assert options.selector == "a = 'b'"
    assert (options.prefetch, options.segment_rows, options.linger) == (20, 30, 0.04)
    assert options.dedupe == Dedupe(by_broker=False, header="order-id", window=Window(rows=5, seconds=6))
    assert options.dedupe.wanted == Window(rows=5, seconds=6)
    assert options.segment_format is SegmentFormat.PARQUET
    assert options.columns.include_headers
    assert options.spool_timeout == 7
    assert read(dedupeWindowMs="0").dedupe.window.seconds == 0


@pytest.mark.parametrize(("prefetch", "rows", "most"), [("20", "30", 20), ("30", "20", 20)])
def test_segment_when_full_then_it_has_no_more_than_the_broker_sends_ahead(prefetch: str, rows: str, most: int) -> None:
    assert read(prefetch=prefetch, segmentRows=rows).most == most


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"path": "/queue/a"}, "a destination is no path"),
        ({"dedupe": "header:"}, "'dedupe' must be auto, none or header:<name>"),
        ({"dedupe": "yes"}, "'dedupe' must be auto, none or header:<name>"),
        ({"segmentFormat": "csv"}, "'segmentFormat' must be arrow or parquet"),
        ({"spoolLocation": "spool"}, "must be an absolute path"),
    ],
)
def test_option_when_it_cannot_be_meant_then_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        read(**given)


def test_dedupe_when_none_then_by_nothing() -> None:
    assert read(dedupe="none").dedupe == Dedupe(by_broker=False)
    assert read(dedupe="none").dedupe.wanted is None
    assert read(dedupe="auto").dedupe == Dedupe(by_broker=True)


def test_folders_when_names_are_nearly_the_same_then_they_differ() -> None:
    names = ["/queue/a b", "/queue/a-b", "/queue/a/b", "queue/a-b"]

    folders = {destination_folder(name) for name in names}

    assert len(folders) == 4
    assert all(name.startswith("queue-a-b-") for name in folders)


def test_destinations_when_several_are_given_then_known_by_one_name_in_any_order() -> None:
    first, second = read(subscribe='["/queue/b", "/queue/a"]'), read(subscribe='["/queue/a", "/queue/b"]')

    assert first.destinations == ("/queue/b", "/queue/a")
    assert first.destination == second.destination == '["/queue/a", "/queue/b"]'
    assert destination_folder(first.destination).startswith("queue-a-queue-b-")
    assert len(destination_folder("/queue/" + "x" * 1000)) < 255
    # One alone is as if it were not in an array.
    assert read(subscribe='["/queue/a"]').destination == "/queue/a"


@pytest.mark.parametrize("given", ["[", "[]", '["/queue/a", 1]', '["/queue/a", "/queue/a"]', '[""]', "[[]]"])
def test_destinations_when_they_are_no_array_of_names_then_refused(given: str) -> None:
    with pytest.raises(OptionError, match="'subscribe' must be a destination, or a JSON array of different ones"):
        read(subscribe=given)
