"""The acts of operators: forms that change something, each recorded with the operator's name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Any

from attrs import define, evolve, field

from txqueue.errors import ConfigurationError, InvalidWork, Refused, TxqueueError
from txqueue.model.humanize import amount, counted, plain
from txqueue.model.operator_acts import ACTS, undone_text
from txqueue.model.results import check_name
from txqueue.policy.findings.explanation import Explanation, explain_refusal, refusal_text
from txqueue.store.reads.job_details import about_obstacles
from txqueue.store.reads.job_search import LOOKED_AT, about_bound, about_jobs
from txqueue.store.reads.queue_state import about_clock
from txqueue.store.reads.steps import about_awaited, unawaited
from txqueue.web.filters import FILTERS, chosen_filters
from txqueue.web.messages import NOTICE, PageRequest, Reply, Role, Route, redirect
from txqueue.web.page_services import PageServices
from txqueue.web.pages.enqueue_form import SENT, enqueue
from txqueue.web.pages.job_details import job, put_payload
from txqueue.web.pages.schedule_editor import FIELDS, edit

COUNTED = 10_000
"""The most jobs that one act on all that match changes."""
# The most jobs of one call, which holds their locks, and of how many it is said why they stay.
_AT_ONCE, _EXPLAINED = 1000, 3
_OF_JOBS = tuple(name for name, act in ACTS.items() if act.states)
_ASKED = {value.name for name in _OF_JOBS for value in ACTS[name].asked}
_SUBJECT = ("kind", "key")
_LIMITS = ("concurrency", "rate", "reserve", "backlog", "share")

Act = Callable[[PageServices, PageRequest], Awaitable[str]]
Handler = Callable[[PageServices, PageRequest], Awaitable[Reply]]


def acting_routes() -> list[Route]:
    """Return the routes of all acts; every one needs an operator."""
    acts: Mapping[str, tuple[Act, Iterable[str]]] = {
        "/act/jobs": (_act_on_jobs, ("act", "id", "all", *_ASKED, *FILTERS)),
        "/act/control": (_act_on_control, ("act", *_SUBJECT)),
        "/act/limit": (_set_limit, (*_SUBJECT, *_LIMITS)),
        "/act/failures": (_act_on_failures, ("act", "fingerprint", "minutes")),
        "/act/schedule": (_act_on_schedule, ("act", "name")),
        "/act/node": (_act_on_node, ("act", "name")),
        "/act/undo": (_undo, ("number",)),
        "/act/step": (_retry_from, ("id", "step")),
    }
    posted = {path: (_answering(act), fields) for path, (act, fields) in acts.items()}
    posted["/act/signal"] = (_send_signal, ("id", "name", "value", "answer"))
    for word in ("copy", "edit"):
        posted[f"/jobs/{{id}}/{word}"] = (put_payload, ("payload",))
    posted["/types/enqueue"] = (enqueue, ("name", "seen", *SENT))
    posted["/schedules/edit"] = (edit, ("name", "do", "seen", *FIELDS))
    return [
        Route("POST", path, Role.OPERATOR, _shown(handler), {"shown", "back", *fields})
        for path, (handler, fields) in posted.items()
    ]


def _shown(handler: Handler) -> Handler:
    """Refuse a form of a page that shows another database than the one that is served.

    A page stays open while a dashboard of another database is started at its address, or while
    another database gets the name of the one that the page shows.
    """

    async def checked(services: PageServices, request: PageRequest) -> Reply:
        mark = await services.mark()
        if (shown := request.sent("shown")) != mark:
            what = "the page shows another database than this dashboard serves now"
            if shown is None:
                what = "the form does not tell which database its page shows"
            raise Refused(what, "reload the page, and act again")
        return await handler(services, evolve(request, mark=mark))

    return checked


def _answering(act: Act) -> Handler:
    async def handler(services: PageServices, request: PageRequest) -> Reply:
        message = await act(services, request)
        return redirect(request.way_back(), {NOTICE: services.notices.put(message)})

    return handler


def _needed(request: PageRequest, field: str) -> str:
    return _present(field, request.sent(field))


def _name(request: PageRequest, field: str) -> str:
    return _present(field, request.exact(field))


def _present(field: str, value: str | None) -> str:
    if value is None:
        raise ConfigurationError(f"the form lacks the field {field}", "send it from its page")
    return value


def _one_of(request: PageRequest, name: str, allowed: Sequence[str]) -> str:
    value = _needed(request, name)
    if value not in allowed:
        raise ConfigurationError(
            f"the field {name} cannot be {plain(value)[:50]!r}",
            f"choose one of: {', '.join(allowed)}",
        )
    return value


@define
class _Effect:
    """What an act did.

    Attributes:
        act: The name of the act.
        jobs: How many jobs came to what, in words.
        refused: The numbers of the first jobs that were left unchanged.
    """

    act: str
    jobs: dict[str, int] = field(factory=dict)
    refused: list[int] = field(factory=list)

    def add(self, row: Sequence[Sequence[Any]], arguments: Mapping[str, object]) -> None:
        """Add what one call of the act returned."""
        for value, job_ids in zip(ACTS[self.act].gives, row, strict=True):
            said = value.said.format(**arguments)
            self.jobs[said] = self.jobs.get(said, 0) + len(job_ids)
            if value.name == "refused":
                self.refused = [*self.refused, *job_ids][:_EXPLAINED]


async def _act_on_jobs(services: PageServices, request: PageRequest) -> str:
    """Act on the chosen jobs, or on all that match filters."""
    effect = _Effect(_one_of(request, "act", _OF_JOBS))
    if request.sent("all") is not None:
        return await _act_on_all(services, request, effect)
    job_ids = _numbers(request.form.get("id", ()))
    if not job_ids:
        return "No job was chosen."
    await _on_jobs(services, request, effect, job_ids)
    return f"{_counts(effect)}{await _reasons(services, effect.act, effect.refused)}"


async def _act_on_all(services: PageServices, request: PageRequest, effect: _Effect) -> str:
    """Act on all jobs that match, the newest first, a limited number."""
    schema, find = services.reads.schema, services.reads.find
    filters: dict[str, object] = {**chosen_filters(request), "act": effect.act}
    oldest = await find(about_bound(schema, filters))
    filters["from_job"] = oldest
    note = " There may be more: act again."
    for _ in range(COUNTED // _AT_ONCE):
        rows, _ = await find(about_jobs(schema, filters, _AT_ONCE))
        if rows:
            job_ids = [row["job_id"] for row in rows]
            await _on_jobs(services, request, effect, job_ids)
            filters["after"] = job_ids[-1]
        if len(rows) < _AT_ONCE:
            note = _searched(oldest)
            break
    return f"{_counts(effect)}{note}{await _reasons(services, effect.act, effect.refused)}"


def _searched(oldest: int | None) -> str:
    """Return a note if only the newest jobs were searched."""
    if oldest is None:
        return ""
    return f" Only the newest {amount(LOOKED_AT)} jobs were searched."


async def _on_jobs(
    services: PageServices, request: PageRequest, effect: _Effect, job_ids: Sequence[int]
) -> None:
    """Act on some jobs, and note what was done."""
    arguments: dict[str, object] = {"ids": list(job_ids)}
    for value in ACTS[effect.act].asked:
        try:
            arguments[value.name] = value.read(_name(request, value.name))
        except ValueError as error:
            raise ConfigurationError(f"the field {value.name}: {error}", "change it") from None
    row = await services.act(request, effect.act, arguments)
    effect.add(row, arguments)


async def _reasons(services: PageServices, act: str, refused: Sequence[int]) -> str:
    """Return why the first of some jobs were left unchanged, as sentences."""
    explanations = [await _refusal(services, act, job_id) for job_id in refused[:_EXPLAINED]]
    return "".join(f" {refusal_text(explanation)}" for explanation in explanations)


async def _refusal(services: PageServices, act: str, job_id: int) -> Explanation:
    try:
        explanation = await services.reads.find(about_obstacles(services.reads.schema, job_id))
    except TxqueueError as error:
        return Explanation(job_id, "", "unknown", error.what, error.remedy)
    return explain_refusal(act, explanation)


def _counts(effect: _Effect) -> str:
    parts = [f"{counted(number, 'job')} {name}" for name, number in effect.jobs.items() if number]
    return f"{', '.join(parts).capitalize()}." if parts else "No job was changed."


async def _act_on_control(services: PageServices, request: PageRequest) -> str:
    """Pause or resume a queue, a group or a tenant."""
    act = _one_of(request, "act", ("pause", "resume"))
    kind, key = _one_of(request, "kind", ("queue", "group", "tenant")), _name(request, "key")
    [is_changed] = await services.act(request, act, {"kind": kind, "key": key})
    return ACTS[act].told(f"The {kind} {key}", is_changed=is_changed)


async def _set_limit(services: PageServices, request: PageRequest) -> str:
    """Set the limits of a queue, a group or a tenant; an empty field lifts its limit."""
    kind, key = _one_of(request, "kind", ("queue", "group", "tenant")), _name(request, "key")
    names = [name for name in _LIMITS if name in request.form]
    values = {name: _limit(request, name) for name in names}
    without_limit = [name for name, value in values.items() if value is None]
    await services.act(
        request, "set_limit", {"kind": kind, "key": key, **values, "cleared": without_limit}
    )
    return f"The limits of the {kind} {key} are set."


def _limit(request: PageRequest, name: str) -> float | int | None:
    text = request.sent(name)
    if text is None:
        return None
    try:
        return float(text) if name in ("rate", "share", "reserve") else int(text)
    except ValueError:
        raise ConfigurationError(
            f"the limit {name} must be a number", "write digits, or nothing for no limit"
        ) from None


async def _act_on_failures(services: PageServices, request: PageRequest) -> str:
    """Retry, discard or postpone the failed jobs of one kind."""
    act = _one_of(request, "act", ("retry", "discard", "postpone"))
    arguments: dict[str, object] = {"fingerprint": _needed(request, "fingerprint")}
    bound_name = "until" if act == "postpone" else "before"
    if act == "postpone":
        arguments["delay"] = _whole(request, "minutes", 1, 527_040) * 60.0
    start = await services.reads.find(about_clock())
    total = 0
    for _ in range(COUNTED // _AT_ONCE):
        count, moment = await services.act(request, f"{act}_failures", arguments)
        total += count
        arguments[bound_name] = None if moment is None else str(moment)
        if not count:
            break
    participle = {"retry": "retried", "discard": "discarded", "postpone": "postponed"}[act]
    hint = " There may be more: act again." if total >= COUNTED else ""
    left = await _left(services, arguments["fingerprint"], start) if not hint else ""
    return f"{counted(total, 'job')} {participle}.{hint}{left}"


async def _left(services: PageServices, fingerprint: object, until: datetime) -> str:
    """Return why jobs of a kind still are as they failed before a moment."""
    filters = {"fingerprint": fingerprint, "failed_by": until, "state": "failed"}
    rows, _ = await services.reads.find(about_jobs(services.reads.schema, filters, _EXPLAINED))
    return await _reasons(services, "retry", [row["job_id"] for row in rows])


async def _act_on_schedule(services: PageServices, request: PageRequest) -> str:
    """Pause, resume, remove or run a schedule."""
    act = _one_of(request, "act", ("pause", "resume", "remove", "run"))
    name = _name(request, "name")
    [result] = await services.act(request, f"{act}_schedule", {"name": name})
    if act == "run":
        return f"The schedule {name} runs now, as job {result}."
    return ACTS[f"{act}_schedule"].told(f"The schedule {name}", is_changed=result)


async def _act_on_node(services: PageServices, request: PageRequest) -> str:
    """Drain a node, or let it accept jobs again."""
    act, name = _one_of(request, "act", ("drain", "undrain")), _name(request, "name")
    [is_changed] = await services.act(request, f"{act}_node", {"name": name})
    return ACTS[f"{act}_node"].told(f"Node {name}", is_changed=is_changed)


async def _undo(services: PageServices, request: PageRequest) -> str:
    """Take back an act."""
    [number] = _numbers([_needed(request, "number")])
    undone, kept = await services.act(request, "undo", {"number": number})
    left = "".join(f" {counted(jobs, 'job')} unchanged: {why}." for why, jobs in kept.items())
    return f"{undone_text(number, undone, kept)}{left}"


async def _retry_from(services: PageServices, request: PageRequest) -> str:
    """Run a failed or cancelled job again from one of its steps on."""
    [job_id], step = _numbers([_needed(request, "id")]), _name(request, "step")
    [count] = await services.act(request, "retry_from", {"job_id": job_id, "step": step})
    return f"Job {job_id} is to run again; {counted(count, 'step')} will be done again."


async def _send_signal(services: PageServices, request: PageRequest) -> Reply:
    """Send a signal; after a mistake, show the job's page with what was typed."""
    try:
        return await _answering(_signalled)(services, request)
    except InvalidWork as error:
        names = {"id": _needed(request, "id")}
        again = evolve(request, path=request.way_back(), names=names, notice=str(error))
        return evolve(await job(services, again), status=HTTPStatus.BAD_REQUEST)


async def _signalled(services: PageServices, request: PageRequest) -> str:
    [job_id], name = _numbers([_needed(request, "id")]), _name(request, "name")
    check_name(name, "signal")
    if (value := request.sent("answer") or request.sent("value")) is None:
        raise InvalidWork(f"the signal {name!r} has no value", 'write one, such as true or "yes"')
    arguments = {"job_id": job_id, "name": name, "value": value}
    awaited = await services.reads.find(about_awaited(services.reads.schema, job_id))
    await services.act(request, "send_signal", arguments)
    return f"Job {job_id} has the signal {name}. {unawaited(name, awaited)}".strip()


def _numbers(texts: Sequence[str]) -> list[int]:
    """Return job numbers.

    Raises:
        Refused: When one is not a number, or there are too many.
    """
    if len(texts) > _AT_ONCE:
        raise Refused(f"more than {_AT_ONCE:,} jobs are chosen", "act on all that match instead")
    if not all(text.isdecimal() and len(text) < 19 for text in texts):
        raise Refused(
            "the number of a chosen job has other characters than digits",
            "choose jobs by their boxes on the page Jobs",
        )
    return [int(text) for text in texts]


def _whole(request: PageRequest, name: str, least: int, most: int) -> int:
    text = _needed(request, name)
    if text.isdecimal() and len(text) < 10 and least <= int(text) <= most:
        return int(text)
    raise ConfigurationError(
        f"the field {name} must be a whole number from {least} to {most}", "write such a number"
    )
