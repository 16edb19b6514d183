"""What the web application does, with Celery."""

from datetime import UTC, datetime, timedelta

import shop
from celery import chain, chord, group

NOW = datetime.now(UTC)
SUPPLIERS = ("Brewers", "Tea Co", "Leaf and Sons")

shop.send_receipt.apply_async((7,), link=shop.notify_warehouse.si(7), priority=7)
shop.send_welcome.delay(1, language="de")
shop.charge_card.delay(order=7, amount=250)
shop.charge_voucher.apply_async((8,), link_error=shop.refund.s())
shop.remind.apply_async((1,), countdown=2)
unpaid = shop.cancel_unpaid.apply_async((9,), eta=NOW + timedelta(hours=1))
unpaid.revoke()
shop.flash_offer.apply_async(("tea",), expires=NOW)
best = chord(shop.fetch_price.s(each) for each in SUPPLIERS)(shop.compare_prices.s())
pictures = group(shop.resize.s("cup", width) for width in (100, 200)).apply_async()
count = chain(
    shop.read_catalogue.s("tea"), shop.check_rows.s(), shop.publish.s("Berlin")
).apply_async()
for sku in ("cup", "pot"):
    shop.sync_stock.delay(sku)
index = shop.rebuild_index.delay(5)
shop.export_invoices.delay("May")
shop.export_invoices.delay("never")

print("best price:", best.get(timeout=60))
print("pictures:", pictures.get(timeout=60))
print("published:", count.get(timeout=60))
print("index:", index.get(timeout=60))
