from __future__ import annotations

import pytest

from trio_stomp.errors import RemoteProtocolError
from trio_stomp.protocol.frames import Command
from trio_stomp.protocol.grammar import HANDSHAKE_RULES, escapes_of, rules_of, unescape
from trio_stomp.protocol.tolerances import STRICT, Tolerances
from trio_stomp.protocol.versions import Version

V1_0, V1_1, V1_2 = Version.V1_0, Version.V1_1, Version.V1_2


@pytest.mark.parametrize(
    ("version", "letters", "cr_ends_line", "bare_cr_is_error", "trim_values", "body_anywhere"),
    [
        (V1_0, "", True, False, True, True),
        (V1_1, "nc\\", False, False, False, False),
        (V1_2, "rnc\\", True, True, False, False),
    ],
)
def test_rules_when_strict_then_are_those_of_the_version(
    version: Version, letters: str, cr_ends_line: bool, bare_cr_is_error: bool, trim_values: bool, body_anywhere: bool
) -> None:
    rules = rules_of(version, STRICT)

    assert set(rules.escapes) == {"\\" + letter for letter in letters}
    assert rules.cr_ends_line is cr_ends_line
    assert rules.bare_cr_is_error is bare_cr_is_error
    assert rules.trim_values is trim_values
    assert rules.body_anywhere is body_anywhere


@pytest.mark.parametrize("version", list(Version))
def test_rules_when_undefined_escapes_are_tolerated_then_keep_them(version: Version) -> None:
    assert rules_of(version, Tolerances(undefined_escapes=True)).literal_escapes


def test_rules_when_escapes_in_1_0_are_tolerated_then_are_those_of_1_2() -> None:
    tolerances = Tolerances(escapes_in_1_0=True)

    assert rules_of(V1_0, tolerances).escapes == rules_of(V1_2, STRICT).escapes
    assert "\\r" not in rules_of(V1_1, tolerances).escapes


def test_rules_when_the_version_is_open_then_read_all_of_them() -> None:
    assert HANDSHAKE_RULES.cr_ends_line
    assert HANDSHAKE_RULES.literal_escapes
    assert not HANDSHAKE_RULES.trim_values


@pytest.mark.parametrize("command", list(Command))
def test_escapes_when_asked_for_a_command_then_spare_those_of_the_handshake(command: Command) -> None:
    escapes = escapes_of(command, rules_of(V1_2, STRICT))

    assert bool(escapes) is (command not in {"CONNECT", "STOMP", "CONNECTED"})


@pytest.mark.parametrize(
    ("text", "decoded"),
    [
        ("plain", "plain"),
        (r"a\cb", "a:b"),
        (r"\n\r", "\n\r"),
        (r"\\", "\\"),
        (r"\\n", "\\n"),
        (r"\\\n", "\\\n"),
        (r"\\\\c", "\\\\c"),
        (r"C\c\\new", "C:\\new"),
    ],
)
def test_unescape_when_all_escapes_are_defined_then_decodes_in_one_pass(text: str, decoded: str) -> None:
    assert unescape(text, rules_of(V1_2, STRICT).escapes, keep_undefined=False) == decoded


@pytest.mark.parametrize("text", [r"a\tb", r"\N", "\\", r"a\\" + "\\", "\\\n", "\\é"])
def test_unescape_when_an_escape_is_undefined_then_refuses_or_keeps_it(text: str) -> None:
    escapes = rules_of(V1_2, STRICT).escapes

    with pytest.raises(RemoteProtocolError, match=r"undefined escape .* defines \\r \\n \\c \\\\"):
        unescape(text, escapes, keep_undefined=False)
    assert unescape(text, escapes, keep_undefined=True) == text.replace("\\\\", "\\")


def test_unescape_when_there_are_no_escapes_then_changes_nothing() -> None:
    assert unescape(r"a\tb\c", {}, keep_undefined=False) == r"a\tb\c"
