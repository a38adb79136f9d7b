import pickle

import pytest

from trio_stomp.spark.option_reader import OptionError
from trio_stomp.spark.sink_identity import DedupIds
from trio_stomp.spark.sink_writer import WriteMode
from trio_stomp.spark.sinks import SinkOptions

NEEDED = {"brokers": "broker:61613"}


def test_options_when_only_the_needed_are_given_then_the_others_are_the_defaults_of_the_manual() -> None:
    options = SinkOptions.read(NEEDED)

    assert options.destination is None
    assert options.write_mode is WriteMode.AUTO
    assert options.receipt_window == 1000
    assert options.in_flight_bytes == 16 * 1024**2
    assert options.transaction_bytes == 256 * 1024**2
    assert options.dedup_ids is DedupIds.CONTENT
    assert options.dedup_header is None
    assert options.dedup_id_column == "dedup_id"
    assert options.headers == (("persistent", "true"),)


def test_options_when_all_are_given_then_read() -> None:
    options = SinkOptions.read(
        {
            **NEEDED,
            "destination": "/queue/a",
            "writeMode": "receipt",
            "receiptWindow": "10",
            "maxInFlightBytes": "1m",
            "maxTransactionBytes": "2m",
            "dedupIds": "ordinal",
            "dedupHeader": "x-id",
            "dedupIdColumn": "flight_id",
            "sendHeaders": '{"x-expires": "60000"}',
            "persistent": "false",
        }
    )
    plan = options.task_plan("scope")

    assert (plan.mode, plan.receipt_window, plan.in_flight_bytes) == (WriteMode.RECEIPT, 10, 1024**2)
    assert (plan.transaction_bytes, plan.dedup_ids, plan.dedup_header) == (2 * 1024**2, DedupIds.ORDINAL, "x-id")
    assert (plan.rules.destination, plan.rules.dedup_id_column) == ("/queue/a", "flight_id")
    assert plan.rules.headers == {"x-expires": "60000"}


def test_persistent_header_when_the_user_gives_one_then_it_stays() -> None:
    assert SinkOptions.read({**NEEDED, "sendHeaders": '{"persistent": "no"}'}).headers == (("persistent", "no"),)


def test_options_when_sent_to_tasks_then_they_arrive_whole() -> None:
    options = SinkOptions.read({**NEEDED, "password": "hunter2"})

    assert pickle.loads(pickle.dumps(options)) == options  # noqa: S301  # what was pickled the line before
    assert "hunter2" not in repr(options)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"path": "/queue/a"}, "a destination is no path"),
        ({"writeMode": "fast"}, "'writeMode' must be auto or transaction or receipt, got 'fast'"),
        ({"dedupIds": "some"}, "'dedupIds' must be content or ordinal or none"),
        ({"windows": "1"}, "the STOMP sink has no option 'windows'"),
        ({"recieptWindow": "1"}, "did you mean 'receiptWindow'"),
    ],
)
def test_option_when_it_cannot_be_meant_then_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        SinkOptions.read({**NEEDED, **given})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "3 rows; these stay where they were sent, STOMP takes nothing back; of tasks that failed, some rows may"),
        ({"writeMode": "transaction"}, "tasks that failed before COMMIT have left nothing"),
        ({"dedupIds": "none"}, "running it again sends them a second time"),
        ({"dedupIds": "content"}, "sends them with the same ids"),
    ],
)
def test_what_is_left_behind_when_a_write_failed_then_said_as_it_is(given: dict[str, str], said: str) -> None:
    assert said in SinkOptions.read({**NEEDED, **given}).left_behind("3 rows")
