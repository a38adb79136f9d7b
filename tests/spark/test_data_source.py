"""The data source as Spark finds it."""

from __future__ import annotations

import pytest

from trio_stomp.errors import StompError
from trio_stomp.spark import StompDataSource
from trio_stomp.spark.message_columns import MessageColumns

NEEDED = {"brokers": "stomp://localhost:61613", "subscribe": "/queue/a", "spoolLocation": "/spool"}


def test_name_when_asked_then_the_format_of_the_options() -> None:
    assert StompDataSource.name() == "stomp"


def test_schema_when_no_option_says_otherwise_then_the_columns_of_messages() -> None:
    assert StompDataSource({}).schema() == MessageColumns().spark_schema()
    assert "headers" in StompDataSource({"includeHeaders": "true"}).schema().fieldNames()


def test_reader_when_an_option_is_unknown_then_the_nearest_is_named() -> None:
    source = StompDataSource({**NEEDED, "maxRow": "5"})
    with pytest.raises((StompError, ValueError), match="maxRows"):
        source.reader(MessageColumns().spark_schema())


@pytest.mark.parametrize("option", list(NEEDED))
def test_reader_when_a_needed_option_is_missing_then_it_says_which(option: str) -> None:
    source = StompDataSource({name: value for name, value in NEEDED.items() if name != option})
    with pytest.raises((StompError, ValueError), match=f"'{option}' is missing"):
        source.reader(MessageColumns().spark_schema())
