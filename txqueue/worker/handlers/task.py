"""Functions as work: a decorator that makes a work type of a function and its parameters."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from functools import update_wrapper
from types import SimpleNamespace, new_class
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Generic,
    ParamSpec,
    Protocol,
    TypeVar,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import attrs

from txqueue.errors import InvalidWork
from txqueue.model.job_policy import JobPolicy, Runtime
from txqueue.model.names_elsewhere import remedy_for
from txqueue.model.record_types import fields_of
from txqueue.model.work_item import WorkItem

if TYPE_CHECKING:
    from txqueue.worker.handlers.running_job import RunningJob
    from txqueue.worker.handlers.thread_job import ThreadJob


P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
J = TypeVar("J", "RunningJob", "ThreadJob")

# An annotation that names it is not evaluated: that would import Twisted.
_JOB: Final = re.compile(r"(?:\w+\.)*(?:RunningJob|ThreadJob)")
# What other queues pass first has such names.
_NAMES_OF_JOBS: Final = frozenset({"self", "job", "task", "context", "ctx"})
_CALLS_ELSEWHERE: Final = frozenset(
    ("apply", "apply_async", "defer", "delay", "enqueue", "kiq", "s", "send", "si")
)
_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class TaskPolicy(JobPolicy, total=False):
    """The policy of a task's jobs: each option is the attribute of `WorkItem` of that name.

    A function without ``async`` runs in a thread unless ``runtime`` says otherwise.
    """

    queue: str
    priority: int
    runtime: Runtime
    omit_defaults: bool


class Task(Generic[P, Q, R]):
    """A function that is a work type as well; made by `task`.

    To call it is to call the function, here and now. ``work()`` takes the same arguments, without
    the job, and returns the work item that every ``enqueue`` takes.

    Attributes:
        item: The class of its work items; their fields are the parameters.
    """

    __name__: str

    def __init__(self, function: Callable[Q, R], item: type[WorkItem]) -> None:
        self._function = function
        self.item = item
        update_wrapper(self, function)

    def __call__(self, *args: Q.args, **kwargs: Q.kwargs) -> R:
        """Call the function."""
        return self._function(*args, **kwargs)

    def work(self, *args: P.args, **kwargs: P.kwargs) -> WorkItem:
        """Return a work item with these arguments.

        Raises:
            TypeError: When the function does not take the arguments.
        """
        return self.item(*args, **kwargs)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            said = "; enqueue its work: enqueue(connection, task.work(...))"
            said = said if name in _CALLS_ELSEWHERE else ""
            raise AttributeError(f"a task has no attribute {name!r}{said}", name=name, obj=self)

    @property
    def work_type(self) -> str:
        """The name that is stored with each job."""
        return self.item.work_type

    def __repr__(self) -> str:
        return f"<task {self.work_type}>"


class TaskMaker(Protocol):
    """Makes a task of a function; what `task` with options returns."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[J, P], R], /
    ) -> Task[P, Concatenate[J, P], R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, P, R]: ...


@overload
def task(function: Callable[Concatenate[J, P], R], /) -> Task[P, Concatenate[J, P], R]: ...


@overload
def task(function: Callable[P, R], /) -> Task[P, P, R]: ...


@overload
def task(*, name: str | None = None, **policy: Unpack[TaskPolicy]) -> TaskMaker: ...


def task(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    **policy: Unpack[TaskPolicy],
) -> Any:
    """Make a work type of a function; a decorator, with or without options.

    Its parameters are the payload, and need annotations; ``**fields: Unpack[Order]`` stands for
    each key of a TypedDict. If the first one is annotated as `RunningJob`, or `ThreadJob` in a
    thread, it gets the job and is no part of the payload. A coroutine awaits Deferreds, or, with
    ``runtime=Runtime.ASYNCIO``, what asyncio has; a plain function runs in a thread.

    Args:
        function: The function, defined in a module that nodes import.
        name: The work type; by default the function's module and qualified name.
        policy: The policy of its jobs: attributes of `WorkItem`, by their names.

    Raises:
        InvalidWork: When no work type can be made of the function, or a policy is not valid.
    """

    def made(function: Callable[..., Any]) -> Task[..., ..., Any]:
        return Task(function, _item_of(function, name, policy))

    return made if function is None else made(function)


def _item_of(
    function: Callable[..., Any], name: str | None, policy: Mapping[str, Any]
) -> type[WorkItem]:
    """Return a class whose fields are the parameters of the function."""
    _check(function, policy)
    takes_job, own = _split(_annotated(function))
    parameters = [part for each in own for part in _parts(function, each)]
    for parameter in parameters:
        _check_parameter(function, parameter)
    body = {
        "__module__": function.__module__,
        "__qualname__": function.__qualname__,
        "__doc__": function.__doc__,
        "perform": _perform(function, takes_job, parameters),
        "runtime": Runtime.TWISTED if inspect.iscoroutinefunction(function) else Runtime.THREAD,
        **({} if name is None else {"work_type": name}),
        **policy,
    }
    fields = {parameter.name: _field(parameter) for parameter in parameters}
    cls = new_class(function.__name__, (WorkItem,), exec_body=lambda space: space.update(body))
    return attrs.define(cls, these=fields, auto_attribs=False)


def _check(function: Callable[..., Any], policy: Mapping[str, Any]) -> None:
    if not inspect.isfunction(function):
        raise InvalidWork(f"{function!r} is not a function", "decorate a function of a module")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidWork(
            f"{function.__qualname__} yields, and nothing would run it",
            "return the result; to report partial work, call job.progress()",
        )
    if unknown := policy.keys() - TaskPolicy.__annotations__.keys():
        raise InvalidWork(
            f"a task has no option {', '.join(sorted(unknown))}",
            remedy_for(unknown, ["name", *TaskPolicy.__annotations__]),
        )


def _annotated(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters with their annotations evaluated, except one that names the job."""
    try:
        parameters = inspect.signature(function).parameters.values()
        plain = {each.name: each.annotation for each in parameters if not _is_job(each.annotation)}
        # What a function has no annotation for is not one of typing's forms either.
        known = {name: kind for name, kind in plain.items() if kind is not inspect.Parameter.empty}
        holder: Any = SimpleNamespace(__annotations__=known)
        hints = get_type_hints(holder, vars(inspect.getmodule(function)), include_extras=True)
    except Exception as error:
        raise InvalidWork(
            f"the annotations of {function.__qualname__} cannot be used: {error}",
            "import what they name at run time, not under TYPE_CHECKING, at the module's top level",
        ) from None
    return [each.replace(annotation=hints.get(each.name, each.annotation)) for each in parameters]


def _is_job(annotation: object) -> bool:
    if isinstance(annotation, str):
        return _JOB.fullmatch(annotation) is not None
    return isinstance(annotation, type) and annotation.__name__ in ("RunningJob", "ThreadJob")


def _split(parameters: list[inspect.Parameter]) -> tuple[bool, list[inspect.Parameter]]:
    """Return whether the first parameter takes the job, and all others."""
    takes_job = bool(parameters) and _is_job(parameters[0].annotation)
    return takes_job, parameters[takes_job:]


def _parts(
    function: Callable[..., Any], parameter: inspect.Parameter
) -> Iterator[inspect.Parameter]:
    """Yield the parameter, or one for each key of the TypedDict that is unpacked in it."""
    if get_origin(parameter.annotation) is not Unpack:
        yield parameter
        return
    for key in fields_of(get_args(parameter.annotation)[0]):
        if key.default is not attrs.NOTHING:
            raise InvalidWork(
                f"the key {key.name} in {parameter.name} of {function.__qualname__} may be absent",
                "have the TypedDict require it, or make it a parameter with a default",
            )
        yield inspect.Parameter(key.name, inspect.Parameter.KEYWORD_ONLY, annotation=key.type)


def _check_parameter(function: Callable[..., Any], parameter: inspect.Parameter) -> None:
    for what, remedy in _complaints(parameter):
        raise InvalidWork(
            f"the parameter {parameter.name} of {function.__qualname__} {what}", remedy
        )


def _complaints(parameter: inspect.Parameter) -> Iterator[tuple[str, str]]:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        yield "takes any number of arguments", "name each: the payload is checked by them"
    if parameter.annotation is parameter.empty:
        yield "has no annotation", _to_annotate(parameter.name)
    if _is_job(parameter.annotation):
        yield "takes the job and is not the first", "make it the first, where type checkers find it"
    if hasattr(WorkItem, parameter.name) or parameter.name == "work_type":
        yield "has the name of an attribute of WorkItem", "give the parameter another name"


def _to_annotate(name: str) -> str:
    remedy = "annotate it: the payload is checked by its type"
    if name not in _NAMES_OF_JOBS:
        return remedy
    return (
        f"if it is to get the job, annotate the first parameter: {name}: txqueue.RunningJob, or"
        f" txqueue.ThreadJob where the function is not async; else {remedy}"
    )


def _field(parameter: inspect.Parameter) -> Any:
    return attrs.field(
        default=attrs.NOTHING if parameter.default is parameter.empty else parameter.default,
        type=parameter.annotation,
        kw_only=parameter.kind is parameter.KEYWORD_ONLY,
        alias=parameter.name,
    )


def _perform(
    function: Callable[..., Any], takes_job: bool, parameters: list[inspect.Parameter]
) -> Callable[..., Any]:
    positional = [each.name for each in parameters if each.kind in _POSITIONAL]
    named = [each.name for each in parameters if each.kind not in _POSITIONAL]

    def called(work: WorkItem, job: Any) -> Any:
        leading = (job,) if takes_job else ()
        args = (getattr(work, name) for name in positional)
        return function(*leading, *args, **{name: getattr(work, name) for name in named})

    async def awaited(work: WorkItem, job: Any) -> Any:
        return await called(work, job)

    perform = awaited if inspect.iscoroutinefunction(function) else called
    # By its annotation, a job that calls this one reads the result.
    vars(perform).update(__signature__=inspect.signature(perform), __wrapped__=function)
    return perform
