"""Places two orders, of which a person approves one."""

from examples.http import ask, ask_until

SHOP = "http://127.0.0.1:8491/orders"


def tour() -> None:
    """Use the shop."""
    small = ask(f"{SHOP}?customer=Ada&amount=20", b"")["order"]
    large = ask(f"{SHOP}?customer=Bob&amount=2000", b"")["order"]
    mail = f"invoice {small}: 20 EUR"
    print("a small order:", ask_until(f"{SHOP}/{small}", state="shipped", mail=mail))
    print("a large one waits:", ask(f"{SHOP}/{large}"))
    ask(f"{SHOP}/{large}/approval", b"")
    mail = f"invoice {large}: 2000 EUR"
    print("it is approved:", ask_until(f"{SHOP}/{large}", state="shipped", mail=mail))


if __name__ == "__main__":
    tour()
