"""Group 1: codecs alone, bytes to frames and back, without any I/O."""

from __future__ import annotations

from typing import Final

from benchmarks.bench import Bench
from benchmarks.contestants.codec_cases import DECODED, ENCODED
from benchmarks.order import Order
from benchmarks.results import RAW, Row

__all__ = ["COPY", "DECODE", "ENCODE", "UNESCAPED", "measure"]

DECODE: Final = {case: Row("Decode: frames a second", case) for case in DECODED}
ENCODE: Final = {case: Row("Encode: frames a second", case) for case in ENCODED}
COPY: Final = "one copy"
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
        for rows, kind in ((DECODE, "decode"), (ENCODE, "encode")):
            for case, row in rows.items():
                if result is not None and f"{kind}/{case}" in result:
                    bench.results.add(row, name, result[f"{kind}/{case}"])
                if kind == "encode" and result is not None and f"bare/{case}" in result:
                    bench.results.add(row, UNESCAPED, result[f"bare/{case}"])
