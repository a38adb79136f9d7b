"""``trio-stomp count``: how many messages wait in queues."""

from __future__ import annotations

from dataclasses import dataclass

from trio_stomp.cli.commands import Command, argument, options
from trio_stomp.cli.management import Management, is_chosen
from trio_stomp.cli.options import Connecting, Link, LinkOptions, management_option
from trio_stomp.cli.running import CommandFailed, Stop
from trio_stomp.cli.terminal import Output
from trio_stomp.printable import one_line

__all__ = ["count"]


@dataclass(frozen=True, kw_only=True)
class Count(Connecting):
    """Print how many messages QUEUE holds: those that wait for a consumer, and those that one holds.

    QUEUE is a name, or a pattern with * and ?. For one name, the number is printed alone; else each line has a number
    and a name. It is an error if there is no such queue. The numbers come from the broker's management interface.
    """

    queue: tuple[str, ...] = argument((), required=True, nargs=-1)
    management: str | None = management_option()
    connection: LinkOptions = options(LinkOptions)

    async def run(self, link: Link, stop: Stop) -> None:
        """Print the numbers; the first signal ends it."""
        management = Management.beside(link, self.management)
        with stop.work():
            found = [each for each in await management.queues() if is_chosen(each.name, self.queue)]
            missing = [each for each in self.queue if not any(is_chosen(queue.name, [each]) for queue in found)]
            held = sorted((one_line(each.name), each.ready + each.unacknowledged) for each in found)
            is_one = len(self.queue) == 1 and not set("*?") & set(self.queue[0])
            lines = [f"{number}\n" if is_one else f"{number} {name}\n" for name, number in held]
            await Output().write("".join(lines).encode())
            if missing:
                raise CommandFailed(f"{management} has no queue {', '.join(map(repr, missing))}")


count = Command(
    Count,
    "trio-stomp count orders --management http://localhost:15672 --login guest --ask-passcode",
    "trio-stomp count 'orders.*' dlq --management http://localhost:8161",
)
