"""The work types of Django's tasks: one for each task, named as its function is imported."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from string import Formatter
from types import SimpleNamespace, new_class
from typing import Any, ClassVar, Final, TypeVar, Unpack

import attrs

from txqueue.django import runs
from txqueue.django.framework import InvalidTask, changes_of, declared_task, normalize_json
from txqueue.errors import InvalidWork, UnknownWorkType
from txqueue.model.job_policy import JobPolicy, Priority, Retry, Runtime
from txqueue.model.keys import KEYS, Key, check_text
from txqueue.model.names_elsewhere import remedy_for
from txqueue.model.work_item import WorkItem, find_work_type

__all__ = ["DjangoPolicy", "TaskWork", "ensure_item", "job_priority", "policy", "work"]

F = TypeVar("F", bound=Callable[..., Any])

_POLICY: Final = "txqueue_policy"
"""The attribute of a function that has what `policy` was given."""


class DjangoPolicy(JobPolicy, total=False):
    """The policy of a task's jobs: each option is the attribute of `WorkItem` of that name.

    Queue and priority are those of the task itself.
    """


# With slots, attrs would make a second class, which is not abstract.
@attrs.define(slots=False)
class TaskWork(WorkItem, is_abstract=True):
    """A call of a task.

    Attributes:
        args: The positional arguments.
        kwargs: The arguments by name.
        using: What `Task.using` has changed of the declared task.
        function: The task's function.
        is_declared: Whether the class has the queue and the priority of the declared task.
        payload_rule: The part of its payloads' JSON Schema that the fields do not say.
    """

    args: list[Any] = attrs.field(factory=list)
    kwargs: dict[str, Any] = attrs.field(factory=dict)
    using: dict[str, Any] = attrs.field(factory=dict)

    function: ClassVar[Callable[..., Any]]
    is_declared: ClassVar[bool] = False
    payload_rule: ClassVar[Mapping[str, Any]] = {}
    omit_defaults = True
    # As with Django's own backends, a task that fails is not run again.
    retry = Retry(attempts=1)


def policy(**options: Unpack[DjangoPolicy]) -> Callable[[F], F]:
    """Give a task's jobs a policy; a decorator for the function, below ``@task``.

    ``group``, ``tenant`` and ``unique`` are texts, or a `Key` with parameters of the function in
    braces. Other backends ignore the policy.

    Args:
        options: Attributes of `WorkItem`, by their names.

    Raises:
        InvalidWork: When one is not valid.
    """
    if unknown := options.keys() - DjangoPolicy.__annotations__.keys():
        raise InvalidWork(
            f"a task's policy has no option {', '.join(sorted(unknown))}",
            f"{remedy_for(unknown, DjangoPolicy.__annotations__)}; queue_name and priority are"
            " options of @task",
        )

    def given(function: F) -> F:
        if not inspect.isfunction(function):
            raise InvalidWork(
                f"{function!r} is not a function", "write @policy(...) below @task, not above it"
            )
        # Checked here, whatever backend the task will have.
        _item(function, options)
        vars(function)[_POLICY] = options
        return function

    return given


def work(task: Any, /, *args: Any, **kwargs: Any) -> WorkItem:
    """Return the work item of a task and its arguments, for the functions of `txqueue.adapters`.

    With them, tasks can be in batches, and have options that ``Task.enqueue`` does not take.
    Options that the call does not name are those of the task: pass ``queue``, ``priority`` and
    ``not_before`` for what `Task.using` has changed.

    Raises:
        TypeError: When the function does not take the arguments, or one is of a type that JSON does
            not have.
        InvalidTask: When no work type can be made of the task.
    """
    cls = ensure_item(task)
    item = cls(normalize_json(list(args)), normalize_json(kwargs), changes_of(task))
    _bound(cls.function, item.args, item.kwargs, takes_context=task.takes_context)
    return item


def ensure_item(task: Any) -> type[TaskWork]:
    """Return the class of a task's jobs, made at the first call.

    Raises:
        InvalidTask: When no work type can be made of the task.
    """
    cls = _known(task)
    if cls is not None and cls.is_declared:
        return cls
    options = vars(task.func).get(_POLICY, {})
    if options.get("schedule") is not None:
        _check_needs_nothing(task)
    own = {"queue": task.queue_name, "priority": job_priority(task.priority), "is_declared": True}
    try:
        return _item(task.func, {**options, **own, "payload_rule": _payload_rule(task)})
    except InvalidWork as error:
        raise InvalidTask(str(error)) from error


def _payload_rule(task: Any) -> dict[str, Any]:
    """Return the schema of how many positional arguments a task takes; names may stand for them."""
    parameters = [*_signature(task.func).parameters.values()][int(task.takes_context) :]
    placed = [each for each in parameters if each.kind <= each.POSITIONAL_OR_KEYWORD]
    is_open = any(each.kind is each.VAR_POSITIONAL for each in parameters)
    needed = sum(each.default is each.empty for each in placed)
    enough = {"required": ["args"], "properties": {"args": {"minItems": needed}}}
    choice = {"anyOf": [enough, {"required": ["kwargs"]}]} if needed else {}
    return {"properties": {"args": {} if is_open else {"maxItems": len(placed)}}, **choice}


def _check_needs_nothing(task: Any) -> None:
    """Check that a schedule can call a task.

    Raises:
        InvalidTask: When it needs arguments.
    """
    try:
        _bound(task.func, (), {}, takes_context=task.takes_context)
    except TypeError as error:
        raise InvalidTask(
            f"{task.module_path} has a schedule, and cannot be called without arguments: {error};"
            " give its parameters defaults"
        ) from None


def job_priority(priority: int) -> int:
    """Return the priority of a job, 0 to 9, for one of a task, -100 to 100.

    0 is the normal one. The five levels above have 20 priorities of tasks each, the four below 25.
    """
    if priority > 0:
        return Priority.NORMAL + -(-priority // 20)
    return Priority.NORMAL + priority // 25


def _known(task: Any) -> type[TaskWork] | None:
    try:
        cls = find_work_type(task.module_path)
    except UnknownWorkType:
        return None
    return cls if issubclass(cls, TaskWork) and cls.function is task.func else None


def _item(function: Callable[..., Any], options: Mapping[str, Any]) -> type[TaskWork]:
    """Return a new class of jobs that call a function."""
    body = {
        "__module__": function.__module__,
        "__qualname__": function.__qualname__,
        "__doc__": function.__doc__,
        "function": staticmethod(function),
        **_way_to_run(function),
        **options,
        **{name: _of(function, name, key) for name, key in options.items() if name in KEYS},
    }
    cls = new_class(function.__name__, (TaskWork,), exec_body=lambda space: space.update(body))
    return attrs.define(cls, these={}, auto_attribs=False)


def _way_to_run(function: Callable[..., Any]) -> dict[str, Any]:
    if inspect.iscoroutinefunction(function):
        return {"perform": runs.perform_async, "runtime": Runtime.ASYNCIO}
    return {"perform": runs.perform, "runtime": Runtime.THREAD}


def _of(function: Callable[..., Any], name: str, key: Any) -> Any:
    """Return a key as the class has it: a text, or a property that makes it of the arguments."""
    parameters = _signature(function).parameters
    check_text(name, key, parameters)
    if not isinstance(key, Key):
        return key
    named = {field.partition(".")[0] for _, field, *_ in Formatter().parse(key.template) if field}
    if unknown := named - parameters.keys():
        raise InvalidWork(
            f"the {name} of {function.__qualname__} names no parameter: {', '.join(unknown)}",
            "name parameters of the function in braces",
        )

    def computed(item: TaskWork) -> str | None:
        takes_context = declared_task(item.work_type).takes_context
        arguments = _bound(function, item.args, item.kwargs, takes_context=takes_context)
        try:
            return key.__get__(SimpleNamespace(**arguments), SimpleNamespace)
        except AttributeError as error:
            raise InvalidWork(
                f"the {name} of {item.work_type}, {key!r}, cannot be computed: {error}",
                "pass arguments that have what it names, or name the parameters themselves",
            ) from None

    return property(computed)


# Each enqueue asks for it.
_signature = lru_cache(inspect.signature)


def _bound(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    takes_context: bool,
) -> dict[str, Any]:
    """Return the arguments of a call by parameter, with the defaults.

    Raises:
        TypeError: When the function does not take them.
    """
    leading = (None,) if takes_context else ()
    bound = _signature(function).bind(*leading, *args, **kwargs)
    bound.apply_defaults()
    return bound.arguments
