"""Orders, mail and reports."""

from django.db import models


class Order(models.Model):
    """An order; a large one waits for its approval."""

    customer = models.CharField(max_length=200)
    amount = models.IntegerField()
    state = models.CharField(max_length=20, default="new")
    job = models.BigIntegerField(null=True)


class Mail(models.Model):
    """A mail; one about each order."""

    order = models.OneToOneField(Order, models.CASCADE)
    text = models.TextField()


class Report(models.Model):
    """How many orders there were at a day."""

    day = models.DateField(primary_key=True)
    orders = models.IntegerField()
