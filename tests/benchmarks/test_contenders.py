"""Each contender is a process of its own, and may bring a package of its own."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.contenders import Contender, on_uvloop
from benchmarks.order import Order

WHICH = "import json, trio_stomp; print(json.dumps({'mine': float(hasattr(trio_stomp, 'MINE'))}))"


def test_run_when_a_contender_has_a_package_of_its_own_then_that_is_what_runs_and_otherwise_this_checkout(
    tmp_path: Path,
) -> None:
    own = tmp_path / "trio_stomp" / "__init__.py"
    own.parent.mkdir()
    own.write_text("MINE = True\n", encoding="utf-8")

    for package, mine in ((tmp_path, 1.0), (None, 0.0)):
        contender = Contender("some", "1", (sys.executable, "-P", "-c", WHICH), package=package)
        assert contender.run(Order(scenario="which")) == {"mine": mine}


def test_client_of_asyncio_when_it_is_to_run_on_uvloop_then_it_does() -> None:
    program = (
        "from benchmarks.order import run_on_asyncio\n"
        "async def main():\n"
        "    import asyncio, json\n"
        "    print(json.dumps({'uvloop': float('uvloop' in type(asyncio.get_running_loop()).__module__)}))\n"
        "run_on_asyncio(main())\n"
    )
    client = Contender("some", "1", (sys.executable, "-c", program))

    assert client.run(Order(scenario="which")) == {"uvloop": 0.0}
    assert on_uvloop(client).name == "some, uvloop"
    assert on_uvloop(client).run(Order(scenario="which")) == {"uvloop": 1.0}
