import enum
from collections.abc import Callable

import pytest

from trio_stomp.spark.option_reader import OptionError, OptionReader


class Color(enum.Enum):
    RED = "red"
    GREEN = "green"


def test_option_when_written_in_any_case_then_found() -> None:
    reader = OptionReader({"SendHEADERS": '{"a": "b"}', "maxrows": "7"})

    assert reader.headers("sendHeaders") == {"a": "b"}
    assert reader.whole("maxRows", 1) == 7
    assert reader.has("MAXROWS")


@pytest.mark.parametrize(
    ("value", "size"), [("1048576", 1048576), ("64m", 64 * 1024**2), ("2 K", 2048), ("1GB", 1024**3), ("10b", 10)]
)
def test_bytes_when_they_bear_a_unit_then_multiplied(value: str, size: int) -> None:
    assert OptionReader({"size": value.replace(" ", "")}).size("size", 1) == size


def test_values_when_given_then_they_have_their_types() -> None:
    reader = OptionReader({"a": " x ", "b": "TRUE", "c": "1_000", "d": "1500", "e": "Green", "f": "s3cret"})

    assert reader.text("a") == " x "
    assert reader.flag("b", default=False) is True
    assert reader.whole("c", 1) == 1000
    assert reader.seconds("d", 1.0) == 1.5
    assert reader.choice("e", Color, Color.RED) is Color.GREEN
    assert reader.secret("f") == "s3cret"


def test_values_when_absent_then_they_are_the_defaults() -> None:
    reader = OptionReader({})

    assert reader.text("a") is None
    assert reader.flag("b", default=True) is True
    assert reader.whole("c", 3) == 3
    assert reader.seconds("d", 2.5) == 2.5
    assert reader.choice("e", Color, Color.RED) is Color.RED
    assert reader.size("f", 9) == 9
    assert reader.headers("g") == {}
    assert reader.secret("h") is None


WRONG: list[tuple[str, Callable[[OptionReader], object], str]] = [
    ("", lambda reader: reader.text("x"), "some text"),
    ("yes", lambda reader: reader.flag("x", default=True), "true or false"),
    ("0", lambda reader: reader.whole("x", 5), "a whole number from 1"),
    ("-1", lambda reader: reader.whole("x", 5, least=0), "a whole number from 0"),
    ("1.5", lambda reader: reader.seconds("x", 5), "milliseconds"),
    ("0", lambda reader: reader.seconds("x", 5), "milliseconds"),
    ("lots", lambda reader: reader.size("x", 5), "a number of bytes"),
    ("m", lambda reader: reader.size("x", 5), "a number of bytes"),
    ("blue", lambda reader: reader.choice("x", Color, Color.RED), "red or green"),
    ("{", lambda reader: reader.headers("x"), "a JSON object"),
    ("[1]", lambda reader: reader.headers("x"), "a JSON object"),
    ('{"a": "1", "a": "2"}', lambda reader: reader.headers("x"), "a JSON object"),
    ('{"a": 1}', lambda reader: reader.headers("x"), "a JSON object"),
]


@pytest.mark.parametrize(("value", "read", "expected"), WRONG)
def test_option_when_it_cannot_be_meant_then_the_error_has_name_expectation_and_value(
    value: str, read: Callable[[OptionReader], object], expected: str
) -> None:
    with pytest.raises(OptionError) as caught:
        read(OptionReader({"x": value}))

    assert "'x'" in str(caught.value)
    assert expected in str(caught.value)
    assert repr(value) in str(caught.value)


def test_required_option_when_missing_then_the_error_has_an_example() -> None:
    with pytest.raises(OptionError, match=r"'subscribe' is missing.*\.option\('subscribe', '/queue/a'\)"):
        OptionReader({}).required("subscribe", "/queue/a")


def test_unknown_option_when_it_is_nearly_one_then_that_one_is_named() -> None:
    reader = OptionReader({"destinatoin": "x", "checkpointLocation": "/c", "queryName": "q"})
    reader.text("destination")

    with pytest.raises(OptionError, match="the sink has no option 'destinatoin'; did you mean 'destination'"):
        reader.refuse_unknown("the sink")


def test_unknown_option_when_it_is_like_none_then_all_are_named() -> None:
    reader = OptionReader({"zzz": "x"})
    reader.text("brokers")
    reader.text("login")

    with pytest.raises(OptionError, match="there are brokers, login"):
        reader.refuse_unknown("the sink")


def test_options_when_all_are_read_then_none_is_refused() -> None:
    reader = OptionReader({"Brokers": "x", "checkpointLocation": "/c"})
    reader.text("brokers")

    reader.refuse_unknown("the sink")


def test_options_when_spark_reads_a_table_then_only_those_of_the_table_are_meant() -> None:
    options = OptionReader({"host": "a", "option.host": "a", "owner": "root", "provider": "stomp"})

    assert options.text("host") == "a"
    options.refuse_unknown("the source")
