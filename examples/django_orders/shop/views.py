"""Orders come in by HTTP and go to the broker."""

from django.conf import settings
from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from .broker import client
from .models import Order


@csrf_exempt
@require_POST
def create(request: HttpRequest) -> JsonResponse:
    """Accept an order."""
    broker = client()
    if not broker.state.healthy:
        return JsonResponse({"error": "no broker"}, status=503)

    def send() -> None:
        broker.send(settings.STOMP_QUEUE, str(order.pk), persistent=True, receipt=True, timeout=5)

    with transaction.atomic():
        order = Order.objects.create(item=request.POST["item"])
        # The worker must not get the message before the order is in the database.
        # With robust=True, Django logs an order that could not be sent, and the view goes on.
        transaction.on_commit(send, robust=True)
    return JsonResponse({"id": order.pk}, status=202)


def show(_request: HttpRequest, number: int) -> JsonResponse:
    """Show whether an order was handled."""
    order = get_object_or_404(Order, pk=number)
    return JsonResponse({"item": order.item, "handled": order.handled})
