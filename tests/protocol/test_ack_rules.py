from __future__ import annotations

import pytest

from trio_stomp.errors import LocalProtocolError, NotSupported
from trio_stomp.protocol.ack_rules import AckMode, ack_headers, require_ack_mode
from trio_stomp.protocol.headers import Headers
from trio_stomp.protocol.versions import Version

MESSAGE = Headers({"message-id": "m", "ack": "a", "subscription": "other"})


@pytest.mark.parametrize("name", ["auto", "client", "client-individual"])
def test_mode_when_named_then_is_found(name: str) -> None:
    assert AckMode.of(name).value == name


@pytest.mark.parametrize("name", ["", "Auto", "individual"])
def test_mode_when_unknown_then_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(LocalProtocolError, match="one of auto, client, client-individual"):
        AckMode.of(name)


@pytest.mark.parametrize("version", list(Version))
@pytest.mark.parametrize("mode", list(AckMode))
def test_mode_when_the_version_lacks_it_then_is_not_supported(version: Version, mode: AckMode) -> None:
    if version is Version.V1_0 and mode is AckMode.CLIENT_INDIVIDUAL:
        with pytest.raises(NotSupported, match=r"STOMP 1\.0 has no ack mode 'client-individual'; it has auto, client"):
            require_ack_mode(mode, version)
    else:
        require_ack_mode(mode, version)


@pytest.mark.parametrize(
    ("version", "headers"),
    [
        (Version.V1_0, [("message-id", "m"), ("subscription", "s")]),
        (Version.V1_1, [("message-id", "m"), ("subscription", "s")]),
        (Version.V1_2, [("id", "a")]),
    ],
)
def test_ack_headers_when_the_message_has_them_then_are_those_of_the_version(
    version: Version, headers: list[tuple[str, str]]
) -> None:
    assert ack_headers(MESSAGE, version, subscription_id="s") == headers


@pytest.mark.parametrize(
    ("version", "name"), [(Version.V1_0, "message-id"), (Version.V1_1, "message-id"), (Version.V1_2, "ack")]
)
def test_ack_headers_when_the_message_lacks_them_then_refuse(version: Version, name: str) -> None:
    with pytest.raises(LocalProtocolError, match=f"no {name} header"):
        ack_headers(Headers({"id": "x"}), version, subscription_id="s")


def test_ack_headers_when_ack_can_be_forged_then_named_by_message_id() -> None:
    message = Headers([("ack", "forged"), ("message-id", "1,2"), ("ack", "1,2")])
    assert ack_headers(message, Version.V1_2, subscription_id="s", by_message_id=True) == [("id", "1,2")]
    assert ack_headers(message, Version.V1_2, subscription_id="s") == [("id", "forged")]
