"""``trio-stomp purge``: remove messages from a queue."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import click

from trio_stomp.cli.commands import command, flag
from trio_stomp.cli.move import Move, run_move, selection_options
from trio_stomp.cli.options import gathered, link_of, link_options
from trio_stomp.cli.running import InvalidUsage, run
from trio_stomp.cli.terminal import can_ask

__all__ = ["purge"]


@command(
    "trio-stomp purge /queue/orders.test --yes",
    "trio-stomp purge /queue/dlq --match shop=7 --grep tea --count 10",
)
@click.argument("source", metavar="QUEUE")
@flag("Confirmation", "--yes", "-y", help="Do not ask.")
@selection_options
@link_options
def purge(context: click.Context) -> None:
    """Remove the messages of QUEUE, those that no other consumer holds.

    They are received and acknowledged in transactions, which every broker can do, so it also works for some of the
    messages; trio-stomp move to another queue keeps them.
    """
    wanted = replace(gathered(Move, context), discard=True)
    wanted.check()
    if not context.params["yes"]:
        if not can_ask():
            raise InvalidUsage("this removes messages; pass --yes to do it without being asked")
        which = "the messages" if not (wanted.match or wanted.grep or wanted.count) else "the selected messages"
        click.confirm(f"Remove {which} of {wanted.source}?", abort=True, err=True)
    run(partial(run_move, wanted, link_of(context), "removing"))
