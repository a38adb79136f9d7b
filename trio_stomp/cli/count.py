"""``trio-stomp count``: how many messages wait in queues."""

from __future__ import annotations

import click

from trio_stomp.cli.commands import command
from trio_stomp.cli.management import Management, is_chosen
from trio_stomp.cli.options import link_of, link_options, management_option
from trio_stomp.cli.running import CommandFailed, Stop, run
from trio_stomp.cli.terminal import Output
from trio_stomp.printable import one_line

__all__ = ["count"]


@command(
    "trio-stomp count orders --management http://localhost:15672 --login guest --ask-passcode",
    "trio-stomp count 'orders.*' dlq --management http://localhost:8161",
)
@click.argument("queue", nargs=-1, required=True)
@management_option
@link_options
def count(context: click.Context) -> None:
    """Print how many messages QUEUE holds: those that wait for a consumer, and those that one holds.

    QUEUE is a name, or a pattern with * and ?. For one name, the number is printed alone; else each line has a number
    and a name. It is an error if there is no such queue. The numbers come from the broker's management interface.
    """
    link = link_of(context)
    wanted: tuple[str, ...] = context.params["queue"]
    management = Management.beside(link, context.params["management"])

    async def work(stop: Stop) -> None:
        with stop.work():
            found = [each for each in await management.queues() if is_chosen(each.name, wanted)]
            missing = [each for each in wanted if not any(is_chosen(queue.name, [each]) for queue in found)]
            held = sorted((one_line(each.name), each.ready + each.unacknowledged) for each in found)
            is_one = len(wanted) == 1 and not set("*?[") & set(wanted[0])
            lines = [f"{number}\n" if is_one else f"{number} {name}\n" for name, number in held]
            await Output().write("".join(lines).encode())
            if missing:
                raise CommandFailed(f"{management} has no queue {', '.join(map(repr, missing))}")

    run(work)
