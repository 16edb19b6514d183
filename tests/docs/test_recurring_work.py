"""The table of cron expressions in the page about recurring work is what schedules do."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import pytest

from tests.docs.markdown import ROOT
from txqueue.model.schedule import Cron

PAGE: Final = (ROOT / "docs" / "howto" / "recurring-work.md").read_text("utf-8")
ROWS: Final = re.findall(r"^\| `([^`]+)` \| ([0-9:, *]+) \| ([0-9:, *]+) \|$", PAGE, re.MULTILINE)
BERLIN: Final = ZoneInfo("Europe/Berlin")
DAYS: Final = (datetime(2026, 3, 29, tzinfo=BERLIN), datetime(2026, 10, 25, tzinfo=BERLIN))


def due_on(expression: str, day: datetime) -> str:
    """When an expression is due in the first hours of a day, as the table has it."""
    cron, shown = Cron(expression, tz="Europe/Berlin"), []
    moment = cron.after(day.astimezone(UTC) - timedelta(seconds=1), "x")
    while moment is not None and moment < day.replace(hour=4):
        local = moment.astimezone(BERLIN)
        shown.append(f"{local.hour}:{local:%M}" + "*" * local.fold)
        moment = cron.after(moment, "x")
    return ", ".join(shown)


def test_the_table_has_expressions() -> None:
    """The page was not rewritten in a way that this file cannot read."""
    assert len(ROWS) == 6


@pytest.mark.parametrize(("expression", "spring", "autumn"), ROWS)
def test_a_row_of_the_table_is_true(expression: str, spring: str, autumn: str) -> None:
    """On both days."""
    assert [due_on(expression, day) for day in DAYS] == [spring, autumn]
