from importlib import metadata
from math import inf, nan
from typing import TypedDict, Unpack

import pytest

from trio_stomp.testing import BrokerOptions
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
        Settings(websocket_origins="http://localhost:3000"),
    ],
)
def test_options_when_senseless_then_value_error_names_the_setting(settings: Settings) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        options(**settings)


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

    assert BrokerOptions().server == "trio-stomp-testing"
