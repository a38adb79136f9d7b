from trio_stomp.spark.stream_receivers import Progress


def test_wait_when_a_receiver_fails_then_woken_and_the_first_failure_counts() -> None:
    progress = Progress()
    first, second = OSError("disk full"), OSError("also")
    progress.failed(first)
    progress.failed(second)

    progress.wait(progress.news, 60)

    assert progress.failure is first


def test_idle_when_all_have_told_then_it_ends_the_wait_until_rows_come() -> None:
    progress = Progress()
    progress.idle(0)
    assert not progress.is_idle(2)
    progress.idle(1)

    progress.wait(progress.news, 60, 2)

    assert progress.is_idle(2)
    progress.wrote(0)
    assert not progress.is_idle(2)
    progress.wait(progress.news, 0, 2)
