"""`python manage.py stomp_worker`: handle orders in a process of its own."""

import signal
from contextlib import suppress

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import close_old_connections

import trio_stomp.blocking
from shop.models import Order


def handle_order(message: trio_stomp.blocking.Message) -> None:
    """Handle an order, in a thread of the pool."""
    close_old_connections()  # as Django does around each request
    try:
        Order.objects.filter(pk=int(message.text)).update(handled=True)
    finally:
        close_old_connections()


class Command(BaseCommand):
    """The worker."""

    help = "Handle orders from the broker, until SIGTERM or Ctrl-C."

    def handle(self, *_arguments: object, **_options: object) -> None:
        """Run the worker."""
        # SIGTERM ends the worker like Ctrl-C: running handlers finish.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with (
            trio_stomp.blocking.connect(settings.STOMP_URL, reconnect=True) as client,
            client.subscribe(settings.STOMP_QUEUE, prefetch=20) as orders,
            suppress(KeyboardInterrupt),
        ):
            self.stdout.write("waiting for orders")
            orders.work(handle_order, workers=4, dead_letter=f"{settings.STOMP_QUEUE}.failed")
        self.stdout.write("stopped")
