"""The shop's tasks. Each may run twice, so each changes its rows once."""

from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from examples.django_shop.models import Mail, Order, Report
from txqueue import Cron, Key, Retry
from txqueue.django import policy
from txqueue.errors import TimedOut

try:
    from django.tasks import task
except ModuleNotFoundError:  # Before Django 6, the package django-tasks has them.
    from django_tasks import task

APPROVAL_FROM = 100
WAITS = "waits for approval"


@task(takes_context=True)
@policy(unique=Key("order {order_id}"), retry=Retry(5))
def fulfil(context, order_id):
    """Ship an order; a large one waits for a person's approval, and meanwhile takes no worker."""
    if Order.objects.get(pk=order_id).amount >= APPROVAL_FROM:
        try:
            is_approved = context.job.wait_for("approval", timeout=timedelta(days=3))
        except TimedOut:
            is_approved = False
        if not is_approved:
            return context.job.step("reject", reject, order_id)
    return context.job.step("ship", ship, order_id)


def ship(order_id):
    """Ship an order and enqueue the mail with its invoice, in one transaction."""
    with transaction.atomic():
        order = Order.objects.select_for_update().get(pk=order_id)
        if order.state != "shipped":
            order.state = "shipped"
            order.save()
            send_mail.enqueue(order_id, f"invoice {order_id}: {order.amount} EUR")
    return "shipped"


def reject(order_id):
    """Close an order that is not approved."""
    Order.objects.filter(pk=order_id).update(state="rejected")
    return "rejected"


@task(queue_name="mail", takes_context=True)
@policy(retry=Retry(attempts=5, first=0.2), group=Key("mail:{order_id}"))
def send_mail(context, order_id, text):
    """Keep a mail in a table; the mail server is busy at the first attempt."""
    if context.attempt == 1:
        raise ConnectionError("the mail server is busy")
    Mail.objects.get_or_create(order_id=order_id, defaults={"text": text})


@task
@policy(schedule=Cron("0 3 * * *", tz="Europe/Berlin", catch_up="one"))
def nightly_report():
    """Count the orders, each night."""
    orders = Order.objects.count()
    Report.objects.update_or_create(day=timezone.now().date(), defaults={"orders": orders})
    return orders
