"""Places two orders, of which a person approves one, and asks for the report."""

from examples.http import ask, ask_until

SHOP = "http://127.0.0.1:8492"


def tour() -> None:
    """Use the shop."""
    small = ask(f"{SHOP}/orders", b"customer=Ada&amount=20")["order"]
    large = ask(f"{SHOP}/orders", b"customer=Bob&amount=2000")["order"]
    mail = f"invoice {small}: 20 EUR"
    print("a small order:", ask_until(f"{SHOP}/orders/{small}", state="shipped", mail=mail))
    print("a large one:", ask(f"{SHOP}/orders/{large}"))
    ask(f"{SHOP}/orders/{large}/approval", b"")
    mail = f"invoice {large}: 2000 EUR"
    print("it is approved:", ask_until(f"{SHOP}/orders/{large}", state="shipped", mail=mail))
    report = ask(f"{SHOP}/reports", b"")["task"]
    print("the report:", ask_until(f"{SHOP}/reports/{report}", status="SUCCESSFUL"))


if __name__ == "__main__":
    tour()
