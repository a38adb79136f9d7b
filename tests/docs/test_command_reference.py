import pytest

from tests.docs.code_blocks import ROOT
from tests.docs.command_reference import tables
from trio_stomp.cli.running import ExitCode

PAGE = (ROOT / "docs/reference/cli.md").read_text("utf-8")
TABLES = list(tables())


@pytest.mark.parametrize(("heading", "table"), TABLES, ids=[heading for heading, _ in TABLES])
def test_reference_when_compared_with_the_command_line_then_has_every_option(heading: str, table: str) -> None:
    assert table in PAGE, f"put this under {heading!r}; python -m tests.docs.command_reference prints all tables"


@pytest.mark.parametrize("code", ExitCode)
def test_reference_when_compared_with_the_exit_codes_then_has_each(code: ExitCode) -> None:
    assert f"\n| {code.value} |" in PAGE
