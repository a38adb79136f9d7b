from importlib import metadata
from math import inf, nan
from typing import TypedDict, Unpack

import pytest

from trio_stomp.testing import BrokerOptions, open_broker, run_broker_in_thread
from trio_stomp.testing.broker_options import _server_header
from trio_stomp.types import Version


class Settings(TypedDict, total=False):
    max_deliveries: int
    max_queue_length: int
    outbox_bytes: int
    connect_timeout: float
    prefetch: int
    versions: tuple[Version, ...]
    heart_beat: tuple[float, float]
    heart_beat_grace: float
    linger: float
    websocket_origins: tuple[str, ...] | str


def options(**settings: Unpack[Settings]) -> BrokerOptions:
    return BrokerOptions(**settings)


@pytest.mark.parametrize(
    "settings",
    [
        Settings(max_deliveries=0),
        Settings(max_queue_length=0),
        Settings(outbox_bytes=-1),
        Settings(connect_timeout=0),
        Settings(prefetch=0),
        Settings(versions=()),
        Settings(heart_beat=(-1, 0)),
        Settings(heart_beat=(1, inf)),
        Settings(heart_beat=(nan, 1)),
        Settings(heart_beat_grace=0.5),
        Settings(heart_beat_grace=nan),
        Settings(linger=-1),
        Settings(websocket_origins=("http://localhost:3000/",)),
    ],
)
def test_options_when_senseless_then_value_error_names_the_setting(settings: Settings) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        options(**settings)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("versions", ["1.2"]),
        ("versions", "1.2"),
        ("prefetch", "1"),
        ("nack", "requeue"),
        ("dead_letter", 5),
        ("dead_letter", "dlq"),
        ("logins", [("guest", "guest")]),
        ("read_only", "guest"),
        ("vhosts", "/"),
        ("limits", 5),
        ("heart_beat", 1.0),
        ("heart_beat", ("1", "1")),
        ("heart_beat", (1.0,)),
        ("heart_beat_grace", "2"),
        ("server", b"RabbitMQ/4.1"),
        ("max_queue_length", "5"),
        ("max_stored_bytes", None),
        ("stall_timeout", None),
        ("linger", "1"),
        ("websocket_origins", "http://localhost:3000"),
        ("draft", "no"),
        ("bare_queues", "no"),
    ],
)
def test_options_when_a_setting_has_another_type_then_the_error_names_it_and_what_was_expected(
    name: str, value: object
) -> None:
    given = {name: value}

    with pytest.raises((TypeError, ValueError), match=f"^{name} must be "):
        BrokerOptions(**given)  # type: ignore[arg-type]  # what is refused


def test_dead_letter_when_each_destination_is_a_queue_then_may_be_any() -> None:
    assert BrokerOptions(dead_letter="dlq", bare_queues=True).dead_letter == "dlq"


async def test_broker_when_opened_with_other_options_then_type_error() -> None:
    with pytest.raises(TypeError, match=r"options must be BrokerOptions such as .*, got \{'prefetch': 1\}"):
        async with open_broker(options={"prefetch": 1}):  # type: ignore[arg-type]  # what is refused
            pass


def test_broker_when_started_in_a_thread_with_other_options_then_type_error() -> None:
    with (
        pytest.raises(TypeError, match="options must be BrokerOptions"),
        run_broker_in_thread(options={"prefetch": 1}),  # type: ignore[arg-type]  # what is refused
    ):
        pass


def test_options_when_nothing_given_then_everybody_may_do_everything() -> None:
    given = BrokerOptions()

    assert given.logins is None
    assert given.vhosts is None
    assert set(given.versions) == set(Version)


def test_server_header_when_not_given_then_names_this_package_and_its_version() -> None:
    """Row 1x-CONN-20."""
    assert BrokerOptions().server == "trio-stomp-testing/" + metadata.version("trio-stomp")


def test_server_header_when_package_is_not_installed_then_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    # It is asked for once in a process.
    _server_header.cache_clear()
    try:
        assert BrokerOptions().server == "trio-stomp-testing"
    finally:
        _server_header.cache_clear()
