from importlib import metadata
from math import inf, nan

import pytest

from trio_stomp.testing import BrokerOptions, run_broker_in_thread
from trio_stomp.testing.broker_options import _server_header


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_deliveries", 0),
        ("connect_timeout", 0),
        ("prefetch", 0),
        ("versions", ()),
        ("heart_beat", (-1, 0)),
        ("heart_beat", (1, inf)),
        ("heart_beat", (nan, 1)),
        ("heart_beat_grace", 0.5),
        ("heart_beat_grace", nan),
        ("linger", -1),
        ("websocket_origins", ("http://localhost:3000/",)),
        ("versions", ["1.2"]),
        ("versions", "1.2"),
        ("prefetch", "1"),
        ("nack", "requeue"),
        ("dead_letter", 5),
        ("dead_letter", "dlq"),
        ("logins", [("guest", "guest")]),
        ("logins", {"guest": None}),
        ("vhosts", []),
        ("read_only", "guest"),
        ("vhosts", "/"),
        ("limits", 5),
        ("heart_beat", 1.0),
        ("heart_beat", ("1", "1")),
        ("heart_beat", (1.0,)),
        ("heart_beat_grace", "2"),
        ("server", b"RabbitMQ/4.1"),
        ("max_stored_bytes", None),
        ("stall_timeout", None),
        ("linger", "1"),
        ("websocket_origins", "http://localhost:3000"),
        ("draft", "no"),
        ("bare_queues", "no"),
    ],
)
def test_options_when_a_setting_is_invalid_then_the_error_names_it_and_what_was_expected(
    name: str, value: object
) -> None:
    given = {name: value}

    with pytest.raises((TypeError, ValueError), match=f"^{name} must (be|name) "):
        BrokerOptions(**given)  # type: ignore[arg-type]  # what is refused


def test_options_when_there_are_logins_then_no_text_shows_a_passcode() -> None:
    with pytest.raises(TypeError) as caught:
        BrokerOptions(logins=[("guest", "secret")])  # type: ignore[arg-type]  # what is refused

    assert "secret" not in f"{caught.value}{BrokerOptions(logins={'guest': 'secret'})!r}"


def test_dead_letter_when_each_destination_is_a_queue_then_may_be_any() -> None:
    assert BrokerOptions(dead_letter="dlq", bare_queues=True).dead_letter == "dlq"


def test_broker_when_started_with_other_options_then_type_error() -> None:
    with (
        pytest.raises(TypeError, match=r"options must be BrokerOptions such as .*, got \{'prefetch': 1\}"),
        run_broker_in_thread(options={"prefetch": 1}),  # type: ignore[arg-type]  # what is refused
    ):
        pass


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
