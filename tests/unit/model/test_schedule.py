"""When recurring work is due: over changes of the clocks, with jitter, after an absence."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice, pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txqueue.errors import InvalidSchedule, InvalidWork
from txqueue.model.enqueue_options import option_json
from txqueue.model.schedule import (
    CatchUp,
    Cooldown,
    Cron,
    Every,
    Schedule,
    schedule_object,
    schedule_of,
)
from txqueue.model.work_item import WorkItem
from txqueue.policy.schedules import GRACE, MOST_MISSED, plan, upcoming

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")

moments = st.datetimes(datetime(1971, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC))
names = st.text(max_size=20)
everies = st.builds(
    Every,
    st.floats(1, 1e6),
    jitter=st.floats(0, 0.5),
    catch_up=st.sampled_from(list(CatchUp)),
)
crons = st.builds(
    Cron,
    st.sampled_from(["* * * * *", "*/7 * * * *", "30 2 * * *", "0 3 * * MON", "5 0 1,15 * *"]),
    tz=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
    jitter=st.timedeltas(timedelta(0), timedelta(hours=1)),
    catch_up=st.sampled_from(list(CatchUp)),
)


def sequence(when: Every | Cron, name: str, start: datetime) -> Iterator[datetime]:
    """The moments after one."""
    following = when.after(start, name)
    while following is not None:
        yield following
        following = when.after(following, name)


@given(st.one_of(everies, crons), names, moments)
def test_moments_come_one_after_the_other(when: Every | Cron, name: str, start: datetime) -> None:
    """Each is later than the one before, whatever the jitter."""
    found = [start, *islice(sequence(when, name, start), 5)]
    assert all(sooner < later for sooner, later in pairwise(found))


@given(st.one_of(everies, crons), names, moments, st.floats(0, 1))
def test_moments_do_not_depend_on_when_one_looks(
    when: Every | Cron, name: str, start: datetime, part: float
) -> None:
    """From any time between two moments the next is the second: all masters agree."""
    first, second = islice(sequence(when, name, start), 2)
    between = first + (second - first) * part
    assert when.after(min(between, second - timedelta(microseconds=1)), name) == second


@given(everies, names, moments)
def test_an_interval_keeps_its_mean_and_its_jitter(when: Every, name: str, start: datetime) -> None:
    """Each moment is off its time by the jitter at most, and none of it adds up."""
    jitter, exact = schedule_object(when)["jitter"], Every(when.seconds)
    for moment in islice(sequence(when, name, start), 20):
        nearby = [*islice(sequence(exact, name, moment - timedelta(seconds=when.seconds)), 2)]
        assert min(abs(moment - each) for each in nearby) <= timedelta(seconds=jitter + 1e-5)


@given(crons, names, moments)
def test_cron_comes_after_its_moment_and_never_before(
    when: Cron, name: str, start: datetime
) -> None:
    """By its jitter at most."""
    exact = Cron(when.expression, when.tz)
    for moment in islice(sequence(when, name, start), 3):
        before = exact.after(moment - when.jitter - timedelta(microseconds=1), name)
        assert before is not None
        assert before <= moment


@pytest.mark.parametrize(
    "when",
    [Every(60, jitter=4 / 60), Every(60), Cron("* * * * *", jitter=timedelta(minutes=1))],
    ids=["interval with jitter", "interval", "cron with jitter"],
)
def test_many_schedules_are_an_even_load(when: Every | Cron) -> None:
    """Made at one moment, of one minute each: no second has three times the mean.

    With a bare cron each minute has one second with sixty times the mean.
    """
    many, minutes = 3000, 3
    starts = Counter(
        int((moment - NOON).total_seconds())
        for number in range(many)
        for moment in islice(sequence(when, f"order sync {number}", NOON), minutes)
    )
    counted = [starts[second] for second in range(60, 60 * (minutes - 1))]
    assert max(counted) <= 3 * many / 60
    assert min(counted) >= many / 60 / 3


@given(st.one_of(everies, crons), names, moments, st.floats(0, 1e6))
def test_what_was_missed(when: Every | Cron, name: str, due: datetime, absent: float) -> None:
    """Skipped, made up for by one job, or by all; the next moment is never skipped with them."""
    now = due + timedelta(seconds=absent)
    planned = plan(when, name, due, now)
    if when.catch_up is CatchUp.ALL:
        assert planned.moments[0] == due
        assert len(planned.moments) <= MOST_MISSED
        assert planned.next == when.after(planned.moments[-1], name)
        return
    assert planned.next == when.after(now, name)
    assert len(planned.moments) <= 1
    if when.catch_up is CatchUp.ONE or now - due <= GRACE:
        assert planned.moments == (due,)
    elif planned.moments:
        assert now - GRACE < planned.moments[0] <= now
    else:
        following = when.after(now - GRACE, name)
        assert following is None or following > now


def test_all_that_was_missed_is_made_up_for_in_turn() -> None:
    """A hundred at a time, each once."""
    when, now = Every(1, catch_up="all"), NOON + timedelta(seconds=250)
    due: datetime | None = when.after(NOON, "x")
    made: list[datetime] = []
    while due is not None and due <= now:
        planned = plan(when, "x", due, now)
        made += planned.moments
        due = planned.next
    assert len(made) == len(set(made)) == 250


@given(st.one_of(everies, crons, st.builds(Cooldown, st.floats(1, 1e6))), names, moments)
def test_what_is_new_or_left_out_runs_nothing(when: Schedule, name: str, now: datetime) -> None:
    """Its next moment is computed, and lies ahead."""
    for planned in (plan(when, name, None, now), plan(when, name, now, now, holds=False)):
        assert planned.moments == ()
        assert planned.next is not None
        assert planned.next >= now


def test_a_cool_down_waits_for_the_end_of_its_job() -> None:
    """The moment is not known in advance."""
    planned = plan(Cooldown(60, jitter=0.1), "x", NOON, NOON)
    assert (planned.moments, planned.next) == ((NOON,), None)


@given(st.one_of(everies, crons, st.builds(Cooldown, st.floats(1, 1e6), jitter=st.floats(0, 1))))
def test_a_row_says_all_of_a_schedule(when: Schedule) -> None:
    """What it describes has the same moments."""
    blank = {"catch_up": "skip", "expression": None, "zone": None, "seconds": None}
    row = {**blank, **schedule_object(when)}
    again = schedule_of(row)
    assert schedule_object(again) == schedule_object(when)
    assert again.after(NOON, "x") == when.after(NOON, "x")


@pytest.mark.parametrize(
    ("kind", "arguments", "said"),
    [
        (Every, {"seconds": 0.5}, "not between a second and 366 days"),
        (Every, {"seconds": 60, "jitter": 0.6}, "0 to 0.5 of the period"),
        (Every, {"seconds": 60, "jitter": timedelta(seconds=31)}, "0 to 0.5 of the period"),
        (Every, {"seconds": 60, "catch_up": "some"}, "use one of skip, one, all"),
        (Cooldown, {"seconds": 60, "jitter": 1.5}, "0 to 1 of the period"),
        (Every, {"seconds": 60, "overlap": "maybe"}, "use one of allow, skip"),
        (Cooldown, {"seconds": 60, "since": "now"}, "use one of start, end"),
        (Cron, {"expression": "61 * * * *"}, "not a cron expression"),
        (Cron, {"expression": "* * * *"}, "five fields"),
        (Cron, {"expression": "1" * 10_000 + " * * * *"}, "not a cron expression"),
        (Cron, {"expression": "*/" + "1" * 10_000 + " * * * *"}, "not a cron expression"),
        (Cron, {"expression": "* * * * 1#" + "1" * 10_000}, "not a cron expression"),
        (Every, {"seconds": 10**5000}, "not between a second and 366 days"),
        (Every, {"seconds": 60, "jitter": 10**5000}, "0 to 0.5 of the period"),
        (Every, {"seconds": 60, "times": 10**5000}, "not a whole number from 1 to"),
        (Cooldown, {"seconds": 60, "times": 0}, "not a whole number from 1 to"),
        (Cron, {"expression": "* * * * *", "times": 2**31}, "not a whole number from 1 to"),
        (Cron, {"expression": "0 0 31 2 *"}, "it never comes: none of its months has such a day"),
        (Cron, {"expression": "0 0 31 apr,6 *"}, "it never comes"),
        (Cron, {"expression": "0 0 32 2 *"}, "Bad day-of-month"),
        (Cron, {"expression": "@daily"}, r"@daily is '0 0 \* \* \*'"),
        (Cron, {"expression": "0 0 ? * ?"}, r"there is no \?; write '0 0 \* \* \*'"),
        (Cron, {"expression": "* * * * *", "tz": "Mars/Olympus"}, "no time zone"),
        (Cron, {"expression": "* * * * *", "tz": "../etc/passwd"}, "no time zone"),
        *(
            (Cron, {"expression": "* * * * *", "tz": zone}, "no time zone")
            for zone in ("", "localtime", "posixrules", "posix/UTC", "right/UTC", "/etc/localtime")
        ),
        (Every, {"seconds": 60, "jitter": 0.6}, "a jitter of 0.6 is not within 0 to 0.5 of"),
        (Every, {"seconds": 60, "jitter": timedelta(seconds=36)}, "a jitter of 36s is not within"),
        (Cron, {"expression": "* * * * *", "jitter": 0.1}, "not a timedelta"),
    ],
)
def test_an_invalid_schedule_is_refused_when_it_is_made(
    kind: Any, arguments: dict[str, Any], said: str
) -> None:
    """With the remedy."""
    with pytest.raises(InvalidSchedule, match=said):
        kind(**arguments)


def test_a_class_is_refused_whose_schedule_is_none() -> None:
    """When it is defined."""
    with pytest.raises(InvalidWork, match="use Every"):
        type("Nightly", (WorkItem,), {"work_type": "test.nightly", "schedule": "0 3 * * *"})


def test_an_end_without_a_time_zone_is_refused() -> None:
    """The moment would be ambiguous."""
    with pytest.raises(InvalidSchedule, match="time zone"):
        Every(60, until=datetime.fromisoformat("2027-01-01"))


def test_a_zone_without_an_offset_is_none() -> None:
    """As Python has it: such a datetime is naive."""

    class Unknown(tzinfo):
        def utcoffset(self, _: datetime | None) -> None:
            """Return none."""

        dst = tzname = utcoffset

    moment = datetime(2027, 1, 1, tzinfo=Unknown())
    with pytest.raises(InvalidSchedule, match="time zone"):
        Every(60, until=moment)
    with pytest.raises(InvalidWork, match="has no time zone"):
        option_json(moment)


def test_ends_are_among_the_terms_only_where_there_are_any() -> None:
    """The terms of a schedule without an end have no such keys."""
    until = datetime(2027, 1, 1, tzinfo=UTC)
    terms = schedule_object(Cooldown(60, until=until, times=3))
    assert (terms["until"], terms["times"]) == (until.isoformat(), 3)
    assert not {"until", "times"} & set(schedule_object(Every(60)))


def test_the_next_due_times_follow_each_other_to_the_end() -> None:
    """Which is the number asked for, the schedule's end, or what is left of its times."""
    hourly = Cron("0 * * * *")
    hours = [NOON + timedelta(hours=number) for number in range(1, 6)]
    assert upcoming(hourly, "x", NOON, 5) == hours
    assert upcoming(Cron("0 * * * *", until=hours[2]), "x", NOON, 5) == hours[:3]
    assert upcoming(Cron("0 * * * *", times=7), "x", NOON, 5, enqueued=5) == hours[:2]
    assert upcoming(Cron("0 * * * *", times=7), "x", NOON, 5, enqueued=9) == []
    assert len(set(upcoming(Every(60, 0.5), "x", NOON, 5))) == 5


def test_when_a_cool_down_is_due_next_depends_on_its_jobs() -> None:
    """So nothing is foretold."""
    assert upcoming(Cooldown(60), "x", NOON, 5) == []
