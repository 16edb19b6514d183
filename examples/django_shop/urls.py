"""The shop's requests: each that changes something is one transaction."""

from django.db import transaction
from django.http import JsonResponse
from django.shortcuts import get_object_or_404
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from examples.django_shop.models import Order
from examples.django_shop.tasks import APPROVAL_FROM, WAITS, fulfil, nightly_report
from txqueue.adapters.django import signal


# Without the token of a form, so that a script can place an order: only for an example.
@csrf_exempt
@transaction.atomic
def place(request):
    """Store an order, and enqueue its work."""
    order = Order(customer=request.POST["customer"], amount=int(request.POST["amount"]))
    order.state = WAITS if order.amount >= APPROVAL_FROM else "new"
    order.save()
    order.job = int(fulfil.enqueue(order.pk).id)
    order.save()
    return JsonResponse({"order": order.pk}, status=201)


@csrf_exempt
@transaction.atomic
def approve(request, order_id):
    """Approve an order, which lets its task go on; once, however often it is called."""
    order = get_object_or_404(Order.objects.select_for_update(), pk=order_id)
    if is_changed := order.state == WAITS:
        order.state = "approved"
        order.save()
        signal(order.job, "approval", True)
    return JsonResponse({"approved": is_changed}, status=202)


def read(request, order_id):
    """An order, and the mail about it."""
    order = get_object_or_404(Order.objects.select_related("mail"), pk=order_id)
    mail = order.mail.text if hasattr(order, "mail") else None
    return JsonResponse({"amount": order.amount, "state": order.state, "mail": mail})


@csrf_exempt
def report(request):
    """Count the orders now, not only at night."""
    return JsonResponse({"task": nightly_report.enqueue().id}, status=202)


def read_report(request, number):
    """The result of that task."""
    result = nightly_report.get_result(number)
    orders = result.return_value if result.status == "SUCCESSFUL" else None
    return JsonResponse({"status": result.status, "orders": orders})


urlpatterns = [
    path("orders", place),
    path("orders/<int:order_id>", read),
    path("orders/<int:order_id>/approval", approve),
    path("reports", report),
    path("reports/<str:number>", read_report),
]
