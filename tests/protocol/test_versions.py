from __future__ import annotations

import pytest

from trio_stomp.errors import RemoteProtocolError
from trio_stomp.protocol.versions import ALL_VERSIONS, Version, negotiate_as_client, negotiate_as_server


def test_versions_when_sorted_then_are_in_order_of_age() -> None:
    assert sorted(ALL_VERSIONS, reverse=True) == [Version.V1_2, Version.V1_1, Version.V1_0]
    assert max(ALL_VERSIONS) is Version.V1_2


@pytest.mark.parametrize(
    ("accept", "supported", "agreed"),
    [
        ("1.0,1.1,1.2", ALL_VERSIONS, Version.V1_2),
        ("1.2,1.1,1.0", ALL_VERSIONS, Version.V1_2),
        ("1.1,2.0", ALL_VERSIONS, Version.V1_1),
        ("1.0, 1.1", ALL_VERSIONS, Version.V1_1),
        ("1.0,1.2", [Version.V1_0, Version.V1_1], Version.V1_0),
        (None, ALL_VERSIONS, Version.V1_0),
    ],
)
def test_server_when_versions_overlap_then_takes_the_highest(
    accept: str | None, supported: list[Version], agreed: Version
) -> None:
    assert negotiate_as_server(accept, supported) is agreed


@pytest.mark.parametrize(
    ("accept", "supported", "told"),
    [
        ("1.1", [Version.V1_2], "accept-version '1.1'; supported: 1.2"),
        ("", ALL_VERSIONS, "accept-version ''; supported: 1.0,1.1,1.2"),
        (None, [Version.V1_2, Version.V1_1], r"no accept-version \(so 1.0\); supported: 1.1,1.2"),
        ("1.0", [], "supported: none$"),
    ],
)
def test_server_when_nothing_is_common_then_says_what_it_supports(
    accept: str | None, supported: list[Version], told: str
) -> None:
    with pytest.raises(RemoteProtocolError, match=told):
        negotiate_as_server(accept, supported)


@pytest.mark.parametrize(("header", "version"), [(None, Version.V1_0), ("1.1", Version.V1_1), ("1.2", Version.V1_2)])
def test_client_when_the_version_was_offered_then_takes_it(header: str | None, version: Version) -> None:
    assert negotiate_as_client(header, ALL_VERSIONS) is version


@pytest.mark.parametrize(
    ("header", "told"), [("1.3", "version '1.3'"), (" 1.2", "version ' 1.2'"), (None, r"no version \(so 1.0\)")]
)
def test_client_when_the_version_was_not_offered_then_refuses(header: str | None, told: str) -> None:
    with pytest.raises(RemoteProtocolError, match=f"{told}, but the client offered only 1.1,1.2"):
        negotiate_as_client(header, [Version.V1_2, Version.V1_1])
