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
from txqueue.model.results import check_signal_name
from txqueue.policy.findings.explanation import Explanation, explain_refusal, refusal_text
from txqueue.store.reads.job_details import about_obstacles
from txqueue.store.reads.job_search import LOOKED_AT, about_bound, about_jobs
from txqueue.store.reads.queue_state import about_clock
from txqueue.store.reads.steps import about_awaited, unawaited
from txqueue.web.filters import FILTERS, chosen_filters
from txqueue.web.messages import Reply, Role, Route
from txqueue.web.page_services import Handler, PageVisit
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

Act = Callable[[PageVisit], Awaitable[str]]


def acting_routes() -> list[Route]:
    """Return the routes of all acts; every one needs an operator."""
    acts: Mapping[str, tuple[Act, Iterable[str]]] = {
        "/act/jobs": (_act_on_jobs, ("act", "id", "all", *_ASKED, *FILTERS)),
        "/act/control": (_act_on_control, ("act", *_SUBJECT)),
        "/act/limit": (_set_limit, (*_SUBJECT, *_LIMITS, *(f"shown_{name}" for name in _LIMITS))),
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
        Route("POST", path, Role.OPERATOR, _shown(handler), {"shown", "back", "why", *fields})
        for path, (handler, fields) in posted.items()
    ]


def _shown(handler: Handler) -> Handler:
    """Have a form act on the database that its page shows, or be refused.

    A page stays open while a dashboard of another database is started at its address, or while
    another database gets the name of the one that the page shows: of that, each act itself tells.
    """

    async def checked(visit: PageVisit) -> Reply:
        mark = visit.request.sent("shown")
        if mark is None or mark.partition(".")[0] != visit.place:
            what = "the page shows another database than this dashboard serves now"
            if mark is None:
                what = "the form does not tell which database its page shows"
            raise Refused(what, "reload the page, and act again")
        return await handler(evolve(visit, request=evolve(visit.request, mark=mark)))

    return checked


def _answering(act: Act) -> Handler:
    async def handler(visit: PageVisit) -> Reply:
        return visit.told(await act(visit), visit.request.way_back())

    return handler


def _needed(visit: PageVisit, field: str) -> str:
    if (value := visit.request.exact(field)) is None:
        raise ConfigurationError(f"the form lacks the field {field}", "send it from its page")
    return value


def _one_of(visit: PageVisit, name: str, allowed: Sequence[str]) -> str:
    value = _needed(visit, name)
    if value not in allowed:
        raise ConfigurationError(
            f"the field {name} cannot be {plain(value)[:50]!r}",
            f"choose one of: {', '.join(allowed)}",
        )
    return value


def _job_of(visit: PageVisit) -> int:
    [job_id] = _numbers([_needed(visit, "id")])
    return job_id


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


async def _act_on_jobs(visit: PageVisit) -> str:
    """Act on the chosen jobs, or on all that match filters."""
    effect = _Effect(_one_of(visit, "act", _OF_JOBS))
    if visit.request.sent("all") is not None:
        return await _act_on_all(visit, effect)
    job_ids = _numbers(visit.request.form.get("id", ()))
    if not job_ids:
        return "No job was chosen."
    await _on_jobs(visit, effect, job_ids)
    return f"{_counts(effect)}{await _reasons(visit, effect.act, effect.refused)}"


async def _act_on_all(visit: PageVisit, effect: _Effect) -> str:
    """Act on all jobs that match, the newest first, a limited number."""
    filters: dict[str, object] = {**chosen_filters(visit.request), "act": effect.act}
    filters["from_job"] = oldest = await visit.find(about_bound, filters)
    note = " There may be more: act again."
    for _ in range(COUNTED // _AT_ONCE):
        rows, _ = await visit.find(about_jobs, filters, _AT_ONCE)
        if rows:
            job_ids = [row["job_id"] for row in rows]
            await _on_jobs(visit, effect, job_ids)
            filters["after"] = job_ids[-1]
        if len(rows) < _AT_ONCE:
            searched = f" Only the newest {amount(LOOKED_AT)} jobs were searched."
            note = "" if oldest is None else searched
            break
    return f"{_counts(effect)}{note}{await _reasons(visit, effect.act, effect.refused)}"


async def _on_jobs(visit: PageVisit, effect: _Effect, job_ids: Sequence[int]) -> None:
    """Act on some jobs, and note what was done."""
    arguments: dict[str, object] = {"ids": list(job_ids)}
    for value in ACTS[effect.act].asked:
        try:
            arguments[value.name] = value.read(_needed(visit, value.name))
        except ValueError as error:
            raise ConfigurationError(f"the field {value.name}: {error}", "change it") from None
    effect.add(await visit.act(effect.act, arguments), arguments)


async def _reasons(visit: PageVisit, act: str, refused: Sequence[int]) -> str:
    """Return why the first of some jobs were left unchanged, as sentences."""
    explanations = [await _refusal(visit, act, job_id) for job_id in refused[:_EXPLAINED]]
    return "".join(f" {refusal_text(explanation)}" for explanation in explanations)


async def _refusal(visit: PageVisit, act: str, job_id: int) -> Explanation:
    try:
        explanation = await visit.find(about_obstacles, job_id)
    except TxqueueError as error:
        return Explanation(job_id, "", "unknown", error.what, error.remedy)
    return explain_refusal(act, explanation)


def _counts(effect: _Effect) -> str:
    parts = [f"{counted(number, 'job')} {name}" for name, number in effect.jobs.items() if number]
    return f"{', '.join(parts).capitalize()}." if parts else "No job was changed."


async def _act_on_control(visit: PageVisit) -> str:
    """Pause or resume a queue, a group or a tenant."""
    act = _one_of(visit, "act", ("pause", "resume"))
    subject = _subject(visit)
    [is_changed] = await visit.act(act, subject)
    return ACTS[act].told("The {kind} {key}".format(**subject), is_changed=is_changed)


def _subject(visit: PageVisit) -> dict[str, str]:
    kind = _one_of(visit, "kind", ("queue", "group", "tenant"))
    return {"kind": kind, "key": _needed(visit, "key")}


async def _set_limit(visit: PageVisit) -> str:
    """Set the limits of a queue, a group or a tenant.

    An empty field lifts its limit. One that is as the page showed it leaves what applies now.
    """
    subject, form = _subject(visit), visit.request.form
    changed = [name for name in _LIMITS if form.get(name) != form.get(f"shown_{name}")]
    if not changed:
        return "No limit was changed."
    values = {name: _limit(visit, name) for name in changed}
    without_limit = [name for name, value in values.items() if value is None]
    await visit.act("set_limit", {**subject, **values, "cleared": without_limit})
    return "The limits of the {kind} {key} are set.".format(**subject)


def _limit(visit: PageVisit, name: str) -> float | int | None:
    text = visit.request.sent(name)
    if text is None:
        return None
    try:
        return float(text) if name in ("rate", "share", "reserve") else int(text)
    except ValueError:
        raise ConfigurationError(
            f"the limit {name} must be a number", "write digits, or nothing for no limit"
        ) from None


async def _act_on_failures(visit: PageVisit) -> str:
    """Retry, discard or postpone the failed jobs of one kind."""
    act = _one_of(visit, "act", ("retry", "discard", "postpone"))
    arguments: dict[str, object] = {"fingerprint": _needed(visit, "fingerprint")}
    bound_name = "until" if act == "postpone" else "before"
    if act == "postpone":
        arguments["delay"] = _whole(visit, "minutes", 1, 527_040) * 60.0
    start = await visit.find(about_clock)
    total = 0
    for _ in range(COUNTED // _AT_ONCE):
        count, moment = await visit.act(f"{act}_failures", arguments)
        total += count
        arguments[bound_name] = None if moment is None else str(moment)
        if not count:
            break
    participle = {"retry": "retried", "discard": "discarded", "postpone": "postponed"}[act]
    hint = " There may be more: act again." if total >= COUNTED else ""
    left = await _left(visit, arguments["fingerprint"], start) if not hint else ""
    return f"{counted(total, 'job')} {participle}.{hint}{left}"


async def _left(visit: PageVisit, fingerprint: object, until: datetime) -> str:
    """Return why jobs of a kind still are as they failed before a moment."""
    filters = {"fingerprint": fingerprint, "failed_by": until, "state": "failed"}
    rows, _ = await visit.find(about_jobs, filters, _EXPLAINED)
    return await _reasons(visit, "retry", [row["job_id"] for row in rows])


async def _act_on_schedule(visit: PageVisit) -> str:
    """Pause, resume, remove or run a schedule."""
    act = _one_of(visit, "act", ("pause", "resume", "remove", "run"))
    name = _needed(visit, "name")
    [result] = await visit.act(f"{act}_schedule", {"name": name})
    if act == "run":
        return f"The schedule {name} runs now, as job {result}."
    return ACTS[f"{act}_schedule"].told(f"The schedule {name}", is_changed=result)


async def _act_on_node(visit: PageVisit) -> str:
    """Drain a node, or let it accept jobs again."""
    act, name = _one_of(visit, "act", ("drain", "undrain")), _needed(visit, "name")
    [is_changed] = await visit.act(f"{act}_node", {"name": name})
    return ACTS[f"{act}_node"].told(f"Node {name}", is_changed=is_changed)


async def _undo(visit: PageVisit) -> str:
    """Take back an act."""
    [number] = _numbers([_needed(visit, "number")], "act", "Actions")
    undone, kept = await visit.act("undo", {"number": number})
    left = "".join(f" {counted(jobs, 'job')} unchanged: {why}." for why, jobs in kept.items())
    return f"{undone_text(number, undone, kept)}{left}"


async def _retry_from(visit: PageVisit) -> str:
    """Run a failed or cancelled job again from one of its steps on."""
    job_id, step = _job_of(visit), _needed(visit, "step")
    [count] = await visit.act("retry_from", {"job_id": job_id, "step": step})
    return f"Job {job_id} is to run again; {counted(count, 'step')} will be done again."


async def _send_signal(visit: PageVisit) -> Reply:
    """Send a signal; after a mistake, show the job's page with what was typed."""
    try:
        return await _answering(_signalled)(visit)
    except InvalidWork as error:
        request, names = visit.request, {"id": _needed(visit, "id")}
        again = evolve(request, path=request.way_back(), names=names, notice=str(error))
        return evolve(await job(evolve(visit, request=again)), status=HTTPStatus.BAD_REQUEST)


async def _signalled(visit: PageVisit) -> str:
    job_id, name = _job_of(visit), _needed(visit, "name")
    check_signal_name(name)
    if (value := visit.request.sent("answer") or visit.request.sent("value")) is None:
        raise InvalidWork(f"the signal {name!r} has no value", 'write one, such as true or "yes"')
    arguments = {"job_id": job_id, "name": name, "value": value}
    awaited = await visit.find(about_awaited, job_id)
    await visit.act("send_signal", arguments)
    return f"Job {job_id} has the signal {name}. {unawaited(name, awaited)}".strip()


def _numbers(texts: Sequence[str], what: str = "job", page: str = "Jobs") -> list[int]:
    """Return the numbers of what was chosen on a page.

    Raises:
        Refused: When one is not a number, or there are too many.
    """
    if len(texts) > _AT_ONCE:
        raise Refused(f"more than {_AT_ONCE:,} jobs are chosen", "act on all that match instead")
    if not all(text.isdecimal() and len(text) < 19 for text in texts):
        raise Refused(f"the number of a chosen {what} is not of digits", f"see the page {page}")
    return [int(text) for text in texts]


def _whole(visit: PageVisit, name: str, least: int, most: int) -> int:
    text = _needed(visit, name).strip()
    if text.isdecimal() and len(text) < 10 and least <= int(text) <= most:
        return int(text)
    raise ConfigurationError(
        f"the field {name} must be a whole number from {least} to {most}", "write such a number"
    )
