"""The shop's requests and tasks, in the transaction of each test."""

from datetime import timedelta

from django.test import TestCase

from examples.django_shop.models import Mail, Order
from examples.django_shop.tasks import fulfil, nightly_report, send_mail
from txqueue.testing import assert_enqueued, drain, refute_enqueued


class OrderTest(TestCase):
    """Orders by HTTP."""

    def place(self, amount):
        """Place an order; return its number."""
        answer = self.client.post("/orders", {"customer": "Ada", "amount": amount})
        return answer.json()["order"]

    def test_a_small_order_is_shipped(self):
        """Its mail is sent once, at the second attempt."""
        order = self.place(20)
        assert_enqueued(fulfil, args=[order], count=1)
        runs = drain(until=timedelta(minutes=1), raise_errors=False)
        assert [run.kind for run in runs] == ["done", "retry", "done"]
        assert Mail.objects.get().text == f"invoice {order}: 20 EUR"

    def test_a_large_order_waits_for_its_approval(self):
        """It goes on where it waited; a second approval changes nothing."""
        order = self.place(2000)
        (waiting,) = drain()
        assert waiting.waits == {"approval": "signal"}
        for _ in range(2):
            self.client.post(f"/orders/{order}/approval")
        drain(until=timedelta(minutes=1), raise_errors=False)
        assert Order.objects.get().state == "shipped"
        assert Mail.objects.get().text == f"invoice {order}: 2000 EUR"

    def test_an_order_without_an_approval_is_rejected(self):
        """After three days."""
        self.place(2000)
        drain(until=timedelta(days=4))
        assert Order.objects.get().state == "rejected"

    def test_an_order_that_is_shipped_again_sends_no_mail(self):
        """A task may run twice."""
        order = Order.objects.create(customer="Ada", amount=20, state="shipped")
        fulfil.enqueue(order.pk)
        drain()
        refute_enqueued(send_mail)

    def test_the_report_counts_the_orders(self):
        """Of all days."""
        Order.objects.create(customer="Ada", amount=20)
        result = nightly_report.enqueue()
        drain()
        result.refresh()
        assert result.return_value == 1
