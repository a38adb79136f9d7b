"""The chart shows what the page's table says."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from benchmarks.chart import GROUPS, LABELS, PICTURE, SECTION, drawn, rates
from benchmarks.page import PAGE
from benchmarks.results import OURS

TABLE = f"""
{SECTION}

|  | trio_stomp | stomp.py | raw trio loop |
| --- | --: | --: | --: |
| receive and ack, client-individual | 149,521 | 23,853 | 2,278,181 |
| send, 256 receipts on their way | 162,745 |  | 1,288,676 |
| send | 257,504 | 69,833 | 5,554,089 |

### Another table

| send | 1 | 2 | 3 |
"""


def test_rates_when_the_page_has_the_table_then_they_are_its_clients_figures() -> None:
    assert rates(TABLE) == {
        "receive and ack, client-individual": {OURS: 149_521, "stomp.py": 23_853},
        "send, 256 receipts on their way": {OURS: 162_745},
        "send": {OURS: 257_504, "stomp.py": 69_833},
    }


@pytest.mark.parametrize("page", ["", TABLE.replace("| send |", "| other |")])
def test_rates_when_the_table_or_a_row_is_missing_then_it_says_so(page: str) -> None:
    with pytest.raises(ValueError, match="has no"):
        rates(page)


def test_chart_when_compared_with_the_page_then_it_is_up_to_date() -> None:
    page = PAGE.read_text("utf-8")

    assert PICTURE.read_text("utf-8") == drawn(page), "run: python -m benchmarks.chart"


def test_chart_when_drawn_then_every_bar_and_text_is_inside() -> None:
    picture = ET.fromstring(drawn(TABLE))  # noqa: S314  # it is a picture of our own
    _, _, width, height = map(int, picture.attrib["viewBox"].split())
    bars = picture.findall("{http://www.w3.org/2000/svg}rect")[1:]
    words = " ".join(picture.itertext())

    assert len(bars) == 5
    assert all(int(bar.attrib["x"]) + int(bar.attrib["width"]) < width for bar in bars)
    assert all(int(bar.attrib["y"]) + int(bar.attrib["height"]) < height for bar in bars)
    assert all(heading in words for heading in GROUPS.values())
    assert LABELS[OURS] in words
