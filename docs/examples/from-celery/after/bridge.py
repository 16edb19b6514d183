"""A Celery application that runs nothing itself: what still comes by Celery becomes jobs."""

from contextlib import closing
from typing import Any

import shop
from celery import Celery

from txqueue import Task, UniqueMode
from txqueue.adapters import psycopg2

app = Celery("shop")
app.config_from_object("celeryconfig")

# Those whose names and parameters are the same in both programs.
FORWARDED = (
    shop.send_receipt,
    shop.notify_warehouse,
    shop.send_welcome,
    shop.charge_card,
    shop.remind,
    shop.cancel_unpaid,
    shop.sync_stock,
    shop.export_invoices,
)


def forward(task: Task[..., ..., Any]) -> None:
    """Enqueue each message of a task once, however often the broker delivers it."""

    @app.task(
        name=task.work_type,
        bind=True,
        acks_late=True,
        autoretry_for=(Exception,),
        retry_backoff=True,
        max_retries=None,
    )
    def forwarded(self: Any, *args: Any, **kwargs: Any) -> None:
        with closing(shop.connect()) as connection, connection:
            psycopg2.enqueue(
                connection,
                task.work(*args, **kwargs),
                unique=f"celery {self.request.id}",
                unique_mode=UniqueMode.ONCE,
            )


for each in FORWARDED:
    forward(each)
