"""An action that runs in another task, in the context of who has asked for it."""

from __future__ import annotations

import contextvars

import pytest
import trio

from trio_stomp.blocking.caller_context import in_context

color = contextvars.ContextVar("color", default="none")


def red() -> contextvars.Context:
    context = contextvars.copy_context()
    context.run(color.set, "red")
    return context


async def test_action_when_it_waits_then_its_context_is_there_before_and_after(
    autojump_clock: trio.testing.MockClock,
) -> None:
    seen: list[str] = []

    async def look() -> None:
        seen.append(color.get())
        await trio.sleep(1)
        seen.append(color.get())
        color.set("blue")
        await trio.lowlevel.checkpoint()
        seen.append(color.get())

    await in_context(red(), look)()

    assert seen == ["red", "red", "blue"]
    assert color.get() == "none"


async def test_action_when_it_raises_then_that_very_error() -> None:
    error = ValueError("mine")

    async def fail() -> None:
        await trio.lowlevel.checkpoint()
        raise error

    with pytest.raises(ValueError, match="mine") as caught:
        await in_context(red(), fail)()

    assert caught.value is error


async def test_action_when_canceled_then_it_is_told_and_may_clean_up(autojump_clock: trio.testing.MockClock) -> None:
    seen: list[str] = []

    async def wait() -> None:
        try:
            await trio.sleep_forever()
        finally:
            seen.append(color.get())

    with trio.move_on_after(1) as scope:
        await in_context(red(), wait)()

    assert scope.cancelled_caught
    assert seen == ["red"]


async def test_action_when_it_catches_what_is_thrown_then_goes_on(autojump_clock: trio.testing.MockClock) -> None:
    seen: list[str] = []

    async def wait() -> None:
        with trio.move_on_after(1):
            await trio.sleep_forever()
        seen.append(color.get())

    await in_context(red(), wait)()

    assert seen == ["red"]
