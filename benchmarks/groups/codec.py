"""Codecs alone, bytes to frames and back, without any I/O."""

from __future__ import annotations

from typing import Final

from benchmarks.bench import Bench
from benchmarks.contestants.codec_cases import DECODED, ENCODED
from benchmarks.order import Order
from benchmarks.results import RAW, Row

__all__ = ["COPY", "DECODE", "ENCODE", "UNESCAPED", "WHOLE", "measure"]

DECODE: Final = {case: Row("Decode: frames a second", case) for case in DECODED}
ENCODE: Final = {case: Row("Encode: frames a second", case) for case in ENCODED}
COPY: Final = "one copy"
WHOLE: Final = "stomp.py, whole frames"
UNESCAPED: Final = "stomp.py, nothing escaped"

# Each process goes through eleven cases.
_PART_OF_SECONDS: Final = 0.25


def measure(bench: Bench) -> None:
    """Each contender that has a codec, over all cases, in rounds."""
    order = Order(scenario="codec", seconds=bench.seconds * _PART_OF_SECONDS)
    for contender in bench.turns([each for each in bench.contenders if each.has_codec]):
        result = bench.run(contender, order)
        # What the bare loop does with these bytes is to copy them.
        name = COPY if contender.name == RAW else contender.name
        for rows, kind, part, part_name in (
            (DECODE, "decode", "whole", WHOLE),
            (ENCODE, "encode", "bare", UNESCAPED),
        ):
            for case, row in rows.items():
                for key, column in ((f"{kind}/{case}", name), (f"{part}/{case}", part_name)):
                    if result is not None and key in result:
                        bench.results.add(row, column, result[key])
