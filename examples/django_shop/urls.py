"""The shop's requests: each that changes something is one transaction."""

from django.db import transaction
from django.http import JsonResponse
from django.shortcuts import get_object_or_404
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from examples.django_shop.models import Order
from examples.django_shop.tasks import fulfil, nightly_report

APPROVAL_FROM = 100


# Without the token of a form, so that a script can place an order: only for an example.
@csrf_exempt
@transaction.atomic
def place(request):
    """Store an order, and enqueue its work unless a person must approve it."""
    order = Order(customer=request.POST["customer"], amount=int(request.POST["amount"]))
    order.state = "waits for approval" if order.amount >= APPROVAL_FROM else "new"
    order.save()
    if order.state == "new":
        fulfil.enqueue(order.pk)
    return JsonResponse({"order": order.pk}, status=201)


@csrf_exempt
@transaction.atomic
def approve(request, order_id):
    """Approve an order, which enqueues its work; once, however often it is called."""
    waiting = Order.objects.filter(pk=order_id, state="waits for approval")
    if is_changed := waiting.update(state="approved"):
        fulfil.enqueue(order_id)
    return JsonResponse({"approved": bool(is_changed)}, status=202)


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
