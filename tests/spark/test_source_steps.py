from trio_stomp.spark.source_steps import SourceStep, not_watched


def test_step_when_nobody_wants_to_know_then_nothing_happens() -> None:
    for step in SourceStep:
        not_watched(step)


def test_steps_when_listed_then_each_is_described_once() -> None:
    assert len({step.value for step in SourceStep}) == 9
