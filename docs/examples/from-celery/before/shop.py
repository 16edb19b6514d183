"""The back office of a shop, written for Celery."""

import os
import time
from datetime import timedelta

import psycopg2
from celery import Celery, Task
from celery.exceptions import SoftTimeLimitExceeded
from celery.schedules import crontab
from celery.signals import task_success

app = Celery("shop")
app.config_from_object("celeryconfig", silent=True)
app.conf.update(
    task_acks_late=True,
    task_default_priority=4,
    task_routes={"shop.export_invoices": {"queue": "slow"}, "shop.resize": {"queue": "pictures"}},
    timezone="Europe/Berlin",
    beat_schedule={
        "close-day": {"task": "shop.close_day", "schedule": crontab(hour=3, minute=0)},
        "sweep-carts": {"task": "shop.sweep_carts", "schedule": timedelta(seconds=2)},
        "monday-mail": {
            "task": "shop.monday_mail",
            "schedule": crontab(minute="30", hour="8", day_of_week="mon"),
            "kwargs": {"edition": "short"},
        },
    },
)


def note(line: str) -> None:
    """Write a line into the ledger."""
    connection = psycopg2.connect(os.environ["TXQUEUE_DSN"])
    with connection, connection.cursor() as cursor:
        cursor.execute("insert into ledger (line) values (%s)", (line,))
    connection.close()


def tries(what: str) -> int:
    """Count the tries of something that works at the third."""
    note(f"try {what}")
    connection = psycopg2.connect(os.environ["TXQUEUE_DSN"])
    with connection, connection.cursor() as cursor:
        cursor.execute("select count(*) from ledger where line = %s", (f"try {what}",))
        (found,) = cursor.fetchone()
    connection.close()
    return found


class Reported(Task):
    """The base of tasks whose failures the office reads."""

    def on_failure(self, exc, *_):
        note(f"failed {self.name}: {exc}")


@app.task
def send_receipt(order):
    note(f"receipt {order}")


@app.task
def notify_warehouse(order):
    note(f"warehouse {order}")


@app.task(autoretry_for=(ConnectionError,), retry_backoff=True, max_retries=5)
def send_welcome(user, language="en"):
    if tries(f"welcome {user}") < 3:
        raise ConnectionError("the mail server does not answer")
    note(f"welcome {user} {language}")


@app.task(bind=True, max_retries=3)
def charge_card(self, order, amount):
    if self.request.retries == 0:
        raise self.retry(countdown=1)
    note(f"charged {order} {amount}")
    return amount


@app.task(bind=True, base=Reported, max_retries=2, default_retry_delay=1)
def charge_voucher(self, order):
    try:
        raise ValueError(f"the voucher of order {order} is used up")
    except ValueError as error:
        raise self.retry(exc=error) from error


@app.task
def refund(_request, exc, _traceback):
    note(f"refund after {exc}")


@app.task
def remind(user):
    note(f"remind {user}")


@app.task
def cancel_unpaid(order):
    note(f"cancelled {order}")


@app.task
def flash_offer(offer):
    note(f"offer {offer}")


@app.task
def fetch_price(supplier):
    return {"supplier": supplier, "price": len(supplier)}


@app.task
def compare_prices(prices):
    best = min(prices, key=lambda each: each["price"])
    note(f"best price {best['supplier']}")
    return best["supplier"]


@app.task
def resize(picture, width):
    return f"{picture}@{width}"


@app.task
def read_catalogue(path):
    return [f"{path}-{row}" for row in (1, 2, 3)]


@app.task
def check_rows(rows):
    return [row for row in rows if not row.endswith("2")]


@app.task
def publish(rows, shop):
    note(f"published {len(rows)} rows in {shop}")
    return len(rows)


@app.task(rate_limit="600/m", ignore_result=True)
def sync_stock(sku):
    note(f"stock {sku}")


@app.task(soft_time_limit=1, time_limit=10)
def rebuild_index(size):
    try:
        time.sleep(size)
    except SoftTimeLimitExceeded:
        note("index given up")
        return "given up"
    return "built"


@app.task(base=Reported)
def export_invoices(month):
    if month == "never":
        raise LookupError("no such month")
    note(f"invoices {month}")


@app.task
def close_day():
    note("day closed")


@app.task
def sweep_carts():
    note("carts swept")


@app.task
def monday_mail(edition="long"):
    note(f"monday mail {edition}")


@task_success.connect
def printed(sender, **_):
    print(f"{sender.name} succeeded")
