"""Work item classes: what is refused at definition, and how they are found."""

import inspect
from typing import Any, ClassVar

import pytest
from attrs import define, field, frozen

from txqueue import Priority, Retry, Runtime, UniqueMode, WorkItem
from txqueue.errors import InvalidWork, UnknownWorkType
from txqueue.model import work_item as work_module
from txqueue.model.work_item import explicit_policy, find_work_type, is_work_type, known_work_types
from txqueue.model.workset_item import WorksetItem


@pytest.fixture(autouse=True)
def same_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the classes that a test defines."""
    monkeypatch.setattr(work_module, "_registry", dict(work_module._registry))


async def _coroutine(self: object, job: object) -> None: ...


def _plain(self: object, job: object) -> None: ...


@pytest.mark.parametrize(
    ("body", "what", "remedy"),
    [
        ({"work_type": ""}, "work_type '' is not a name", "A to Z, a to z"),
        (
            {"work_type": "two words"},
            "work_type 'two words' is not a name",
            "A to Z, a to z",
        ),
        ({"work_type": 'quo"te'}, "is not a name", "A to Z, a to z"),
        ({"work_type": "größe"}, "is not a name", "a task takes another by name="),
        ({"work_type": "x" * 201}, "is not a name", "at most 200"),
        ({"work_type": 7}, "work_type 7 is not a name", "A to Z, a to z"),
        ({"queue": ""}, "queue '' is not a name", "1 to 200 characters"),
        ({"queue": "q" * 201}, "is not a name", "1 to 200 characters"),
        ({"queue": None}, "queue None is not a name", "1 to 200 characters"),
        ({"unique_mode": "again"}, "unique_mode 'again' is not a UniqueMode", "UniqueMode.KEEP"),
        ({"priority": 10}, "priority 10 is not within 0 to 9", "Priority.LOW, NORMAL or HIGH"),
        ({"priority": -1}, "priority -1 is not within 0 to 9", "0 to 9"),
        ({"priority": 4.5}, "priority 4.5 is not within 0 to 9", "whole number"),
        ({"priority": True}, "priority True is not within 0 to 9", "whole number"),
        (
            {"weight": 0},
            "weight 0 is not a whole number from 1 to 1000000",
            "1 for an ordinary job",
        ),
        ({"group_limit": 0}, "group_limit 0 is not a whole number from 1 to 1000000", "use 1"),
        ({"group_limit": 1_000_001}, "group_limit 1000001 is not a whole number", "use 1"),
        ({"group_rate": 60}, "group_rate 60 is not a Rate", "use Rate(60, per=60)"),
        ({"weight": 1.5}, "weight 1.5 is not a whole number from 1", "1 for an ordinary job"),
        ({"retry": 3}, "retry 3 is not a Retry", "use Retry(5)"),
        ({"timeout": 0}, "timeout 0 is not within 0 and ten years", "None for no limit"),
        (
            {"timeout": float("nan")},
            "timeout nan is not within 0 and ten years",
            "None for no limit",
        ),
        ({"timeout": "30"}, "timeout '30' is not within 0 and ten years", "give seconds"),
        ({"runtime": "thread"}, "runtime 'thread' is not a Runtime", "Runtime.TWISTED"),
        (
            {"runtime": Runtime.ASYNCIO, "perform": _plain},
            "an asyncio handler must be a coroutine",
            "async def perform(self, job)",
        ),
        (
            {"runtime": Runtime.THREAD, "perform": _coroutine},
            "must be a plain function",
            "def perform(self, job)",
        ),
        ({"queue": "a\0b"}, "is not a name", "1 to 200 characters"),
        ({"redacted": "no"}, "redacted 'no' is neither True nor False", "use True to hide"),
        ({"encrypted": 1}, "encrypted 1 is neither True nor False", "TXQUEUE_PAYLOAD_KEY"),
        ({"group": 5}, "group 5 is neither a text nor a Key", "1 to 1000 characters"),
        ({"tenant": ""}, "tenant '' is neither a text nor a Key", "1 to 200 characters"),
        ({"unique": ("a", 1)}, "unique ('a', 1) is neither a text nor a Key", "Key("),
        ({"group": _plain}, "group is a method", "@property"),
        ({"tags": _plain}, "tags is a method", "@property"),
        ({"tags": {"shop": 1}}, "the tag shop is no text but a int", "mapping of names"),
        ({"tags": "shop"}, "tags are no mapping but a str", "mapping of names"),
        (
            {"__annotations__": {"queue": str}},
            "the field queue hides the policy of that name",
            "leave out the annotation if the policy is meant (queue = 'mail'); else rename the",
        ),
    ],
    ids=lambda value: None if isinstance(value, dict) else str(value)[:40],
)
def test_a_wrong_policy_is_refused_at_definition(
    body: dict[str, Any], what: str, remedy: str
) -> None:
    """The error names the class, says what is wrong and how to fix it."""
    with pytest.raises(InvalidWork) as caught:
        type("Wrong", (WorkItem,), {"__module__": __name__, "__qualname__": "Wrong", **body})
    assert caught.value.what.startswith("Wrong: ")
    assert what in caught.value.what
    assert remedy in caught.value.remedy
    assert "Wrong" not in {cls.__name__ for cls in known_work_types()}


def test_fields_may_have_the_names_of_keys() -> None:
    """What each job has of its own is checked when the job is enqueued."""

    @define
    class Fielded(WorkItem):
        group: str = ""
        unique: Any = field(default=5)

    assert (Fielded().group, Fielded().unique) == ("", 5)


def test_policy_is_inherited_but_not_the_name() -> None:
    """A subclass is a work type of its own with its base's policy."""

    @define
    class Mail(WorkItem):
        work_type = "mail"
        queue = "mail"

    @define
    class Urgent(Mail):
        priority = Priority.HIGH

    assert (Urgent.queue, Urgent.priority) == ("mail", 7)
    assert f"{__name__}.{Urgent.__qualname__}".replace("<locals>", "locals") == Urgent.work_type


@pytest.mark.parametrize("decorate", [define, frozen, define(slots=False)])
def test_the_class_that_attrs_makes_is_the_one_known(decorate: Any) -> None:
    """With slots attrs makes a second class; jobs are made of that one."""

    class Sliced(WorkItem):
        number: int

    made = decorate(Sliced)
    assert find_work_type(made.work_type) is made
    assert is_work_type(made)
    assert is_work_type(Sliced) is (made is Sliced)


def test_a_class_defined_again_replaces_the_first() -> None:
    """A module may be reloaded."""

    def made() -> type[WorkItem]:
        @define
        class Again(WorkItem):
            number: int

        return Again

    first, second = made(), made()
    assert second is find_work_type(first.work_type)
    assert not is_work_type(first)


def test_two_classes_cannot_share_a_name() -> None:
    """A job could not tell which of them it is."""

    @define
    class One(WorkItem):
        work_type = "shared"

    with pytest.raises(InvalidWork) as caught:

        @define
        class Two(WorkItem):
            work_type = "shared"

    assert "work_type 'shared' is taken by " in caught.value.what
    assert "One" in caught.value.what
    assert "a work_type of its own" in caught.value.remedy
    assert find_work_type("shared") is One


def test_policy_may_be_annotated_as_class_variable() -> None:
    """Only a field hides a policy."""

    @define
    class Annotated(WorkItem):
        queue: ClassVar[str] = "mail"

    assert Annotated.queue == "mail"


def test_a_field_named_by_attrs_alone_is_refused() -> None:
    """`queue = field()` would make a field of the policy as well."""
    with pytest.raises(InvalidWork, match="is not a name"):

        @define
        class Hidden(WorkItem):
            queue = field(default="mail")  # type: ignore[var-annotated]  # what the test is about


def test_an_unknown_name_says_what_is_known() -> None:
    """The error lists the names and the remedy."""

    @define
    class Known(WorkItem):
        work_type = "known.here"

    with pytest.raises(UnknownWorkType) as caught:
        find_work_type("no.such")
    assert "work type 'no.such' is not known here" in caught.value.what
    assert "--app" in caught.value.remedy


def test_known_types_are_sorted_by_name() -> None:
    """Nodes publish them in one order, so that they lock rows in one order."""
    names = [cls.work_type for cls in known_work_types()]
    assert sorted(names) == names


def test_a_work_item_without_a_handler_says_so() -> None:
    """The base performs nothing."""

    @define
    class Idle(WorkItem):
        pass

    assert not inspect.iscoroutinefunction(Idle.perform)
    with pytest.raises(NotImplementedError):
        Idle().perform(None)


def made(*bases: type, **body: object) -> type[WorkItem]:
    """A class with a policy, as attrs leaves it: with slots, made twice."""
    return define(type("Made", bases or (WorkItem,), {"work_type": "explicit.made", **body}))


@pytest.mark.parametrize(
    ("name", "usual"),
    [
        ("queue", "default"),
        ("priority", Priority.NORMAL),
        ("weight", 1),
        ("retry", Retry()),
        ("timeout", None),
        ("heartbeat", None),
        ("runtime", Runtime.TWISTED),
        ("group_limit", 1),
        ("group_rate", None),
        ("unique_mode", UniqueMode.KEEP),
        ("expires", False),
        ("redacted", False),
        ("encrypted", False),
        ("schedule", None),
    ],
)
def test_what_a_class_defines_is_explicit(name: str, usual: object) -> None:
    """Even if it says what holds anyway, and of a base below `WorkItem` as well."""
    assert getattr(WorkItem, name) == usual
    assert name not in explicit_policy(made())
    assert name in explicit_policy(made(**{name: usual}))
    base = type("Base", (WorkItem,), {name: usual}, is_abstract=True)
    assert name in explicit_policy(made(base))
    mixin = type("Mixin", (), {name: usual, "__slots__": ()})
    assert name in explicit_policy(made(mixin, WorkItem))


def test_a_policy_that_follows_is_explicit() -> None:
    """An encrypted type is redacted as well."""
    assert explicit_policy(made(encrypted=True)) >= {"encrypted", "redacted"}


def test_the_jobs_of_a_workset_have_what_its_items_define() -> None:
    """No more: for the rest the published policy of the workset's jobs holds."""
    items: Any = define(type("Item", (WorksetItem,), {"work_type": "explicit.item", "priority": 4}))
    assert explicit_policy(items.job_type) & {"queue", "priority", "weight"} == {"priority"}
