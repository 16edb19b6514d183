"""The order of the page about durable steps goes through all of its steps."""

import re
from pathlib import Path

from tests.docs.markdown import ROOT, blocks
from tests.docs.session import Session
from tests.docs.test_examples import run_sql

PAGE = ROOT / "docs" / "howto" / "durable-steps.md"
TABLES = ("create table booking (number int, charge text)", "create table approval (number int)")


def test_the_order_is_shipped(migrated_database18: str, tmp_path: Path) -> None:
    """It is charged and booked once, approved, and shipped with its invoice."""
    run_sql(migrated_database18, *TABLES)
    with Session(tmp_path, {"TXQUEUE_DSN": migrated_database18}) as session:
        session.follow(blocks(PAGE))
    assert run_sql(migrated_database18, "select * from booking") == [(7, "charge of 20")]


def test_the_piece_of_django_is_of_the_shop() -> None:
    """It is run by tests of its own."""
    shop = "".join(path.read_text("utf-8") for path in (ROOT / "examples/django_shop").glob("*.py"))
    _, _, section = PAGE.read_text("utf-8").partition("## In Django")
    [piece] = re.findall(r"```python\n(.*?)```", section.partition("## Names")[0], re.DOTALL)
    assert piece in shop
