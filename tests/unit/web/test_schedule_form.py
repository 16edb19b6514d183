"""The times of a schedule as a form: what it shows it reads again, and what is wrong is said."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from txqueue.model.schedule import Cooldown, Cron, Every, Schedule, schedule_object
from txqueue.web.pages.schedule_editor import FIELDS, filled_by, read_form

END = datetime(2030, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
SCHEDULES = [
    Every(900, timedelta(seconds=0.5), "all", times=7),
    Every(90.25, overlap="skip"),
    Cooldown(86400, timedelta(minutes=10), until=END),
    Cooldown(86400, since="start"),
    Cron("*/5 3 * * 1-5", "Europe/Berlin", timedelta(minutes=5), "one", until=END, times=1),
]
WRONG: list[tuple[dict[str, str], set[str]]] = [
    ({"kind": "every"}, {"period"}),
    ({"kind": "every", "period": "0s"}, {"period"}),
    ({"kind": "every", "period": "10s", "jitter": "6s"}, {"jitter"}),
    ({"kind": "every", "period": "oops", "jitter": "6d"}, {"period"}),
    ({"kind": "cron", "expression": "x", "zone": "y"}, {"expression", "zone"}),
    ({"kind": "every", "period": "1h", "until": "z", "times": "0"}, {"until", "times"}),
    ({"kind": "cooldown", "period": "1h", "times": "1.5"}, {"times"}),
    ({"kind": "cooldown", "period": "1h", "since": "now"}, {"since"}),
    ({"kind": "every", "period": "1h", "overlap": "now"}, {"overlap"}),
    ({}, {"kind", "expression"}),
]


def row(when: Schedule) -> dict[str, Any]:
    """Return a schedule as the database has it."""
    empty = dict.fromkeys(("expression", "zone", "seconds", "until", "times"))
    choices = {"catch_up": "skip", "overlap": "allow", "since": "end"}
    return {**empty, **choices, **schedule_object(when), "until": when.until}


@pytest.mark.parametrize("when", SCHEDULES)
def test_what_the_form_shows_it_reads(when: Schedule) -> None:
    """So that saving it unchanged changes nothing."""
    form = read_form(filled_by(row(when)))
    assert form.errors == {}
    assert form.schedule is not None
    assert schedule_object(form.schedule) == schedule_object(when)


@pytest.mark.parametrize(("typed", "wrong"), WRONG)
def test_each_wrong_field_has_its_error(typed: dict[str, str], wrong: set[str]) -> None:
    """And all that was typed is kept."""
    fields = {**dict.fromkeys(FIELDS, ""), **typed}
    form = read_form(fields)
    assert (set(form.errors), form.schedule, form.fields) == (wrong, None, fields)


def test_fields_of_another_kind_are_not_read() -> None:
    """They are hidden."""
    fields = dict.fromkeys(FIELDS, "") | {"kind": "every", "period": "1h", "expression": "x"}
    assert read_form(fields).schedule == Every(3600, timedelta(0))
