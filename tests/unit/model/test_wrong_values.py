"""Values that a program declares: those of a wrong type are refused by name, with what to write."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txqueue import Cooldown, Cron, Every, ExistingTable, Exists, Key, Retry, Snooze, Throttled
from txqueue.errors import InvalidSchedule, InvalidWork
from txqueue.model.job import wait_limit

# Text that looks like a number is the commonest mistake.
WRONG = st.one_of(
    st.integers().map(str),
    st.floats().map(str),
    st.binary(),
    st.booleans(),
    st.none(),
    st.lists(st.integers()),
    st.just(float("nan")),
    st.just(-1),
    st.just(object()),
)
MAKERS: list[tuple[str, Callable[[Any], object]]] = [
    ("attempts", lambda value: Retry(attempts=value)),
    ("first", lambda value: Retry(first=value)),
    ("factor", lambda value: Retry(factor=value)),
    ("longest", lambda value: Retry(longest=value)),
    ("jitter", lambda value: Retry(jitter=value)),
    ("fatal", lambda value: Retry(fatal=value)),
    ("period", Every),
    ("jitter", lambda value: Every(60, jitter=value)),
    ("catch_up", lambda value: Every(60, catch_up=value)),
    ("period", Cooldown),
    ("jitter", lambda value: Cooldown(60, jitter=value)),
    ("since", lambda value: Cooldown(60, since=value)),
    ("cron expression", Cron),
    ("time zone", lambda value: Cron("0 3 * * *", tz=value)),
    ("jitter", lambda value: Cron("0 3 * * *", jitter=value)),
    ("overlap", lambda value: Cron("0 3 * * *", overlap=value)),
    ("key", Key),
    ("table", lambda value: Exists(value, "column", 1)),
    ("column", lambda value: Exists("public.table", value, 1)),
    ("name", ExistingTable),
    ("key", lambda value: ExistingTable("orders", key=value)),
    ("where", lambda value: ExistingTable("orders", where=value)),
]
# Any text that is not empty is one of their values.
_TEXTS = ("key", "table", "column", "name", "where")


@pytest.mark.parametrize(
    ("name", "maker"), MAKERS, ids=lambda value: value if isinstance(value, str) else ""
)
@given(value=WRONG)
def test_a_value_of_a_wrong_type(name: str, maker: Callable[[Any], object], value: Any) -> None:
    """The error is txqueue's, names the value and has a remedy."""
    if name in _TEXTS and isinstance(value, str) and value:
        return
    with pytest.raises((InvalidSchedule, InvalidWork), match=name) as caught:
        maker(value)
    assert caught.value.remedy
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("attribute", ["until", "times"])
@given(value=WRONG.filter(lambda value: value is not None))
def test_a_wrong_end_of_a_schedule(attribute: str, value: Any) -> None:
    """None is no end."""
    with pytest.raises(InvalidSchedule, match=attribute) as caught:
        Every(60, **{attribute: value})
    assert caught.value.remedy


@given(value=WRONG)
def test_a_wrong_delay_of_a_snooze(value: Any) -> None:
    """A text is not read as a number."""
    with pytest.raises(ValueError, match=r"^a job cannot snooze for .* seconds or a timedelta"):
        Snooze(value)
    with pytest.raises(ValueError, match=r"^the retry_after of Throttled cannot be .* seconds"):
        Throttled(value)


def test_lengths_of_time_may_be_timedeltas() -> None:
    """In a retry and a snooze as in schedules."""
    length = timedelta(minutes=5)
    assert Retry(first=length, longest=length) == Retry(first=300, longest=300)
    assert Snooze(length).delay == 300


@given(value=WRONG.filter(lambda value: value not in (None, -1)))
def test_a_wrong_limit_of_a_wait(value: Any) -> None:
    """A text is not compared with the clock; a limit that has passed is none the less one."""
    with pytest.raises(InvalidWork, match=r"^timeout .* is not a length of time") as caught:
        wait_limit(value)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(None, None), (float("inf"), None), (5, 5), (-1, 0), (timedelta(minutes=1), 60)],
)
def test_a_limit_of_a_wait(value: Any, seconds: float | None) -> None:
    """No limit, or seconds."""
    assert wait_limit(value) == seconds
