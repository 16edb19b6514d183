"""The page about cron expressions of other programs says what they do, and what txqueue does."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest

from tests.docs.markdown import ROOT
from txqueue.errors import InvalidSchedule
from txqueue.model.schedule import Cron

PAGE: Final = (ROOT / "docs" / "reference" / "cron-expressions.md").read_text("utf-8")
ROWS: Final = re.findall(
    r"^\| `([^`]+)` \| ([^|]+) \| ([^|]+) \|(?: [^|]+ \|){3}$", PAGE, re.MULTILINE
)
FIRST: Final = datetime(2026, 2, 1, tzinfo=UTC)
NAMED: Final = {"all": range(1, 29), "odd": range(1, 28, 2), "none": ()}

After = Callable[[datetime], datetime | None]


def days(after: After) -> set[int]:
    """Return the days of the month on which something is due."""
    found: set[int] = set()
    moment = after(FIRST - timedelta(seconds=1))
    while moment is not None and moment < FIRST.replace(month=3):
        found.add(moment.day)
        moment = after(moment)
    return found


def shown(cell: str) -> set[int]:
    """Return the days that a cell of the table says."""
    return {
        day for part in cell.split(", ") for day in (NAMED[part] if part in NAMED else [int(part)])
    }


def test_the_table_has_expressions() -> None:
    """The page was not rewritten in a way that this file cannot read."""
    assert len(ROWS) == 12


@pytest.mark.parametrize(("expression", "ours", "_"), ROWS)
def test_a_row_says_what_txqueue_does(expression: str, ours: str, _: str) -> None:
    """On which days it is due, or that it is refused."""
    if ours == "refused":
        with pytest.raises(InvalidSchedule):
            Cron(expression)
    else:
        assert days(lambda moment: Cron(expression).after(moment, "x")) == shown(ours)


@pytest.mark.parametrize(("expression", "_", "theirs"), ROWS)
def test_a_row_says_what_croniter_does(expression: str, _: str, theirs: str) -> None:
    """It is here for the page about procrastinate; the other programs were asked by hand."""
    croniter = pytest.importorskip("croniter")

    def after(moment: datetime) -> datetime | None:
        try:
            return croniter.croniter(expression, moment).get_next(datetime)  # type: ignore[no-any-return]
        except croniter.CroniterBadDateError:
            return None

    if theirs == "refused":
        with pytest.raises(ValueError, match="not acceptable"):
            after(FIRST)
    else:
        assert days(after) == shown(theirs)
