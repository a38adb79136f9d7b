from pathlib import Path

import pytest

from trio_stomp.spark.intake_options import Dedupe, IntakeOptions, destination_folder, spool_folder
from trio_stomp.spark.option_reader import OptionError, OptionReader

NEEDED = {"brokers": "broker:61613", "subscribe": "/queue/a", "spoolLocation": "/data/spool"}


def read(**given: str) -> IntakeOptions:
    return IntakeOptions.read(OptionReader({**NEEDED, **given}))


def test_options_when_only_the_needed_are_given_then_the_others_are_the_defaults_of_the_manual() -> None:
    options = read()

    assert (options.destination, options.spool) == ("/queue/a", Path("/data/spool"))
    assert (options.prefetch, options.segment_rows, options.linger) == (2_000, 10_000, 0.005)
    assert options.dedupe == Dedupe(by_broker=True)
    assert options.selector is None
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
    )

    assert options.subscribe_headers == (("x-priority", "5"),)
    assert options.selector == "a = 'b'"
    assert (options.prefetch, options.segment_rows, options.linger) == (20, 30, 0.04)
    assert options.dedupe == Dedupe(by_broker=False, header="order-id")
    assert options.columns.include_headers


@pytest.mark.parametrize(("prefetch", "rows", "most"), [("20", "30", 20), ("30", "20", 20)])
def test_segment_when_full_then_it_has_no_more_than_the_broker_sends_ahead(prefetch: str, rows: str, most: int) -> None:
    assert read(prefetch=prefetch, segmentRows=rows).most == most


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"path": "/queue/a"}, "a destination is no path"),
        ({"dedupe": "header:"}, "'dedupe' must be auto, none or header:<name>"),
        ({"dedupe": "yes"}, "'dedupe' must be auto, none or header:<name>"),
        ({"spoolLocation": "s3://bucket/spool"}, "a spool on s3 was not tested"),
        ({"spoolLocation": "spool"}, "must be an absolute path"),
    ],
)
def test_option_when_it_cannot_be_meant_then_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        read(**given)


def test_dedupe_when_none_then_by_nothing() -> None:
    assert read(dedupe="none").dedupe == Dedupe(by_broker=False)
    assert read(dedupe="auto").dedupe == Dedupe(by_broker=True)


@pytest.mark.parametrize("location", ["/data/spool", "file:///data/spool", "file:/data/spool"])
def test_spool_when_written_in_any_of_these_ways_then_the_same_folder(location: str) -> None:
    assert spool_folder(location) == Path("/data/spool")


def test_folders_when_names_are_nearly_the_same_then_they_differ(tmp_path: Path) -> None:
    names = ["/queue/a b", "/queue/a-b", "/queue/a/b", "queue/a-b"]

    folders = {destination_folder(tmp_path, name).name for name in names}

    assert len(folders) == 4
    assert all(name.startswith("queue-a-b-") for name in folders)
