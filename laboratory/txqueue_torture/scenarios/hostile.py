"""An application that enqueues hostile input."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any, Final

from txqueue.errors import TxqueueError
from txqueue.store.driver.errors import answered
from txqueue.store.inquiries.reader import Session
from txqueue.store.reads.history import about_failures
from txqueue.store.reads.job_details import about_job, about_obstacles
from txqueue.store.reads.job_search import about_jobs
from txqueue.store.reads.queue_state import about_all
from txqueue_torture.demands import nothing_spent
from txqueue_torture.environment import Testbed
from txqueue_torture.scenario import scenario
from txqueue_torture.unnoted import UNNOTED

__all__ = ["hostile_enqueues"]

APP: Final = ("txqueue_torture.unnoted",)
CALLS: Final = 1500
SEED: Final = 839
LOOKED_AT: Final = 60
PATIENCE: Final = 30.0
_CANCEL: Final = "select {schema}.cancel(array(select job_id from {schema}.job where state in"
_OURS: Final = " ('waiting', 'ready', 'assigned') and not payload ? 'intent' limit 500), 'torture')"
_LEFT: Final = """select count(*) from {schema}.job
    where state in ('waiting', 'ready', 'assigned') and not payload ? 'intent'"""

NAMES: Final = (
    *(UNNOTED, "unknown.type", "", " ", "x" * 300, "queue", "default", "a\nb", "\x1b[31mred"),
    *("'; drop table txqueue.job; --", "\u202egnp", "Zoë 🎉", "%s", "null", "txqueue control"),
)
MOMENTS: Final = (
    *("infinity", "-infinity", "10000-01-01", "294276-01-01", "4713-01-01 BC", "0001-01-01"),
    *("now", "epoch", "2999-12-31T23:59:60Z", "tomorrow", "soon", "1999-01-01"),
)
NUMBERS: Final = (0, 1, -1, 4, 9, 10, 32767, 32768, 2**31 - 1, 2**31, 2**63 - 1, -(2**63), 2**64)
VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, "", "5", [], {}, [1], {"a": {"b": [1, None]}}, -0.5, 0.001, 5),
    *(1e308, 10**400, "9" * 70_000, "infinity", 315360001, 32768),
)
OPTIONS: Final = (
    *("timeout", "attempts", "expires", "redacted", "as_of", "once_for", "created_by", "unique"),
    *("schedule", "due", "stage", "parents", "after", "grouped", "left", "", "heartbeat", "tags"),
)
PAYLOADS: Final[tuple[Any, ...]] = (
    *({}, {"on": ""}, {"on": 5}, {"on": None, "more": 1}, [], "text", 7, None),
    *({"on": "\x01" * 5000}, {"on": "x" * 1_000_000}, {"on": "x" * 3_000_000}, {"": {"": []}}),
)


@scenario("hostile_enqueues", "options, dates, sizes and names of all kinds, by the enqueue role")
def hostile_enqueues(testbed: Testbed) -> None:
    """Enqueue hostile input: each call is refused or takes effect, other jobs and tools work."""
    node = testbed.start_node("n1", app=APP).wait_up()
    testbed.start_client(rate=20, kinds=("noop", "grouped:0.1", "effect:0.05"))
    testbed.flow()
    with testbed.fault("hostile enqueues", snapshot=False) as fault:
        taken, refused = _enqueue(testbed, int(CALLS * testbed.scale))
        fault.evidence = f"{taken} calls taken, {refused} refused" if taken and refused else ""
    testbed.figure("taken", taken)
    testbed.figure("refused", refused)
    testbed.flow()
    for complaint in _complaints(testbed):
        testbed.expect(False, complaint)
    _cancel_all(testbed)
    testbed.drain()
    testbed.expect("registering anew" not in node.log, "the node keeps its lease")
    testbed.expect("Unhandled" not in node.log, "nothing of it gets out of a job")
    nothing_spent(testbed)


def _enqueue(testbed: Testbed, calls: int) -> tuple[int, int]:
    """Call the enqueue role's functions with random arguments; count the accepted ones."""
    chance = random.Random(SEED)
    taken = refused = 0
    with testbed.database.session() as session:
        session.rows(f"set role {testbed.schema}_enqueue")
        node, incarnation = (
            session.rows(f"select node_id, incarnation from {testbed.schema}.node_info limit 1")[0]
            if _may_read(testbed, session)
            else (1, 1)
        )
        for _ in range(calls):
            sql, arguments = _call(testbed.schema, chance, node, incarnation)
            try:
                with answered(PATIENCE):
                    session.rows(sql, arguments)
                taken += 1
            except TxqueueError:
                refused += 1
    return taken, refused


def _may_read(testbed: Testbed, session: Session) -> bool:
    table = f"{testbed.schema}.node_info"
    return bool(session.value("select has_table_privilege(%s, 'select')", (table,)))


def _call(
    schema: str, chance: random.Random, node: int, incarnation: int
) -> tuple[str, tuple[object, ...]]:
    """Return a random statement that enqueues, and its parameters."""
    arguments = dict(_arguments(chance))
    names = "".join(f', "{name}" => %s::{_TYPES[name]}' for name in arguments)
    values = (chance.choice(NAMES), json.dumps(chance.choice(PAYLOADS)), *arguments.values())
    which = chance.random()
    if which < 0.6:
        return f"select {schema}.enqueue(%s, %s{names})", values
    if which < 0.8:
        job = {"work_type": values[0], "payload": chance.choice(PAYLOADS), **_as_json(arguments)}
        return f"select {schema}.enqueue_many(%s)", (json.dumps([job] * chance.choice((0, 1, 3))),)
    few = {name: value for name, value in arguments.items() if name in _ASSIGNABLE}
    names = "".join(f', "{name}" => %s::{_TYPES[name]}' for name in few)
    where = (chance.choice((node, 0, None)), chance.choice((incarnation, 0, 2**31 - 1)))
    call = f"select count(*) from {schema}.enqueue_assigned(%s, %s, %s, %s{names})"
    return call, (*where, *values[:2], *few.values())


_TYPES: Final = {
    "queue": "text",
    "priority": "integer",
    "weight": "integer",
    "not_before": "timestamptz",
    "not_after": "timestamptz",
    "group": "text",
    "options": "jsonb",
    "tenant": "text",
    "unique": "text",
    "unique_mode": "text",
    "after": "bigint[]",
}
_ASSIGNABLE: Final = ("queue", "priority", "weight", "options")


def _arguments(chance: random.Random) -> Iterator[tuple[str, object]]:
    makers: dict[str, Callable[[], object]] = {
        "queue": lambda: chance.choice(("default", *NAMES)),
        "priority": lambda: chance.choice(NUMBERS),
        "weight": lambda: chance.choice(NUMBERS),
        "not_before": lambda: chance.choice(MOMENTS),
        "not_after": lambda: chance.choice(MOMENTS),
        "group": lambda: chance.choice(NAMES),
        "options": lambda: json.dumps(_options(chance)),
        "tenant": lambda: chance.choice(NAMES),
        "unique": lambda: chance.choice(NAMES),
        "unique_mode": lambda: chance.choice(("keep", "replace", "again", "reject", "once", "?")),
        "after": lambda: [chance.choice((0, 1, -1, 2**63 - 1))],
    }
    for name, make in makers.items():
        if chance.random() < 0.2:
            yield name, make()


def _options(chance: random.Random) -> Any:
    if chance.random() < 0.1:
        return chance.choice(VALUES)
    return {chance.choice(OPTIONS): chance.choice(VALUES) for _ in range(chance.randint(0, 3))}


def _as_json(arguments: dict[str, object]) -> dict[str, object]:
    options = arguments.get("options")
    return arguments if options is None else {**arguments, "options": json.loads(str(options))}


def _complaints(testbed: Testbed) -> Iterator[str]:
    """Run all queries of the command line; yield a text for each that fails."""
    schema = testbed.schema
    with testbed.database.session() as session:
        inquiries: list[tuple[str, Any]] = [
            ("status", about_all(schema)),
            ("jobs", about_jobs(schema, {}, 1000)),
            ("failures", about_failures(schema)),
        ]
        strange = session.rows(
            f"select job_id from {schema}.job where not payload ? 'intent' order by job_id"
        )
        some = random.Random(SEED).sample(strange, min(LOOKED_AT, len(strange)))
        for (job_id,) in some:
            inquiries += [(f"job {job_id}", about_job(schema, job_id))]
            inquiries += [(f"explain {job_id}", about_obstacles(schema, job_id))]
        for name, inquiry in inquiries:
            try:
                session.find(inquiry)
            except Exception as error:
                yield f"{name} answers, but: {type(error).__name__}: {error}"


def _cancel_all(testbed: Testbed) -> None:
    """Cancel jobs that can never run, some hundred at a time."""
    cancel = (_CANCEL + _OURS).format(schema=testbed.schema)
    left = _LEFT.format(schema=testbed.schema)

    def is_done() -> bool:
        testbed.database.rows(cancel)
        return not testbed.database.value(left)

    testbed.wait(is_done, "all of it can be cancelled", 60.0, 0.2)
