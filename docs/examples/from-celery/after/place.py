"""What the web application does, on txqueue: all of it in one transaction, with its own rows."""

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta

import shop

from txqueue.adapters import psycopg2

SUPPLIERS = ("Brewers", "Tea Co", "Leaf and Sons")


def later(**amount: float) -> datetime:
    """Return a moment in the future."""
    return datetime.now(UTC) + timedelta(**amount)


with closing(shop.connect()) as connection, connection:
    receipt = psycopg2.enqueue(connection, shop.send_receipt.work(7), priority=7)
    psycopg2.enqueue(connection, shop.notify_warehouse.work(7), after=[receipt])

    psycopg2.enqueue(connection, shop.send_welcome.work(1, language="de"))
    psycopg2.enqueue(connection, shop.charge_card.work(order=7, amount=250))

    voucher = psycopg2.enqueue(connection, shop.charge_voucher.work(8))
    psycopg2.enqueue(connection, shop.refund.work(voucher), after=[voucher], after_any_end=True)

    psycopg2.enqueue(connection, shop.remind.work(1), not_before=later(seconds=2))
    unpaid = psycopg2.enqueue(connection, shop.cancel_unpaid.work(9), not_before=later(hours=1))
    psycopg2.enqueue(connection, shop.flash_offer.work("tea"), not_after=later(seconds=1))

    prices = psycopg2.enqueue_many(connection, [shop.fetch_price.work(each) for each in SUPPLIERS])
    best = psycopg2.enqueue(connection, shop.compare_prices.work(prices), after=prices)

    pictures = psycopg2.enqueue_many(
        connection, [shop.resize.work("cup", width) for width in (100, 200)]
    )
    count = psycopg2.enqueue(connection, shop.read_catalogue.work("tea", "Berlin"))

    psycopg2.enqueue_many(connection, [shop.sync_stock.work(sku) for sku in ("cup", "pot")])
    index = psycopg2.enqueue(connection, shop.rebuild_index.work(5))
    psycopg2.enqueue_many(
        connection, [shop.export_invoices.work(month) for month in ("May", "never")]
    )

waited_for = {"best": [best], "pictures": pictures, "count": [count], "index": [index]}
print(json.dumps({"unpaid": [unpaid], **waited_for}))
