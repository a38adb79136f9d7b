import threading

from trio_stomp.spark.stream_progress import Progress


def test_wait_when_rows_are_there_then_at_once() -> None:
    progress = Progress({"0": 5})

    assert progress.wait({"0": 4}, 0)
    assert not progress.wait({"0": 5}, 0)
    assert progress.wait({}, 0)


def test_wait_when_rows_come_then_woken() -> None:
    progress = Progress({"0": 5})
    teller = threading.Timer(0, progress.reached, ("1", 1))
    teller.start()

    assert progress.wait({"0": 5}, 60)

    teller.join()
    assert progress.last == {"0": 5, "1": 1}


def test_wait_when_a_receiver_fails_then_woken_and_the_first_failure_counts() -> None:
    progress = Progress({})
    first, second = OSError("disk full"), OSError("also")
    progress.failed(first)
    progress.failed(second)

    assert not progress.wait({}, 60)
    assert progress.failure is first


def test_idle_when_told_then_it_ends_the_wait_until_rows_come() -> None:
    progress = Progress({})
    progress.idle("0")
    seen: list[set[str]] = []

    def enough(idle: set[str]) -> bool:
        seen.append(set(idle))
        return idle == {"0"}

    assert not progress.wait({}, 60, enough)
    progress.reached("0", 3)
    assert not progress.wait({"0": 3}, 0, enough)
    assert seen[0] == {"0"}
    assert seen[-1] == set()


def test_row_when_an_older_number_is_told_then_the_newer_one_stays() -> None:
    progress = Progress({"0": 5})
    progress.reached("0", 3)

    assert progress.last == {"0": 5}
