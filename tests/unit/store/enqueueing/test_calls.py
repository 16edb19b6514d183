"""From work items to the call of the stored function."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from attrs import define

from txqueue import Priority, WorkItem
from txqueue.errors import InvalidWork
from txqueue.store.enqueueing.calls import BATCH, batches, enqueue_call, job_object


@define
class Plain(WorkItem):
    """All policy left as it is."""

    work_type = "enqueuing.plain"

    number: int = 1

    def perform(self, job: Any) -> None:
        """Do nothing."""


@pytest.mark.parametrize("name", ["group", "tenant", "unique"])
def test_a_text_that_names_a_field_is_refused(name: str) -> None:
    """It would be one key for all numbers; braces around other words are text."""
    with pytest.raises(InvalidWork, match=rf"{name} .*is a text, in which {{number}} stands for"):
        job_object(Plain(), {name: "number {number}"})
    assert job_object(Plain(), {name: "{other} {number"})[name] == "{other} {number"


@define
class Special(WorkItem):
    """A policy of its own."""

    work_type = "enqueuing.special"
    queue = "mail"
    priority = Priority.HIGH
    weight = 3

    user: int

    @property
    def group(self) -> str:
        """One job a user at a time."""
        return f"user:{self.user}"

    def perform(self, job: Any) -> None:
        """Do nothing."""


@define
class Usual(WorkItem):
    """A policy of its own that says what is usual."""

    work_type = "enqueuing.usual"
    queue = "default"
    priority = 4
    weight = 1

    def perform(self, job: Any) -> None:
        """Do nothing."""


@define
class Ratio(WorkItem):
    """A field that JSON cannot always carry."""

    work_type = "enqueuing.ratio"

    ratio: float

    def perform(self, job: Any) -> None:
        """Do nothing."""


def test_what_is_usual_is_not_sent() -> None:
    """The database knows the rest."""
    expected = {"work_type": "enqueuing.plain", "payload": {"number": 7}}
    assert expected == job_object(Plain(7))


def test_policy_goes_along() -> None:
    """What the class says otherwise, and the group of the instance."""
    assert job_object(Special(7)) == {
        "work_type": "enqueuing.special",
        "payload": {"user": 7},
        "queue": "mail",
        "priority": 7,
        "weight": 3,
        "group": "user:7",
    }


def test_what_a_class_defines_is_sent() -> None:
    """Even if it is what is usual: a published policy may say otherwise."""
    job = job_object(Usual())
    assert (job["queue"], job["priority"], job["weight"]) == ("default", 4, 1)


def test_options_go_before_policy() -> None:
    """Each may be overridden at enqueue; None overrides nothing; moments become text."""
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    options = {"queue": "slow", "priority": 0, "weight": None, "group": "g", "not_before": moment}
    job = job_object(Special(7), options)
    assert (job["queue"], job["priority"], job["weight"], job["group"]) == ("slow", 0, 3, "g")
    assert job["not_before"] == "2026-01-01T00:00:00+00:00"


def test_what_the_worker_needs_goes_apart() -> None:
    """Timeout and attempts are no columns."""
    job = job_object(Plain(), {"timeout": 3, "attempts": 2})
    assert job["options"] == {"timeout": 3, "attempts": 2}
    assert "options" not in job_object(Plain(), {"timeout": None})


@pytest.mark.parametrize(
    ("options", "what", "remedy"),
    [
        (
            {"prioritty": 3},
            "enqueue has no option prioritty",
            "use after, after_any_end, as_of, attempts, created_by, expires",
        ),
        ({"not_before": datetime(2026, 1, 1)}, "has no time zone", "use datetime.now"),
        ({"timeout": 0}, "timeout 0 is not valid", "seconds above 0"),
        ({"timeout": "30"}, "timeout '30' is not valid", "seconds above 0"),
        ({"timeout": float("inf")}, "timeout inf is not valid", "None for the work type's own"),
        ({"attempts": 0}, "attempts 0 is not valid", "from 1 to 32767"),
        ({"weight": "2"}, "weight '2' is not valid", "from 1 to 1000000"),
        ({"weight": 1.5}, "weight 1.5 is not valid", "from 1 to 1000000"),
        ({"attempts": 1.5}, "attempts 1.5 is not valid", "from 1 to 32767"),
        ({"attempts": 40_000}, "attempts 40000 is not valid", "from 1 to 32767"),
    ],
    ids=str,
)
def test_a_wrong_option_is_refused(options: dict[str, Any], what: str, remedy: str) -> None:
    """Before anything is sent; the error has the remedy."""
    with pytest.raises(InvalidWork) as caught:
        job_object(Plain(), options)
    assert what in caught.value.what
    assert remedy in caught.value.remedy


def test_a_number_of_thousands_of_digits_is_refused() -> None:
    """Python itself refuses to show it."""
    with pytest.raises(InvalidWork, match=r"priority .*int.* is not valid"):
        job_object(Plain(), {"priority": 10**5000})


@pytest.mark.parametrize("ratio", [float("nan"), float("inf")])
def test_what_is_no_json_is_refused(ratio: float) -> None:
    """Python's JSON would write NaN, which is none."""
    with pytest.raises(InvalidWork, match=r"the data cannot be stored: .* @ \$\.ratio"):
        enqueue_call("txqueue", Ratio(ratio), {})


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(0, []), (1, [1]), (BATCH, [BATCH]), (BATCH + 1, [BATCH, 1])],
)
def test_many_are_sent_a_thousand_at_a_time(count: int, sizes: list[int]) -> None:
    """In the order given, from any iterable."""
    texts = list(batches((Plain(number) for number in range(count)), {"priority": 2}))
    jobs = [json.loads(text) for text in texts]
    assert sizes == [len(each) for each in jobs]
    numbers = [job["payload"]["number"] for each in jobs for job in each]
    assert numbers == list(range(count))
    assert all(job["priority"] == 2 for each in jobs for job in each)
