import pickle

import pytest

from trio_stomp.spark.batch_source import BatchOptions
from trio_stomp.spark.option_reader import OptionError

NEEDED = {"brokers": "broker:61613", "subscribe": "/queue/a", "spoolLocation": "/data/spool"}


def test_options_when_only_the_needed_are_given_then_the_others_are_the_defaults_of_the_manual() -> None:
    options = BatchOptions.read(NEEDED)

    assert (options.max_rows, options.idle_timeout, options.max_partitions) == (None, 2.0, 8)
    assert options.intake.destination == "/queue/a"
    assert pickle.loads(pickle.dumps(options)) == options  # noqa: S301  # what was pickled the line before


def test_options_when_all_are_given_then_read() -> None:
    given = {"maxRows": "10", "idleTimeoutMs": "500", "maxPartitions": "2", "prefetch": "20"}

    options = BatchOptions.read({**NEEDED, **given})

    assert (options.max_rows, options.idle_timeout, options.max_partitions) == (10, 0.5, 2)
    assert options.intake.prefetch == 20


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"maxRows": "0"}, "'maxRows' must be a whole number from 1"),
        ({"maxrow": "1"}, "did you mean 'maxRows'"),
        ({"destination": "/queue/a"}, "the STOMP batch source has no option 'destination'"),
        ({"dedupe": "yes"}, "'dedupe' must be auto, none or header:<name>"),
    ],
)
def test_option_when_it_cannot_be_meant_then_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        BatchOptions.read({**NEEDED, **given})
