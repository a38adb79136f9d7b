"""`python manage.py test`: the view with Django's test client and an embedded broker."""

# ruff: noqa: PT009  # Django runs these tests, not pytest
from django.test import TestCase, override_settings

from trio_stomp.testing import run_broker_in_thread

from .broker import client


class OrderTest(TestCase):
    """Orders go to the broker when they are committed."""

    def test_order_is_queued_after_the_commit(self) -> None:
        """A TestCase never commits its transaction: `captureOnCommitCallbacks` runs what waits for the commit."""
        with run_broker_in_thread() as broker, override_settings(STOMP_URL=broker.url), client():
            with self.captureOnCommitCallbacks(execute=True):
                response = self.client.post("/orders", {"item": "tea"})
                self.assertEqual(broker.call(lambda inner: inner.depth("/queue/orders")), 0)

            self.assertEqual(response.status_code, 202)
            self.assertEqual(broker.call(lambda inner: inner.depth("/queue/orders")), 1)
