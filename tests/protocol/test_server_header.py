from __future__ import annotations

import pytest

from trio_stomp.errors import RemoteProtocolError
from trio_stomp.protocol.handshake import ServerInfo


@pytest.mark.parametrize(
    ("value", "name", "version", "comments"),
    [
        ("RabbitMQ/3.10.8", "RabbitMQ", "3.10.8", ()),
        ("ActiveMQ/5.17.2", "ActiveMQ", "5.17.2", ()),
        ("ActiveMQ-Artemis/2 ActiveMQ Artemis Engine", "ActiveMQ-Artemis", "2", ("ActiveMQ", "Artemis", "Engine")),
        ("coilmq", "coilmq", None, ()),
        ("a b", "a", None, ("b",)),
    ],
)  # fmt: skip
def test_server_header_when_well_formed_then_is_read(
    value: str, name: str, version: str | None, comments: tuple[str, ...]
) -> None:
    assert ServerInfo.parse(value) == ServerInfo(name=name, version=version, comments=comments)


@pytest.mark.parametrize("value", ["", "/1", "a/", " a", "a ", "a  b", "x" * 5000 + "/"])
def test_server_header_when_it_breaks_its_grammar_then_is_refused_in_short(value: str) -> None:
    with pytest.raises(RemoteProtocolError, match="server header must be name") as caught:
        ServerInfo.parse(value)
    assert len(str(caught.value)) < 300
